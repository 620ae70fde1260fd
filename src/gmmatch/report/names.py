"""What a page calls the rows: the caller's ids where they are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gmmatch.errors import InvalidInputError
from gmmatch.report.text import shown
from gmmatch.rows.taking import count_rows, take_rows
from gmmatch.selection.selection import Selection
from gmmatch.types import Indices

LONGEST = 72


class RowNames:
    """The ids of rows, by row number.

    Parameters
    ----------
    ids
        One per row; or a function from row numbers to their ids, or to None; or None.
    selections
        They know the ids of their picks.
    n
        How many rows there are.

    Examples
    --------
    >>> RowNames(["a", "b", "c"], [], 3).of(np.array([2, 0]))
    ['c', 'a']
    >>> RowNames(None, [Selection([1], n_rows=3, ids=["b"])], 3).of(np.array([0, 1]))
    [None, 'b']
    """

    def __init__(self, ids: Any, selections: list[Selection], n: int) -> None:
        self._look_up: Callable[[Indices], Any] | None = None
        if callable(ids):
            self._look_up = ids
        elif ids is not None:
            found = count_rows(ids)
            if found != n:
                raise InvalidInputError(f"ids has {found:,} entries for {n:,} rows: give one for each.")
            self._look_up = lambda rows: take_rows(ids, rows)
        self._known: dict[int, Any] = {}
        for selection in selections:
            if selection.order_ids is not None:
                pairs = zip(selection.order.tolist(), selection.order_ids.tolist(), strict=True)
                self._known.update(pairs)

    def look_up(self, rows: Indices) -> None:
        """Find the ids of many rows at once, which may mean reading files."""
        wanted = np.array([row for row in np.unique(rows).tolist() if row not in self._known], dtype=np.int64)
        if self._look_up is None or not len(wanted):
            return
        found = self._look_up(wanted)
        if found is None:
            self._look_up = None  # ids are no more than row numbers
            return
        values = found.tolist() if hasattr(found, "tolist") else list(found)
        self._known.update(zip(wanted.tolist(), values, strict=True))

    def of(self, rows: Indices) -> list[str | None]:
        """Return what to call these rows; None where there is no more to say than the row number."""
        self.look_up(rows)
        found = [(row, self._known.get(row)) for row in rows.tolist()]
        return [
            # An id that is the row's number says nothing more.
            None if value is None or value == row else shown(value, LONGEST, keep_end=True)
            for row, value in found
        ]
