"""Functions of a block that greedy matching is made of: row norms, and the best row of each group."""

from __future__ import annotations

from typing import Any

import numpy as np

from gmmatch._array import Matrix, array_namespace, is_numpy_array, max_groups, to_numpy
from gmmatch.matching import compiled


def row_norms(block: Any) -> Any:
    """Return the length of each row, shape (m,)."""
    if is_numpy_array(block):
        out = np.empty(len(block))
        compiled.write_norms(block, np.arange(len(block)), out)
        return out
    xp = array_namespace(block)
    return xp.linalg.vector_norm(xp.astype(block, xp.float64), axis=1)


def best_rows(
    block: Any, numbers: Any, codes: Any, available: Any, norms: Any, thetas: Any, slots: Any, taken: Any
) -> Matrix:
    """Return the row of a block with the highest ⟨θ, x⟩ for each active group; of equals, the first.

    Parameters
    ----------
    block : array of shape (m, s)
    numbers, codes, available, norms : arrays of shape (m,)
        The number, group (-1 for none), state and length of each row.
    thetas : array of shape (A, s)
    slots : array of shape (G,)
        Where each group stands among the active ones; -1 for the others.
    taken : sorted array of shape (t,)
        Numbers of rows that were picked since ``available`` was made.

    Returns
    -------
    array of shape (A, 2 + s)
        Score, row number (-1 where there is none) and row.
    """
    out = np.zeros((len(thetas), 2 + thetas.shape[1]))
    out[:, 0], out[:, 1] = -np.inf, -1.0
    if is_numpy_array(block):
        compiled.update_best(block, numbers, codes, available, norms, thetas, slots, taken, out)
        return out
    xp = array_namespace(block)
    active = xp.where((codes >= 0) & available & ~xp.isin(numbers, taken), slots[codes], -1)
    # Rows whose bounds overlap with the best lower bound go to the compiled loop, which decides exactly.
    rows = xp.astype(block, xp.float64)
    scores = xp.sum(rows * thetas[active], axis=1)
    error = xp.linalg.vector_norm(thetas, axis=1)[active] * norms * (2.0**-50 * (thetas.shape[1] + 2)) + 1e-40
    threshold = max_groups(scores - error, active, len(thetas))
    contenders = xp.nonzero((active >= 0) & ~(scores + error < threshold[active]))[0]
    gathered = [to_numpy(x[contenders]) for x in (rows, numbers, codes, available, norms)]
    compiled.update_best(*gathered, to_numpy(thetas), to_numpy(slots), to_numpy(taken), out)
    return out


def better_rows(left: Matrix, right: Matrix) -> Matrix:
    """Return the better of two best rows of each group; ties go to the left, whose rows come first."""
    wins = (right[:, 1] >= 0.0) & ((left[:, 1] < 0.0) | (right[:, 0] > left[:, 0]))
    return np.where(wins[:, None], right, left)
