"""``gmmatch update``: take new rows into account, without reading the old ones again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from gmmatch.cli.io.arguments import JsonOption, LabeledInput, output_option
from gmmatch.cli.io.files import check_output, explained, keep_inputs
from gmmatch.cli.io.output import note, print_json
from gmmatch.errors import InvalidInputError
from gmmatch.files import as_path


def update(
    *,
    picks: Annotated[
        Path,
        typer.Argument(
            parser=as_path, metavar="PICKS", help="What `gmmatch select --updatable` wrote (.parquet)."
        ),
    ],
    given: LabeledInput,
    output: Annotated[
        Path | None, output_option("File for the new picks; by default it replaces the old one.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace --output if it exists.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Update picks with new rows.

    The number of picks stays the same; they come from the old picks and the rows of INPUT. The earlier
    rows are not read again: PICKS keeps sums over them. Rows of INPUT are numbered after all earlier ones. Repeated
    for the same INPUT in place, it changes nothing.

    \b
    Examples:
      gmmatch select photos.emb -k 10% -o picks.parquet --method robust --updatable
      gmmatch update picks.parquet new.emb
    """
    from gmmatch.cli.io.selecting import same_encoder
    from gmmatch.cli.select import describe_selection, print_selection
    from gmmatch.selection.selection import Selection
    from gmmatch.updating.update import is_updated_by

    source, target = given.source, picks if output is None else output
    if target.suffix.lower() != ".parquet":
        raise InvalidInputError(f"{target}: picks that can be updated are kept in a .parquet file.")
    if output is not None:
        check_output(output, force=force)
        keep_inputs(output, [given.labels], folder=source)
    selection = Selection.load(picks)
    embeddings = given.open()
    same_encoder(selection.provenance.get("embeddings", {}), embeddings.origin, source, str(picks))
    began = time.perf_counter()
    with_labels = any(label is not None for label in selection.groups.labels)
    if with_labels and embeddings.labels is None:
        raise InvalidInputError(
            f"{source} has no labels, and the picks are per class: give some by --labels."
        )
    ids = None if selection.order_ids is None else embeddings.ids_of
    if ids is not None and embeddings.store is None and embeddings.source_ids is None:
        raise InvalidInputError(f"{source} has no ids, and the picks have: name a column by --id-column.")
    new_labels = embeddings.labels if with_labels else None
    if output is None and is_updated_by(selection, embeddings.rows, new_labels):
        # In place, the same command may have been killed after its work was done.
        said, found = f"{picks} has taken these rows into account already, and stays as it is.", selection
    else:
        found = selection.update(embeddings.rows, new_labels, ids=ids)
        found.provenance["updates"][-1]["embeddings"] = embeddings.origin
        with explained(target):
            found.save(target)
        replaced = found.provenance["updates"][-1]["picks_replaced"]
        said = f"Wrote {target}: {replaced:,} picks were replaced by new rows"
        said += f" ({time.perf_counter() - began:.1f} s)."
    if as_json:
        print_json(describe_selection(found, target, time.perf_counter() - began))
        return
    print_selection(found)
    note(said)
