"""``gmmatch select``: pick rows of a store or a file of embeddings."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gmmatch.cli.io.arguments import (
    AmountOption,
    ConfidenceOption,
    ForceOption,
    JsonOption,
    LabeledInput,
    MemoryOption,
    MethodOption,
    PerClassOption,
    SeedOption,
    SettingsOption,
    least_confidence,
    output_option,
    parse_memory,
    parse_per_class,
    parse_settings,
)
from gmmatch.cli.io.engines import EngineRequest
from gmmatch.cli.io.files import check_output, explained, is_stdout, keep_inputs
from gmmatch.cli.io.output import console, note, print_json, print_table
from gmmatch.cli.io.reporting import Report
from gmmatch.errors import InvalidInputError
from gmmatch.selectors.registry import DEFAULT_METHOD

if TYPE_CHECKING:
    from gmmatch.selection.selection import Selection


_CLASSES_SHOWN = 30


def select(
    *,
    context: typer.Context,
    k: AmountOption,
    output: Annotated[
        Path,
        output_option(
            "File for the picks: .parquet, .json or .npy. With '-', their ids or row numbers are printed."
        ),
    ],
    method: MethodOption = DEFAULT_METHOD,
    given: LabeledInput,
    per_class: PerClassOption = "proportional",
    seed: SeedOption = 0,
    memory: MemoryOption = None,
    settings: SettingsOption = None,
    duplicates: Annotated[
        Literal["one", "keep"] | None,
        typer.Option(
            help="With 'one', only one row of each group of near-duplicates counts and can be picked; with 'keep', "
            "the default, all. Copies count once for robust in any case."
        ),
    ] = None,
    exclude_near: Annotated[
        str | None,
        typer.Option(
            metavar="OTHER", help="Leave out rows with a near-duplicate in these embeddings (a test set)."
        ),
    ] = None,
    relabel: Annotated[
        bool,
        typer.Option(
            "--relabel",
            help="Pick rows whose label is confidently wrong for their suggested class.",
        ),
    ] = False,
    min_confidence: ConfidenceOption = None,
    weights: Annotated[
        bool,
        typer.Option(
            "--weights", help="Compute weights that bring the mean of the picks nearest to the target."
        ),
    ] = False,
    refine: Annotated[
        int,
        typer.Option(min=0, help="The most rounds in which picks are swapped for rows that match better."),
    ] = 0,
    updatable: Annotated[
        bool, typer.Option("--updatable", help="Store what `gmmatch update` needs with the picks (.parquet).")
    ] = False,
    reference: Annotated[
        str | None,
        typer.Option(metavar="OTHER", help="Embeddings that the picks should follow instead of the input."),
    ] = None,
    reference_weight: Annotated[
        float | None,
        typer.Option(help="With --reference: its weight beside the input, above 0 and up to 1."),
    ] = None,
    reference_labels: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|COLUMN",
            help="With --reference: its labels, as --labels names them; with 'none' every class follows all of it.",
        ),
    ] = None,
    engine: EngineRequest,
    page: Report,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Pick the rows worth keeping, and say which rows look wrong.

    \b
    Examples:
      gmmatch select photos.emb -k 10% -o picks.parquet
      gmmatch select photos.emb -k 10% -o picks.parquet --report picks.html
      gmmatch select vectors.parquet -k 10% -o picks.parquet --embedding-column clip --id-column key
      gmmatch select train.emb -k 10% -o picks.parquet --duplicates one --exclude-near test.emb
      gmmatch select web.emb -k 10% -o picks.parquet --reference task.emb
      gmmatch select photos.emb -k 500 -o - --method gm-matching > picked.txt
    """
    from gmmatch.cli.io.inputs import open_embeddings, refuse_columns

    source = given.source
    _check_target(output, updatable=updatable, force=force)
    keep_inputs(output, [given.labels, page.content, exclude_near, reference], folder=source)
    page.check(force=force, context=context)
    options = parse_settings(settings)
    if duplicates is not None:
        options["duplicates"] = duplicates
    switches = {"weights": weights, "refine": refine, "updatable": updatable}
    options |= {name: value for name, value in switches.items() if value}
    if reference is None and (reference_weight is not None or reference_labels is not None):
        raise InvalidInputError("--reference-weight and --reference-labels go with --reference OTHER.")
    if reference_weight is not None:
        options["reference_weight"] = reference_weight
    limit = parse_memory(memory)
    confidence = least_confidence(min_confidence, "--relabel", relabel)
    asked = {
        "k": k,
        "method": method,
        "per_class": parse_per_class(per_class),
        "seed": seed,
        "options": options,
    }
    if engine.wanted(memory=memory, report=page.report, source=source):
        if reference is not None:
            raise InvalidInputError("--reference does not run on an engine: leave out --engine.")
        selector = engine.selector(**asked)
        embeddings, shards = engine.open(source, given.labels)
        refuse_columns(source, given.embedding_column, given.id_column)
        page.find_contents(embeddings)
        near = None if exclude_near is None else open_embeddings(exclude_near, labels="none")
        selection, seconds = engine.select(selector, shards, embeddings.labels, confidence, near)
    else:
        from gmmatch.cli.io.selecting import run_selection

        embeddings = given.open(memory=limit)
        page.find_contents(embeddings)
        near = None if exclude_near is None else given.open_other(exclude_near)
        followed = None if reference is None else given.open_other(reference, reference_labels, limit)
        selection, seconds = run_selection(
            embeddings, memory=limit, near=near, relabel=confidence, reference=followed, **asked
        )
    if not is_stdout(output):
        with explained(output):
            selection.save(output)
    try:
        page.write(selection, embeddings, seconds=seconds)
    except BaseException:  # also Ctrl-C, as a map of many rows takes its time
        if not is_stdout(output):
            note(f"Wrote {output}, but no page.")
        raise
    if as_json:
        written = {} if page.report is None else {"report": str(page.report)}
        picks = {"indices": selection.indices.tolist()}
        if selection.ids is not None:
            picks["ids"] = selection.ids.tolist()
        print_json({**describe_selection(selection, output, seconds), **picks, **written})
        return
    _say_all(selection, given, output, page.report, seconds)


def _check_target(output: Path, *, updatable: bool, force: bool) -> None:
    """Raise unless picks can be written there; called before the work."""
    if updatable and output.suffix.lower() != ".parquet":
        raise InvalidInputError(
            f"--output {output}: --updatable keeps the rows of the picks in a .parquet file."
        )
    if not is_stdout(output):
        check_output(output, force=force, endings=(".parquet", ".json", ".npy"))


def _say_all(
    selection: Selection, given: LabeledInput, output: Path, report: Path | None, seconds: float
) -> None:
    """Print what was picked and learned, and where it is to be seen."""
    print_selection(selection, to_stderr=is_stdout(output))
    wrote = f"Wrote {output} ({seconds:.1f} s)."
    if is_stdout(output):
        picks = selection.indices if selection.ids is None else selection.ids
        typer.echo("\n".join(map(str, picks.tolist())))
        wrote = f"Picked in {seconds:.1f} s."
    if report is not None:
        note(f"{wrote} Open {report} in a browser.")
        return
    note(wrote)
    if selection.screening is not None and selection.screening.counts:
        typed = ["gmmatch", "screen", given.source, *(["--labels", given.labels] if given.labels else [])]
        note(f"To see the rows that are not trusted: {shlex.join(typed)} -o suspects.csv, or add --report.")


def describe_selection(selection: Selection, output: Path | None, seconds: float | None) -> dict[str, Any]:
    """Return the facts of a selection, without its rows, in what JSON can hold."""
    facts: dict[str, Any] = {} if output is None else {"output": str(output)}
    facts |= {"k": selection.k, "n_rows": selection.n_rows, "has_ids": selection.order_ids is not None}
    if seconds is not None:
        facts["seconds"] = round(seconds, 3)
    facts["groups"] = [
        {
            "label": group.label,
            "n_rows": group.n_rows,
            "picked": len(group.order),
            "residual": None if math.isnan(group.residual) else group.residual,
        }
        for group in selection.groups
    ]
    return {**facts, "provenance": selection.provenance}


def print_selection(selection: Selection, *, to_stderr: bool = False) -> None:
    """Print how many rows of each class were picked, and what was learned about the rows."""
    screening = selection.screening
    classes = any(group.label is not None for group in selection.groups)
    title = f"{selection.k:,} of {selection.n_rows:,} rows"
    if selection.provenance.get("method"):
        title += f" by {selection.provenance['method']}"
    # A residual in the space of robust's kernel tells a reader nothing.
    residuals = screening is None and any(not math.isnan(group.residual) for group in selection.groups)
    lines = []
    for group in selection.groups[:_CLASSES_SHOWN]:
        name = ("(no label)" if classes else "all rows") if group.label is None else str(group.label)
        residual = [f"{group.residual:.4g}"] if residuals else []
        lines.append([name, f"{group.n_rows:,}", f"{len(group.order):,}", *residual])
    if len(selection.groups) > _CLASSES_SHOWN:
        lines.append([f"... {len(selection.groups) - _CLASSES_SHOWN:,} more"])
    columns = ["class" if classes else "", "rows" if screening is None else "candidates", "picked"]
    total = ["all", f"{sum(group.n_rows for group in selection.groups):,}", f"{selection.k:,}"]
    headings = [*columns, "residual"] if residuals else columns
    print_table(title, headings, lines, footer=total if classes else (), to_stderr=to_stderr)
    out = console(to_stderr=to_stderr)
    for line in _learned(selection):
        out.print(line, soft_wrap=True, markup=False)


def _learned(selection: Selection) -> list[str]:
    """Return what was learned about the rows, in a few lines."""
    lines, screening, facts = [], selection.screening, selection.provenance
    if screening is not None:
        counts = ", ".join(f"{count:,} {reason}" for reason, count in screening.counts.items())
        dropped = len(screening) - int(screening.kept.sum())
        lines.append(f"Not trusted: {dropped:,} rows ({counts})." if counts else "All rows are trusted.")
        if screening.noise_rate is not None:
            lines.append(f"Estimated label noise: {screening.noise_rate:.1%}.")
    relabeled, repeated, leaked = (facts.get(name) for name in ("relabeled", "duplicates", "excluded_near"))
    if relabeled:
        picked = len(relabeled["rows"])
        lines.append(f"Labels corrected: {relabeled['n_rows']:,} rows, of which {picked:,} were picked.")
    if repeated:
        lines.append(f"Left out as near-duplicates: {repeated['left_out']:,} rows.")
    if leaked:
        lines.append(f"Left out as near-duplicates of {leaked['path']}: {leaked['rows']:,} rows.")
    return lines
