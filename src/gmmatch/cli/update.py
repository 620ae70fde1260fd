"""``gmmatch update``: take new rows into account."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gmmatch.cli.io.arguments import JsonOption, LabeledInput, PicksArgument, output_path, writes
from gmmatch.cli.io.files import check_output, updating
from gmmatch.cli.io.output import note, print_json
from gmmatch.errors import InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gmmatch.selection.selection import Selection


def update(
    *,
    picks: PicksArgument,
    given: LabeledInput,
    output: Annotated[Path | None, output_path("The new picks; by default in place of the old.")] = None,
    force: Annotated[bool, writes("Replace --output if it exists.", "--force")] = False,
    as_json: JsonOption = False,
) -> None:
    """Update picks with new rows.

    The number of picks stays the same; they come from the old picks and the rows of INPUT. Of the earlier rows only
    the picks are read again, from the store or file that they were made from. Rows of INPUT are numbered after all
    earlier ones. Repeated for the same INPUT in place, it changes nothing.

    \b
    Examples:
      gmmatch select photos.emb -k 10% -o picks.parquet
      gmmatch update picks.parquet new.emb
    """
    import gmmatch as gm
    from gmmatch.cli.io.inputs import check_encoders
    from gmmatch.cli.select import describe_selection, print_selection
    from gmmatch.update import is_updated_by

    target = picks if output is None else output
    if output is not None:
        check_output(output, given.labels, force=force, endings=(".parquet",), source=given.path)
    with updating(picks, in_place=output is None) as selection:
        rows = given.open("none" if selection.classes == [None] else None)
        check_encoders(selection.provenance.get("embeddings", {}), rows.origin, given.path)
        start = time.perf_counter()
        if output is None and is_updated_by(selection, rows.X, rows.y):
            # The same command may have been killed after its work was done.
            updated, message = selection, f"{picks} has these rows already, and stays as it is."
        else:
            ids = None if selection.order_ids is None else rows.select_ids
            updated = gm.update(selection, _read_picked(selection), rows.X, rows.y, ids=ids)
            updated.provenance["updates"][-1]["embeddings"] = rows.origin
            updated.save(target)
            replaced = updated.provenance["updates"][-1]["picks_replaced"]
            message = f"Wrote {target}: {replaced:,} picks are new rows."
    if as_json:
        print_json({"output": str(target), **describe_selection(updated, time.perf_counter() - start)})
        return
    print_selection(updated)
    note(message)


def _read_picked(selection: Selection) -> NDArray[Any]:
    """Return the rows of the picks, from where they were selected and updated from."""
    import numpy as np

    from gmmatch.cli.io.inputs import read_origin

    updates = selection.provenance.get("updates", [])
    pieces, start = [], 0
    for record in (selection.provenance, *updates):
        piece, start = read_origin(record.get("embeddings", {}), start, selection.indices)
        pieces.append(piece)
    if start != selection.n_rows:
        raise InvalidInputError(
            f"The picks were made from {selection.n_rows:,} rows, and there are {start:,} now: select again."
        )
    return np.concatenate(pieces)
