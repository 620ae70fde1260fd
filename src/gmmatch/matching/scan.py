"""Greedy matching: functions of a block (row norms, the best row of each group), and picks of a group in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from gmmatch._array import (
    Block,
    Indices,
    Matrix,
    Vector,
    array_namespace,
    is_numpy_array,
    max_groups,
    to_numpy,
)
from gmmatch._threads import check_interrupt
from gmmatch.matching import compiled

# Nanoseconds, measured by ``python -m benchmarks calibrate``; only their ratios count. A scan costs so much per
# number and per row, codes the same and more for each pick, and their making.
_SCAN_NUMBER, _SCAN_ROW = 0.12, 2.5
_CODE_NUMBER, _CODE_ROW, _CODE_PICK = 0.009, 0.4, 2_500.0
_ENCODE_NUMBER, _ENCODE_START = 1.35, 500_000.0
# Products that a compiled loop makes before Python sees whether the user has pressed Ctrl-C: a tenth of a second.
_UNINTERRUPTED = 1 << 28


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


def pick_group(
    block: Block, index: Indices, target: Vector, theta: Vector, replacement: bool, order: Indices
) -> None:
    """Pick from the rows ``block[index]``: write positions in ``index`` into ``order`` and advance ``theta``.

    Parameters
    ----------
    block : read-only C-ordered array of shape (N, s), float32 or float64
    index : int64 array of shape (n,)
    target, theta : arrays of shape (s,)
    replacement : bool
    order : int64 array of shape (q,)
    """
    n, s = len(index), block.shape[1]
    if not len(order):
        return
    open_rows, done, scored = np.ones(n, dtype=bool), 0, 0
    step = max(1, _UNINTERRUPTED // (n * s))
    if _codes_pay(n, s, len(order)):
        # Compiled when first needed, which small calls never do.
        from gmmatch.matching.quantized import encode_rows, pick_by_codes

        coded = encode_rows(block, index, target)
        while done < len(order):
            check_interrupt()
            n_new, count = pick_by_codes(
                block, index, target, theta, replacement, open_rows, coded, order[done : done + step]
            )
            done, scored = done + n_new, scored + count
            # Codes that leave many rows open cost more than they spare.
            if n_new == 0 or (done > 8 and scored > done * (16 + n // 8)):
                break
    if done < len(order):
        norms = np.empty(n)
        compiled.write_norms(block, index, norms)
        for first in range(done, len(order), step):
            check_interrupt()
            run = order[first : first + step]
            compiled.pick_by_scan(block, index, target, theta, replacement, open_rows, norms, run)


def _codes_pay(n: int, s: int, k: int) -> bool:
    elements = float(n) * s
    scan = k * (elements * _SCAN_NUMBER + n * _SCAN_ROW)
    codes = (
        elements * _ENCODE_NUMBER + _ENCODE_START + k * (elements * _CODE_NUMBER + n * _CODE_ROW + _CODE_PICK)
    )
    return codes < scan
