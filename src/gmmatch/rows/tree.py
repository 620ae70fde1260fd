"""How rows are cut into blocks, and the one order in which the results of blocks are combined.

Both depend on the shape of the data alone. Results are combined along a binary tree over the blocks, so sums
have the same bits however many threads or workers there are; a worker combines the subtrees that it owns and
sends one result where there were many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gmmatch._array import Indices

# Numbers in a block: large enough that a call for each costs little, and that the sums of 1,000 groups are no larger
# than the block; small enough for any memory.
_BLOCK_ELEMENTS = 1 << 22
# Small data is cut as well, for several threads or workers; hardly any is not, since calls would cost more than sums.
_MIN_BLOCKS, _MIN_BLOCK_ROWS = 16, 128


def block_edges(n_rows: int, n_features: int) -> Indices:
    """Return where the blocks begin, and the end of the last one.

    Examples
    --------
    >>> block_edges(300, 8)
    array([  0, 128, 256, 300])
    """
    size = min(-(-n_rows // _MIN_BLOCKS), _BLOCK_ELEMENTS // n_features)
    return np.append(np.arange(0, n_rows, max(_MIN_BLOCK_ROWS, size)), n_rows)


class TreeFold:
    """Combine results of blocks along the tree as they come in, from the first block to the last.

    Examples
    --------
    >>> TreeFold.of("012345", lambda left, right: f"({left}{right})").result()
    '(((01)(23))(45))'
    """

    def __init__(self, combine: Callable[[Any, Any], Any]) -> None:
        self.combine = combine
        self.nodes: list[tuple[int, int, Any]] = []

    @classmethod
    def of(cls, results: Iterable[Any], combine: Callable[[Any, Any], Any], first_block: int = 0) -> TreeFold:
        """Add the results of successive blocks."""
        fold = cls(combine)
        for number, result in enumerate(results, first_block):
            fold.add(number, 1, result)
        return fold

    def add(self, first: int, size: int, value: Any) -> None:
        """Add the result of ``size`` blocks from ``first`` on: a block, or a whole subtree."""
        while self.nodes and self.nodes[-1][1] == size and self.nodes[-1][0] % (2 * size) == 0:
            first, _, left = self.nodes.pop()
            value, size = self.combine(left, value), 2 * size
        self.nodes.append((first, size, value))

    def result(self) -> Any:
        """Return the result of all blocks."""
        value = self.nodes[-1][2]
        for _, _, left in reversed(self.nodes[:-1]):
            value = self.combine(left, value)
        return value
