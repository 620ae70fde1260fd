"""The picks of one group in memory: by one-byte codes of its rows where that pays, else by scans of the rows."""

from __future__ import annotations

import numpy as np

from gmmatch._array import Block, Indices, Vector
from gmmatch._threads import check_interrupt
from gmmatch.matching import compiled

# Nanoseconds, measured by ``python -m benchmarks calibrate``; only their ratios count. A scan costs so much per
# number and per row, codes the same and more for each pick, and their making.
_SCAN_NUMBER, _SCAN_ROW = 0.12, 2.5
_CODE_NUMBER, _CODE_ROW, _CODE_PICK = 0.009, 0.4, 2_500.0
_ENCODE_NUMBER, _ENCODE_START = 1.35, 500_000.0
# Products that a compiled loop makes before Python sees whether the user has pressed Ctrl-C: a tenth of a second.
_UNINTERRUPTED = 1 << 28


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
