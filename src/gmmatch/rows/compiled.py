"""Compiled loops over blocks: float16 to float32, unit length, and the largest magnitude."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

# What is between the exponents' offsets of the two formats (127 − 15), as a factor.
_OFFSET = np.float32(2.0**112)


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


@njit(nogil=True, cache=True, boundscheck=False)
def spread_bits(halves: NDArray[np.uint16], out: NDArray[np.uint32]) -> None:
    """Write float32 bits whose value is 2⁻¹¹² times the half's; infinity and NaN as they are."""
    for i in range(halves.shape[0]):
        for j in range(halves.shape[1]):
            bits = np.uint32(halves[i, j])
            sign = (bits & np.uint32(0x8000)) << np.uint32(16)
            rest = (bits & np.uint32(0x7FFF)) << np.uint32(13)
            special = (
                np.uint32(0x7F800000) if (bits & np.uint32(0x7C00)) == np.uint32(0x7C00) else np.uint32(0)
            )
            out[i, j] = sign | rest | special


def widened(halves: NDArray[Any]) -> NDArray[np.float32]:
    """Return a C-ordered float16 matrix as float32, exactly, at the speed of memory; NumPy goes number by number.

    Examples
    --------
    >>> widened(np.array([[1.5, -0.0], [np.inf, 6e-8]], dtype=np.float16)).tolist()
    [[1.5, -0.0], [inf, 5.960464477539063e-08]]
    """
    bits = halves.view(np.uint16)
    bits.flags.writeable = False
    out = np.empty(halves.shape, dtype=np.uint32)
    spread_bits(bits, out)
    values = out.view(np.float32)
    # Multiplying restores the exponent, of the smallest (denormal) halves too.
    with np.errstate(invalid="ignore"):  # NaN stays NaN; who checks for it says so
        values *= _OFFSET
    return values


@njit(nogil=True, cache=True, boundscheck=False)
def unit_rows(block: NDArray[Any], out: NDArray[Any]) -> None:
    """Write each row at length 1 to ``out``, a row of zeros as it is; a row's outcome is its own affair."""
    for i in range(block.shape[0]):
        squared = 0.0
        for j in range(block.shape[1]):
            squared += np.float64(block[i, j]) * np.float64(block[i, j])
        length = np.sqrt(squared) if squared > 0.0 else 1.0
        for j in range(block.shape[1]):
            out[i, j] = np.float64(block[i, j]) / length
