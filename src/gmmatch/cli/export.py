"""``gmmatch export``: the picked files or rows as a dataset of their own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gmmatch.cli.io.arguments import (
    ConfidenceOption,
    DecisionsOption,
    ForceOption,
    JsonOption,
    PicksArgument,
    SplitOption,
    output_path,
    picks_by,
    reads,
    writes,
)
from gmmatch.cli.io.files import check_output, has_changed
from gmmatch.cli.io.output import note, print_json
from gmmatch.errors import InvalidInputError
from gmmatch.review.tools import ToolName

if TYPE_CHECKING:
    from gmmatch._array import Indices
    from gmmatch.data.tables import BaseSource
    from gmmatch.selection.selection import Selection


def export(
    *,
    picks: PicksArgument,
    source: Annotated[str, typer.Argument(help="What was embedded: a folder of images, or table files.")],
    split: SplitOption = None,
    id_column: Annotated[
        str | None, reads("The column of ids; '' for none. By default that of the picks.")
    ] = None,
    decisions: DecisionsOption = None,
    labels: Annotated[
        Literal["given", "corrected"], picks_by("'corrected' writes suggested labels, too.")
    ] = "given",
    min_confidence: ConfidenceOption = 0.95,
    output: Annotated[Path, output_path("A new folder for images, a new file of the same kind for rows.")],
    link: Annotated[bool, writes("Link images, hard or symbolic, or copy them.", "--link/--copy")] = False,
    tool: Annotated[ToolName | None, writes("Write tasks of this tool, not a dataset.")] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write picked images or rows as a dataset or as tasks of a tool.

    Images keep their sub-folders. Rows of tables keep all their columns and their order. Picks with weights get a
    column `weight`, images in labels.csv. The source is never changed.

    \b
    Examples:
      gmmatch export picks.parquet photos/ -o picked/ --link
      gmmatch export picks.parquet texts.jsonl -o picked.jsonl
      gmmatch export picks.parquet vectors.parquet -o picked.parquet --id-column key
      gmmatch export picks.parquet texts.jsonl -o picked.jsonl --labels corrected --min-confidence 0.99
      gmmatch export picks.parquet photos/ -o picks/samples.json --tool fiftyone
    """
    import numpy as np

    import gmmatch as gm
    from gmmatch.data.exporting import open_writer
    from gmmatch.data.images import ImageFolder
    from gmmatch.report.content import open_contents
    from gmmatch.review.page import describe_row, write_tasks

    selection = gm.Selection.load(picks)
    opened = open_picked(selection, source, split=split, id_column=id_column)
    columns: dict[str, Any] = _correct_labels(selection, min_confidence) if labels == "corrected" else {}
    if selection.weights is not None:
        columns["weight"] = selection.weights
    contents = None
    if tool is None:
        write = open_writer(opened, output, link=link)
        check_output(output, picks, decisions, force=force, folder=isinstance(opened, ImageFolder))
    else:
        endings = (".jsonl",) if tool == "jsonl" else (".json",)
        check_output(output, picks, decisions, force=force, endings=endings)
        contents = open_contents(opened, opened.n_rows)
    rows, positions = match_rows(selection, opened)
    columns = {name: values[positions] for name, values in columns.items()}
    if decisions is not None:
        settled = gm.apply_decisions(list(opened.ids), opened.labels, decisions)
        stays = settled.keep[rows]
        rows, columns = rows[stays], {name: values[stays] for name, values in columns.items()}
        if settled.labels is not None:
            decided = settled.labels[rows]
            labels_before = columns.get("corrected_label", decided)
            columns["corrected_label"] = np.where(settled.decided[rows], decided, labels_before)
    if tool is None:
        write(rows, {name: values.tolist() for name, values in columns.items()})
    else:
        given = [None] * opened.n_rows if opened.labels is None else opened.labels
        shown_labels = columns.get("corrected_label", [given[row] for row in rows])
        names = [None if isinstance(opened.ids, range) else opened.ids[row] for row in rows]
        about = zip(rows.tolist(), names, shown_labels, strict=True)
        write_tasks(output, tool, [describe_row(*row, reason="pick") for row in about], contents)
    corrected = {"corrected": int(columns["label_changed"].sum())} if labels == "corrected" else {}
    if as_json:
        print_json({"output": str(output), "exported": len(rows), **corrected})
    else:
        more = f" {corrected['corrected']:,} of them have a corrected label." if corrected else ""
        note(f"Wrote {len(rows):,} picked rows to {output}.{more}")


def _correct_labels(selection: Selection, min_confidence: float) -> dict[str, Any]:
    """Return the corrected label of each pick, how probable it is, and whether it differs from the given one."""
    import numpy as np

    import gmmatch as gm

    screening = selection.screening
    if screening is None or not screening.labels:
        raise InvalidInputError("--labels corrected: the picks suggest none; select with labels and robust.")
    given = np.array([*screening.labels, None], dtype=object)[screening.given]
    corrected, picks = gm.corrected_labels(screening, given, min_confidence), selection.indices
    return {
        "corrected_label": corrected[picks],
        "label_confidence": screening.confidence[picks].astype(float).round(6),
        "label_changed": corrected[picks] != given[picks],
    }


def open_picked(selection: Selection, source: str, **columns: str | None) -> BaseSource:
    """Open what picks were made from, as it was opened then but for what is asked for now."""
    from gmmatch.data.columns import UndecidedColumnsError
    from gmmatch.data.files import is_store
    from gmmatch.data.opening import open_source, read_description

    if is_store(source):
        raise InvalidInputError(f"{source} is a store: give the images or texts that it was made from.")
    _, recorded = read_description(selection.provenance.get("embeddings", {}).get("source", {}))
    options = {**recorded, **{name: value for name, value in columns.items() if value is not None}}
    if options.get("id_column") == "":
        del options["id_column"]
    try:
        return open_source(source, **options)
    except UndecidedColumnsError as error:
        if not error.candidates:
            raise
        # All columns are exported, so it does not matter which of them the picks were made by.
        kind, names = next(iter(error.candidates.items()))
        return open_source(source, **{**options, f"{kind}_column": names[0]})


def match_rows(selection: Selection, source: BaseSource) -> tuple[Indices, Indices]:
    """Return the rows of the source that the picks are, ascending, and which of ``selection.indices`` each is.

    A row picked twice is there twice.
    """
    import numpy as np

    if selection.ids is None or isinstance(source.ids, range):
        _check_unchanged(selection, source)
    rows = selection.indices if selection.ids is None else _find_ids(selection, source)
    order = np.argsort(rows, kind="stable")
    return rows[order], order


def _find_ids(selection: Selection, source: BaseSource) -> Indices:
    """Return the row of the source that has the id of each pick."""
    import numpy as np

    assert selection.ids is not None
    ids, position = selection.ids.tolist(), {name: row for row, name in enumerate(source.ids)}
    missing = [name for name in ids if name not in position]
    if missing:
        count = f"{len(missing):,} of the {len(ids):,} picks are not in {source.location}"
        raise InvalidInputError(
            f"{count}, such as that with the id {missing[0]!r}: give the source that the picks were made from, with "
            "its --id-column if it was embedded with one."
        )
    if len(position) < len(source.ids):
        raise InvalidInputError(f"{source.location} has several rows with the same id: give each its own.")
    return np.array([position[name] for name in ids], dtype=np.int64)


def _check_unchanged(selection: Selection, source: BaseSource) -> None:
    """Raise if rows that are known by their number alone come from another source."""
    origin = selection.provenance.get("embeddings", {})
    recorded = origin.get("source", {})
    expected = recorded.get("n_rows") or selection.n_rows
    advice = "give the source that they were made from"
    if expected != source.n_rows:
        counts = f"{source.location} has {source.n_rows:,} rows, but the picks were made from {expected:,}"
        raise InvalidInputError(f"{counts}: {advice}.")
    if has_changed(source, recorded, origin.get("source_fingerprint")):
        raise InvalidInputError(f"{source.location} is not what was picked from, or has changed: {advice}.")
