"""``gmmatch compare``: several methods on the same rows, and what they keep."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gmmatch.cli.io.arguments import (
    AmountOption,
    JsonOption,
    LabeledInput,
    MemoryOption,
    MethodsOption,
    PerClassOption,
    SeedOption,
    parse_memory,
    parse_per_class,
    split_names,
)
from gmmatch.cli.io.output import note, print_json, print_table, progress
from gmmatch.cli.io.reporting import Report
from gmmatch.errors import InvalidInputError

if TYPE_CHECKING:
    from gmmatch.cli.io.inputs import Embeddings
    from gmmatch.screening.result import Screening
    from gmmatch.selection.selection import Selection
    from gmmatch.types import Indices, Mask

# MMD compares every row with every other, so it takes a sample of large inputs.
SAMPLED_ROWS = 10_000
# Of Cohen's kappa: below it, labels and truth agree hardly more often than by chance.
_LEAST_AGREEMENT = 0.1


def compare(
    *,
    context: typer.Context,
    k: AmountOption,
    methods: MethodsOption = "robust,gm-matching,moderate,random",
    truth: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|COLUMN",
            help="The true labels, from a file (.npy, .txt, or a table, as file.csv::column) or a column of the "
            "input. A table with a column of ids or paths is joined by it. A pick is then wrong if its label is not "
            "the true one.",
        ),
    ] = None,
    given: LabeledInput,
    per_class: PerClassOption = "proportional",
    seed: SeedOption = 0,
    memory: MemoryOption = None,
    page: Report,
    force: Annotated[bool, typer.Option("--force", help="Replace the page if it exists.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run several methods and measure what they keep.

    Picks are compared with the rows that the screening trusts, or with --truth, with those whose label is true.
    Moment error is the distance between the means of both, MMD the distance between them as distributions, averaged
    over the classes. Coverage is the distance from such a row to its nearest pick. Less is better.

    \b
    Examples:
      gmmatch compare photos.emb -k 10%
      gmmatch compare photos.emb -k 10% --methods robust,herding --report compared.html
      gmmatch compare noisy.emb -k 10% --truth true_labels.csv::label --json
    """
    names = split_names(methods, "--methods")
    limit = parse_memory(memory)
    page.check(force=force, context=context)
    from gmmatch.cli.io.selecting import check_request

    _load(names)
    embeddings = given.open(memory=limit)
    page.find_contents(embeddings)
    for name in names:
        check_request(embeddings, k=k, method=name)
    true_labels = _read_truth(truth, embeddings)
    shared = parse_per_class(per_class)
    asked = {"k": k, "per_class": shared, "seed": seed, "memory": limit}
    selections, rows = _select(names, embeddings, asked)
    screening = None
    if true_labels is None:
        screening = next((one.screening for one in selections.values() if one.screening is not None), None)
        screening = screening or _screened(embeddings)
    comparison = Comparison(embeddings, true_labels, screening, shared, seed)
    for row in rows:
        row |= comparison.measure(selections[row["method"]])
    result = {"input": given.source, **comparison.describe(), "seed": seed, "rows": rows}
    facts = {"measured": rows, "caption": _caption(result), "truth": true_labels}
    try:
        page.write(selections, embeddings, reference=comparison.trusted, **facts)
    finally:  # what was measured is shown even if there can be no page of it
        if as_json:
            print_json(result)
        else:
            _print_table(result)
    if page.report is not None and not as_json:
        note(f"Wrote {page.report}: open it in a browser.")


def _load(names: list[str]) -> None:
    """Load the methods, so that no method's time includes that; with labels, which some of them learn from."""
    from gmmatch.selectors.registry import method_class, select

    for name in names:
        method_class(name)  # before the work, not after half of it
    for name in names:
        select([[0.0], [1.0], [2.0], [3.0]], y=[0, 0, 1, 1], k=2, method=name)


def _select(
    names: list[str], embeddings: Embeddings, asked: dict[str, Any]
) -> tuple[dict[str, Selection], list[dict[str, Any]]]:
    """Run the methods; return their selections, and a line about each."""
    from gmmatch.cli.io.selecting import run_selection

    rows, selections = [], {}
    with progress() as bar:
        for name in bar.track(names, description="Methods"):
            selections[name], seconds = run_selection(embeddings, method=name, **asked)
            rows.append({"method": name, "k": selections[name].k, "seconds": seconds})
    return selections, rows


def _screened(embeddings: Embeddings) -> Screening:
    from gmmatch.screening.screen import screen

    return screen(embeddings.rows, embeddings.labels)


def _print_table(result: dict[str, Any]) -> None:
    shares = [
        (name, heading)
        for name, heading in (("contamination", "wrong labels"), ("estimated_mislabeled", "est. mislabeled"))
        if result["rows"][0][name] is not None
    ]
    title = f"{result['rows'][0]['k']:,} of {result['n_rows']:,} rows"
    lines = []
    for row in result["rows"]:
        covered = f"{row['coverage_mean']:.3g}, {row['coverage_max']:.3g}"
        distances = ["" if row[name] is None else f"{row[name]:.4g}" for name in ("moment_error", "mmd")]
        wrong = [f"{row[name]:.1%}" for name, _ in shares]
        lines.append([row["method"], *wrong, *distances, covered, f"{row['seconds']:.1f}"])
    headings = [heading for _, heading in shares] + ["moment error", "MMD", "coverage (mean, max)", "seconds"]
    print_table(title, ["method", *headings], lines, caption=_caption(result), narrow=True)


def _caption(result: dict[str, Any]) -> str:
    said = []
    if result["wrong_labels"] is not None:
        said.append(f"Of all rows, {result['wrong_labels']:.1%} are mislabeled.")
    else:
        said.append(f"Compared with the {result['trusted_rows']:,} rows that the screening trusts.")
    if result["estimated_noise"] is not None:
        said.append(f"Of all rows, an estimated {result['estimated_noise']:.1%} are mislabeled.")
    if result["sampled_rows"] < result["trusted_rows"]:
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
    kinds = [{type(label) for label in labels if label is not None} for labels in (true, given)]
    # Everything in a text file is text, also the numbers.
    if kinds == [{str}, {int}]:
        try:
            true = [None if label is None else int(str(label)) for label in true]
        except ValueError:
            raise InvalidInputError(f"--truth {text} holds text, where the labels are numbers.") from None
    written = [None if label is None else str(label) for label in true]
    if kinds == [{int}, {str}] and set(written) & set(given):
        true = written
    if not set(true) & set(given):
        raise InvalidInputError(
            f"--truth {text} has labels such as {true[0]!r}, and none of them is among those of "
            f"{embeddings.path}, such as {given[0]!r}: give labels of the same classes."
        )
    unknown = sum(one is None and other is not None for one, other in zip(true, given, strict=True))
    if unknown:
        raise InvalidInputError(
            f"--truth {text} has no label for {unknown:,} of the {len(given):,} rows: give one for each, or compare "
            "only the rows that it knows."
        )
    _warn_of_chance(text, true, given)
    return true


def _warn_of_chance(text: str, true: list[Any], given: list[Any]) -> None:
    """Warn if labels and truth agree hardly more often than if one of them were shuffled."""
    from collections import Counter

    n, counts = len(true), Counter(given)
    agreement = sum(one == other for one, other in zip(true, given, strict=True)) / n
    chance = sum(count * counts[label] for label, count in Counter(true).items()) / n**2
    if chance < 1.0 and (agreement - chance) / (1.0 - chance) < _LEAST_AGREEMENT:
        note(
            f"Warning: --truth {text} agrees with the labels of {agreement:.1%} of the rows, and by chance it would "
            f"with {chance:.1%}: is it in the order of the rows? A table with ids or paths is joined by them."
        )


def _plain(labels: Any) -> list[Any]:
    from gmmatch.selection.labels import plain_label

    values = labels.tolist() if hasattr(labels, "tolist") else labels
    return [plain_label(value) for value in values]


class Comparison:
    """The yardsticks for selections from the same rows, and which rows they are compared with."""

    def __init__(
        self,
        embeddings: Embeddings,
        truth: list[Any] | None,
        screening: Screening | None,
        per_class: Any,
        seed: int,
    ) -> None:
        import numpy as np

        from gmmatch.rows.rows import as_rows
        from gmmatch.selection.labels import Groups, group_rows
        from gmmatch.yardsticks import Yardsticks

        rows = as_rows(embeddings.rows)
        given = None if embeddings.labels is None else _plain(embeddings.labels)
        self.screening = screening
        self.wrong: Mask | None = None
        self.trusted: Mask = np.ones(len(rows), dtype=np.bool_)
        if truth is not None and given is not None:
            self.trusted = np.array([one == other for one, other in zip(given, truth, strict=True)])
            self.wrong = ~self.trusted & np.array([label is not None for label in given])
        elif screening is not None and screening.kept.any():
            self.trusted = screening.kept
        classes: Indices | None = None
        if given is not None and per_class is not None:
            groups = group_rows(given, n=len(rows), unlabeled="group")
            classes = Groups.of([one for one in groups if one.label is not None]).codes(len(rows))
        self.labeled = classes is not None and bool((classes >= 0).any())
        self.yardsticks = Yardsticks(
            rows,
            classes if self.labeled else None,
            reference=self.trusted,
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
            "trusted_rows": int(self.trusted.sum()),
            "classes": self.yardsticks.n_classes if self.labeled else None,
            "wrong_labels": None if self.wrong is None else float(self.wrong.mean()),
            "estimated_noise": None if self.screening is None else self.screening.noise_rate,
            "sampled_rows": len(self.yardsticks.covered),
        }

    def measure(self, selection: Selection) -> dict[str, Any]:
        """Return the figures of a selection; None for one that is not known."""
        from gmmatch.metrics import contamination

        figures = asdict(self.yardsticks.measure(selection.indices))
        return {
            "contamination": None if self.wrong is None else contamination(selection, self.wrong),
            "estimated_mislabeled": self._estimated(selection),
            **{name: None if value != value else value for name, value in figures.items()},
        }

    def _estimated(self, selection: Selection) -> float | None:
        """Return the share of the picks that are mislabeled, by the screening's probabilities."""
        import numpy as np

        from gmmatch.screening.result import IN_DOUBT, KEPT, MISLABELED

        found = self.screening
        if found is None or found.noise_rate is None:
            return None
        picks = selection.indices
        of_labels = [
            code for code, reason in enumerate(found.reasons) if reason in (KEPT, MISLABELED, IN_DOUBT)
        ]
        judged = np.isin(found.reason[picks], of_labels)
        return float((found.probability[picks] * judged).mean())
