"""``gmmatch compare``: several methods on the same rows, and what they keep."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gmmatch.cli.io.arguments import (
    AmountOption,
    EmbeddingColumnOption,
    EmbeddingsArgument,
    IdColumnOption,
    JsonOption,
    LabelsOption,
    MemoryOption,
    PerClassChoice,
    PerClassOption,
    SeedOption,
    parse_memory,
    split_names,
)
from gmmatch.cli.io.output import console, new_table, note, print_json, progress
from gmmatch.cli.io.reporting import ContentOption, MapOption, Report, ReportOption
from gmmatch.errors import InvalidInputError

if TYPE_CHECKING:
    from gmmatch.cli.io.inputs import Embeddings
    from gmmatch.selection.selection import Selection
    from gmmatch.types import Indices, Mask

# MMD compares every row with every other, so it takes a sample of large inputs.
SAMPLED_ROWS = 10_000


def compare(
    context: typer.Context,
    source: EmbeddingsArgument,
    k: AmountOption,
    methods: Annotated[
        str, typer.Option(help="Names with commas between them; see `gmmatch methods`.")
    ] = "robust,gm-matching,moderate,random",
    truth: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|COLUMN",
            help="The true labels, from a file (.npy, .txt, or a table, as file.csv::column) or a column of the "
            "input. A pick is then wrong if its label is not the true one.",
        ),
    ] = None,
    labels: LabelsOption = None,
    embedding_column: EmbeddingColumnOption = None,
    id_column: IdColumnOption = None,
    per_class: PerClassOption = PerClassChoice.proportional,
    seed: SeedOption = 0,
    memory: MemoryOption = None,
    report: ReportOption = None,
    map_choice: MapOption = None,
    content: ContentOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the page if it exists.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run several methods on the same rows and measure what they keep.

    Moment error is the distance between the means of the picks and of all rows, MMD the distance between them
    as distributions, both averaged over the classes; with --truth, the rows compared with are those whose label
    is true. Coverage is the distance from a row to its nearest pick. Less is better everywhere.

    \b
    Examples:
      gmmatch compare photos.emb -k 10% --methods robust,gm-matching,random
      gmmatch compare photos.emb -k 10% --report compared.html
      gmmatch compare noisy.emb -k 10% --truth true_labels.npy --json
    """
    names = split_names(methods, "--methods")
    limit = parse_memory(memory)
    page = Report(report, map_choice, content, force=force, context=context)
    from gmmatch.cli.io.inputs import open_embeddings
    from gmmatch.cli.io.selecting import check_request

    _load(names)
    embeddings = open_embeddings(
        source, labels=labels, memory=limit, embedding_column=embedding_column, id_column=id_column
    )
    page.find_contents(embeddings)
    asked = {"k": k, "per_class": per_class.argument, "seed": seed, "memory": limit}
    for name in names:
        check_request(embeddings, k=k, method=name)
    true_labels = _read_truth(truth, embeddings)
    comparison = Comparison(embeddings, true_labels, per_class.argument, seed)
    rows, selections = _measure(names, embeddings, comparison, asked, keep=report is not None)
    result = {"input": source, **comparison.describe(), "seed": seed, "rows": rows}
    try:
        page.write(selections, embeddings, measured=rows, caption=_caption(result), truth=true_labels)
    finally:  # what was measured is shown even if there can be no page of it
        if as_json:
            print_json(result)
        else:
            _print_table(result)
    if report is not None and not as_json:
        note(f"Wrote {report}: open it in a browser.")


def _load(names: list[str]) -> None:
    """Load the methods, so that no method's time includes that; with labels, which some of them learn from."""
    from gmmatch.selectors.registry import method_class, select

    for name in names:
        method_class(name)  # before the work, not after half of it
    for name in names:
        select([[0.0], [1.0], [2.0], [3.0]], y=[0, 0, 1, 1], k=2, method=name)


def _measure(
    names: list[str], embeddings: Embeddings, comparison: Comparison, asked: dict[str, Any], *, keep: bool
) -> tuple[list[dict[str, Any]], dict[str, Selection]]:
    """Run the methods; return their figures, and their selections if they are needed later."""
    from gmmatch.cli.io.selecting import run_selection

    rows, selections = [], {}
    with progress() as bar:
        for name in bar.track(names, description="Selecting and measuring"):
            selection, seconds = run_selection(embeddings, method=name, **asked)
            if keep:
                selections[name] = selection
            rows.append(
                {"method": name, "k": selection.k, **comparison.measure(selection), "seconds": seconds}
            )
    return rows, selections


def _print_table(result: dict[str, Any]) -> None:
    known = result["rows"][0]["contamination"] is not None
    title = f"{result['rows'][0]['k']:,} of {result['n_rows']:,} rows"
    table = new_table(title, caption=_caption(result))
    table.add_column("method", overflow="fold")
    headings = ["moment error", "MMD", "coverage (mean, max)", "seconds"]
    for heading in (["wrong labels"] if known else []) + headings:
        table.add_column(heading, justify="right")
    for row in result["rows"]:
        wrong = [f"{row['contamination']:.1%}"] if known else []
        covered = f"{row['coverage_mean']:.3g}, {row['coverage_max']:.3g}"
        distances = ["" if row[name] is None else f"{row[name]:.4g}" for name in ("moment_error", "mmd")]
        figures = [*distances, covered, f"{row['seconds']:.1f}"]
        table.add_row(row["method"], *wrong, *figures)
    console().print(table)


def _caption(result: dict[str, Any]) -> str:
    said = []
    if result["wrong_labels"] is not None:
        said.append(f"Of all rows, {result['wrong_labels']:.1%} are mislabeled.")
    if result["sampled_rows"] < result["n_rows"]:
        said.append(f"MMD and coverage are of a sample of {result['sampled_rows']:,} rows.")
    if result["classes"]:
        said.append(f"Moment error and MMD are averages over {result['classes']:,} classes.")
    return " ".join(said)


def _read_truth(text: str | None, embeddings: Embeddings) -> list[Any] | None:
    """Return the true labels that ``--truth`` names, one per row."""
    if text is None:
        return None
    from gmmatch.cli.io.inputs import labels_for

    if embeddings.labels is None:
        raise InvalidInputError(
            f"--truth {text}: {embeddings.path} has no labels to compare with; give some by --labels."
        )
    true, given = _plain(labels_for(embeddings, text, option="--truth")), _plain(embeddings.labels)
    types = {type(label) for label in given}
    # Everything in a text file is text, also the numbers.
    if {type(label) for label in true} <= {str, type(None)} and int in types and str not in types:
        try:
            true = [None if label is None else int(str(label)) for label in true]
        except ValueError:
            raise InvalidInputError(f"--truth {text} holds text, where the labels are numbers.") from None
    if not set(true) & set(given):
        raise InvalidInputError(
            f"--truth {text} has labels such as {true[0]!r}, and none of them is among those of "
            f"{embeddings.path}, such as {given[0]!r}: give labels of the same classes."
        )
    return true


def _plain(labels: Any) -> list[Any]:
    from gmmatch.selection.labels import plain_label

    values = labels.tolist() if hasattr(labels, "tolist") else labels
    return [plain_label(value) for value in values]


class Comparison:
    """The yardsticks for selections from the same rows, and which rows they are held against."""

    def __init__(self, embeddings: Embeddings, truth: list[Any] | None, per_class: Any, seed: int) -> None:
        import numpy as np

        from gmmatch.rows.rows import as_rows
        from gmmatch.selection.labels import group_rows
        from gmmatch.yardsticks import Yardsticks

        rows = as_rows(embeddings.rows)
        given = None if embeddings.labels is None else _plain(embeddings.labels)
        self.wrong: Mask | None = None
        if truth is not None and given is not None:
            self.wrong = np.array([one != other for one, other in zip(given, truth, strict=True)])
        self.trusted: Mask = np.ones(len(rows), dtype=np.bool_) if self.wrong is None else ~self.wrong
        classes: Indices | None = None
        if given is not None and per_class is not None:
            classes = np.full(len(rows), -1, dtype=np.int64)
            for number, group in enumerate(group_rows(given, n=len(rows), unlabeled="group")):
                if group.label is not None:
                    classes[group.rows] = number
        self.labeled = classes is not None and bool((classes >= 0).any())
        self.yardsticks = Yardsticks(
            rows,
            classes if self.labeled else None,
            reference=self.trusted,
            cover_all=True,
            sampled_rows=SAMPLED_ROWS,
            covered_rows=SAMPLED_ROWS,
            seed=seed,
        )

    def describe(self) -> dict[str, Any]:
        """Say what is compared with what."""
        rows = self.yardsticks.rows
        return {
            "n_rows": len(rows),
            "n_features": rows.n_features,
            "classes": self.yardsticks.n_classes if self.labeled else None,
            "wrong_labels": None if self.wrong is None else float(self.wrong.mean()),
            "sampled_rows": len(self.yardsticks.covered),
        }

    def measure(self, selection: Selection) -> dict[str, Any]:
        """Return the figures of a selection; None for one that is not known."""
        from gmmatch.metrics import contamination

        figures = asdict(self.yardsticks.measure(selection.indices))
        return {
            "contamination": None if self.wrong is None else contamination(selection, self.wrong),
            **{name: None if value != value else value for name, value in figures.items()},
        }
