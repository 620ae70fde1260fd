"""``gmmatch select``: pick rows of a store or a file of embeddings."""

from __future__ import annotations

import math
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gmmatch.cli.io.arguments import (
    AmountOption,
    EmbeddingColumnOption,
    EmbeddingsArgument,
    ForceOption,
    IdColumnOption,
    JsonOption,
    LabelsOption,
    MemoryOption,
    PerClassChoice,
    PerClassOption,
    SeedOption,
    parse_memory,
    parse_settings,
)
from gmmatch.cli.io.engines import AddressOption, EngineOption, EngineRequest, SkipOption, WorkersOption
from gmmatch.cli.io.files import check_output, explained, keep_inputs
from gmmatch.cli.io.output import console, new_table, note, print_json
from gmmatch.cli.io.reporting import ContentOption, MapOption, Report, ReportOption
from gmmatch.errors import InvalidInputError
from gmmatch.files import as_path
from gmmatch.selectors.registry import DEFAULT_METHOD

if TYPE_CHECKING:
    from gmmatch.screening.result import Screening
    from gmmatch.selection.selection import Selection


class DuplicatesOption(str, Enum):
    """What becomes of near-duplicates."""

    one = "one"
    keep = "keep"


_FORMATS = (".parquet", ".json", ".npy")
_CLASSES_SHOWN = 30


def select(
    context: typer.Context,
    source: EmbeddingsArgument,
    k: AmountOption,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            parser=as_path,
            metavar="PATH",
            help="Where the picks go: .parquet, .json or .npy.",
        ),
    ],
    method: Annotated[str, typer.Option("--method", "-m", help="See `gmmatch methods`.")] = DEFAULT_METHOD,
    per_class: PerClassOption = PerClassChoice.proportional,
    seed: SeedOption = 0,
    memory: MemoryOption = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any parameter of the method; can be repeated."),
    ] = None,
    duplicates: Annotated[
        DuplicatesOption | None,
        typer.Option(
            help="Whether near-duplicates count, and can be picked, once (one) or all (keep, the default; copies "
            "count once for robust in any case)."
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
            help="Let a row whose label is confidently known to be wrong be picked for its suggested class.",
        ),
    ] = False,
    min_confidence: Annotated[
        float, typer.Option(help="With --relabel: the least probability of a suggested label.")
    ] = 0.95,
    weights: Annotated[
        bool,
        typer.Option("--weights", help="Weigh the picks so that their mean comes nearest to the target."),
    ] = False,
    refine: Annotated[
        int,
        typer.Option(
            min=0, help="Go over the picks so often at most, and swap each for the row that matches best."
        ),
    ] = 0,
    updatable: Annotated[
        bool, typer.Option("--updatable", help="Keep what `gmmatch update` needs with the picks (.parquet).")
    ] = False,
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="OTHER", help="Embeddings that the picks should follow in place of the input's own."
        ),
    ] = None,
    reference_weight: Annotated[
        float | None,
        typer.Option(help="With --reference: how much it counts beside the input, above 0 and up to 1."),
    ] = None,
    reference_labels: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|COLUMN",
            help="With --reference: its labels, as --labels names them; with 'none' every class follows all of it.",
        ),
    ] = None,
    labels: LabelsOption = None,
    embedding_column: EmbeddingColumnOption = None,
    id_column: IdColumnOption = None,
    engine: EngineOption = None,
    address: AddressOption = None,
    workers: WorkersOption = None,
    skip_unreadable: SkipOption = False,
    report: ReportOption = None,
    map_choice: MapOption = None,
    content: ContentOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Pick the rows worth keeping.

    \b
    Examples:
      gmmatch select photos.emb -k 10% -o picks.parquet
      gmmatch select photos.emb -k 10% -o picks.parquet --report picks.html
      gmmatch select vectors.parquet -k 10% -o picks.parquet --embedding-column clip --id-column key
      gmmatch select train.emb -k 10% -o picks.parquet --duplicates one --exclude-near test.emb
      gmmatch select web.emb -k 10% -o picks.parquet --method robust --reference task.emb
      gmmatch select texts.emb -k 500 -o picks.parquet --method easy --set center=geometric-median
    """
    from gmmatch.cli.io.inputs import open_embeddings, refuse_columns

    if output.suffix.lower() not in _FORMATS:
        raise InvalidInputError(f"--output {output}: expected a file that ends in {', '.join(_FORMATS)}.")
    if updatable and output.suffix.lower() != ".parquet":
        raise InvalidInputError(
            f"--output {output}: --updatable keeps the rows of the picks in a .parquet file."
        )
    check_output(output, force=force)
    keep_inputs(output, [labels, content, exclude_near, reference], folder=source)
    page = Report(report, map_choice, content, force=force, context=context)
    options = parse_settings(settings)
    if duplicates is not None:
        options["duplicates"] = duplicates.value
    switches = {"weights": weights, "refine": refine, "updatable": updatable}
    options |= {name: value for name, value in switches.items() if value}
    if reference is None and (reference_weight is not None or reference_labels is not None):
        raise InvalidInputError("--reference-weight and --reference-labels go with --reference OTHER.")
    if reference_weight is not None:
        options["reference_weight"] = reference_weight
    limit = parse_memory(memory)
    confidence = min_confidence if relabel else None
    on_engine = EngineRequest(engine, address, workers, skip_unreadable)
    asked = {"k": k, "method": method, "per_class": per_class.argument, "seed": seed, "options": options}
    if on_engine.wanted(memory=memory, report=report, source=source):
        if reference is not None:
            raise InvalidInputError("--reference does not run on an engine: leave out --engine.")
        selector = on_engine.selector(**asked)
        embeddings, shards = on_engine.open(source, labels)
        refuse_columns(source, embedding_column, id_column)
        page.find_contents(embeddings)
        near = None if exclude_near is None else open_embeddings(exclude_near, labels="none")
        selection, seconds = on_engine.select(selector, shards, embeddings.labels, confidence, near)
    else:
        from gmmatch.cli.io.selecting import run_selection

        columns: Any = {"embedding_column": embedding_column, "id_column": id_column}
        embeddings = open_embeddings(source, labels=labels, memory=limit, **columns)
        page.find_contents(embeddings)
        near = None if exclude_near is None else open_embeddings(exclude_near, labels="none", **columns)
        followed = None
        if reference is not None:
            followed = open_embeddings(reference, labels=reference_labels, memory=limit, **columns)
        selection, seconds = run_selection(
            embeddings, memory=limit, near=near, relabel=confidence, reference=followed, **asked
        )
    with explained(output):
        selection.save(output)
    try:
        page.write(selection, embeddings, seconds=seconds)
    except BaseException:  # also Ctrl-C, as a map of many rows takes its time
        note(f"Wrote {output}, but no page.")
        raise
    if as_json:
        written = {} if report is None else {"report": str(report)}
        print_json({**describe_selection(selection, output, seconds), **written})
        return
    print_selection(selection)
    note(f"Wrote {output} ({seconds:.1f} s)." + ("" if report is None else f" Open {report} in a browser."))


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


def print_selection(selection: Selection) -> None:
    """Print how many rows of each class were picked, and how well they match."""
    from rich.markup import escape

    classes = any(group.label is not None for group in selection.groups)
    title = f"{selection.k:,} of {selection.n_rows:,} rows"
    if selection.provenance.get("method"):
        title += f" by {selection.provenance['method']}"
    table = new_table(title, show_footer=classes, padding=(0, 1))
    table.add_column("class" if classes else "", footer="all", overflow="fold")
    total = sum(group.n_rows for group in selection.groups)
    for heading, footer in (("rows", f"{total:,}"), ("picked", f"{selection.k:,}"), ("residual", "")):
        table.add_column(heading, footer=footer, justify="right", no_wrap=True)
    for group in selection.groups[:_CLASSES_SHOWN]:
        name = "(no label)" if classes else "all rows"
        name = name if group.label is None else escape(str(group.label))
        residual = "" if math.isnan(group.residual) else f"{group.residual:.4g}"
        table.add_row(name, f"{group.n_rows:,}", f"{len(group.order):,}", residual)
    hidden = len(selection.groups) - _CLASSES_SHOWN
    if hidden > 0:
        table.add_row(f"... {hidden:,} more", "", "", "")
    console().print(table)
    if selection.screening is not None:
        console().print(_about_screening(selection.screening), soft_wrap=True)
    relabeled = selection.provenance.get("relabeled")
    if relabeled:
        line = f"Labels corrected: {relabeled['n_rows']:,} rows, of which {len(relabeled['rows']):,} were picked."
        console().print(line, soft_wrap=True)
    repeated, leaked = (selection.provenance.get(name) for name in ("duplicates", "excluded_near"))
    if repeated:
        console().print(f"Left out as near-duplicates: {repeated['left_out']:,} rows.", soft_wrap=True)
    if leaked:
        line = f"Left out as near-duplicates of {leaked['path']}: {leaked['rows']:,} rows."
        console().print(line, soft_wrap=True)


def _about_screening(screening: Screening) -> str:
    """Return what was learned about the rows, in one line."""
    counts = ", ".join(f"{count:,} {reason}" for reason, count in screening.counts.items())
    line = f"Not trusted: {counts}." if counts else "All rows are trusted."
    if screening.noise_rate is not None:
        line += f" Estimated label noise: {screening.noise_rate:.1%}."
    return line
