"""One compiled loop: whether a block of floats holds anything that is not finite, or too large."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(nogil=True, cache=True, boundscheck=False)
def largest_bits(bits: NDArray[Any], sign: Any) -> Any:
    """Return the largest of the numbers' bits without their sign.

    Bits of floats order like their magnitudes, with infinity and NaN on top; and whole numbers have a
    maximum that vector instructions know, which floats with their NaN do not.
    """
    largest = bits.dtype.type(0)
    for i in range(bits.shape[0]):
        for j in range(bits.shape[1]):
            largest = max(largest, bits[i, j] & sign)
    return largest


def has_unusable(block: NDArray[Any], limit: float) -> bool:
    """Return whether any number's magnitude exceeds ``limit`` or is not finite.

    Examples
    --------
    >>> has_unusable(np.array([[1.0, np.nan]]), 1e150), has_unusable(np.ones((1, 2), dtype=np.float32), 1e150)
    (True, False)
    """
    whole = np.uint32 if block.dtype == np.float32 else np.uint64
    everything = np.iinfo(whole).max >> 1
    most = np.array(min(limit, float(np.finfo(block.dtype).max)), dtype=block.dtype).view(whole)
    view = np.ascontiguousarray(block).view(whole)
    view.flags.writeable = False
    return bool(largest_bits(view, whole(everything)) > most)
