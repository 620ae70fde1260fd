"""One-byte codes of rows: how they are made, and their products with a vector.

A row, centered and scaled by column, is rounded to 255 levels of its largest entry. Products of codes then bound the
products of rows from both sides (Cauchy and Schwarz on what was rounded away), at a quarter of float32's bytes and
with instructions that multiply 32 or 64 bytes at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from gmmatch.matching.loops import TINY
from gmmatch.rows.compiled import largest_bits
from gmmatch.rows.parallel import map_in_order
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices, Vector

# Codes lie in slabs of 16 rows: four columns of the first row, the same of the second, ..., then the next four
# columns. One instruction then adds four products for each of the 16 rows.
SLAB, COLUMNS = 16, 4
# Rows are padded to whole tiles, whose bounds are looked at together; columns to what loops are unrolled by.
TILE, _UNROLLED = 64, 4
_PADDED_COLUMNS = COLUMNS * _UNROLLED
LIMIT = 127
# The instructions for it, from the newest: four products are added in 32 bits, or first two in 16 bits, where a query
# of at most 64 keeps them (255 · 64 · 2 < 2¹⁵).
_FEATURES = binding.get_host_cpu_features()
_ADDS_FOUR, _ADDS_TWO = _FEATURES.get("avx512vnni", False), _FEATURES.get("avx2", False)
_QUERY_LIMIT = 64 if _ADDS_TWO and not _ADDS_FOUR else LIMIT
# Codes are stored without a sign, as code + SHIFT: the instruction multiplies unsigned by signed numbers.
SHIFT = 128
# Rows whose largest entry, in the columns' units, is outside this range are not coded: float32 holds their bounds.
_CODED_RANGE = 1e30
# Relative rounding of the float32 arithmetic on codes, generously.
_SINGLE_ROUNDING = 1e-6
# What a row of `traits` holds: the size of a step, ‖row − decoded row‖ with all rounding, ‖decoded row‖, ‖x‖ plus
# that, and 0 for a row that may be picked, TAKEN for others.
STEP, ERROR, LENGTH, NORM, PENALTY = range(5)
TAKEN = -1e37


@intrinsic
def slab_dots(context: Any, codes: Any, slab: Any, query: Any, out: Any, column: Any) -> Any:
    """Write the products of a slab of codes with a query into 16 places of ``out``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, word, long = ir.IntType(8), ir.IntType(32), ir.IntType(64)
        slice_of_bytes, sums = ir.VectorType(byte, SLAB * COLUMNS), ir.VectorType(word, SLAB)
        arrays = {
            position: context.make_array(signature.args[position])(context, builder, arguments[position])
            for position in (0, 2, 3)
        }

        def at(start: Any, offset: Any, item: Any) -> Any:
            return builder.bitcast(builder.gep(start, [offset]), item.as_pointer())

        def load(start: Any, offset: Any, item: Any) -> Any:
            value = builder.load(at(start, offset, item))
            value.align = 1
            return value

        width = builder.extract_value(arrays[2].shape, 0)
        slab_bytes = builder.extract_value(arrays[0].shape, 1)
        slab_start = builder.gep(arrays[0].data, [builder.mul(arguments[1], slab_bytes)])
        totals = [cgutils.alloca_once_value(builder, ir.Constant(sums, None)) for _ in range(_UNROLLED)]
        with cgutils.for_range_slice(builder, long(0), width, long(COLUMNS * _UNROLLED)) as (begin, _):
            for turn, total in enumerate(totals):
                offset = builder.add(begin, long(COLUMNS * turn))
                left = load(slab_start, builder.mul(offset, long(SLAB)), slice_of_bytes)
                undefined = ir.Constant(sums, ir.Undefined)
                four = builder.insert_element(undefined, load(arrays[2].data, offset, word), word(0))
                same = builder.shuffle_vector(four, four, ir.Constant(sums, [0] * SLAB))
                right = builder.bitcast(same, slice_of_bytes)
                builder.store(_add_products(builder, builder.load(total), left, right), total)
        value = builder.load(totals[0])
        for total in totals[1:]:
            value = builder.add(value, builder.load(total))
        builder.store(value, at(arrays[3].data, arguments[4], sums)).align = 1
        return context.get_dummy_value()

    return types.void(codes, slab, query, out, column), generate


def _add_products(builder: Any, total: Any, left: Any, right: Any) -> Any:
    """Add the products of four unsigned bytes and four signed ones to each of 16 sums."""

    def call(name: str, result: Any, *operands: Any) -> Any:
        signature = ir.FunctionType(result, [operand.type for operand in operands])
        return builder.call(cgutils.get_or_insert_function(builder.module, signature, name), operands)

    if _ADDS_FOUR:
        return call("llvm.x86.avx512.vpdpbusd.512", total.type, total, left, right)
    if _ADDS_TWO:
        pairs, fours = ir.VectorType(ir.IntType(16), SLAB), ir.VectorType(ir.IntType(32), SLAB // 2)
        halves = []
        for first in (0, SLAB * COLUMNS // 2):
            half = ir.Constant(
                ir.VectorType(ir.IntType(32), SLAB * COLUMNS // 2),
                list(range(first, first + SLAB * COLUMNS // 2)),
            )
            bytes_of_both = (builder.shuffle_vector(side, side, half) for side in (left, right))
            twos = call("llvm.x86.avx2.pmadd.ub.sw", pairs, *bytes_of_both)
            halves.append(call("llvm.x86.avx2.pmadd.wd", fours, twos, ir.Constant(pairs, [1] * SLAB)))
        return builder.add(total, builder.shuffle_vector(*halves, ir.Constant(total.type, list(range(SLAB)))))
    for column in range(COLUMNS):
        every_fourth = ir.Constant(total.type, [COLUMNS * row + column for row in range(SLAB)])
        unsigned = builder.zext(builder.shuffle_vector(left, left, every_fourth), total.type)
        signed = builder.sext(builder.shuffle_vector(right, right, every_fourth), total.type)
        total = builder.add(total, builder.mul(unsigned, signed))
    return total


@njit(nogil=True, cache=True, boundscheck=False)
def _largest_magnitude(values: NDArray[np.float64]) -> float:
    """Return the largest magnitude; by the bits, because the compiler vectorizes no maximum of floats."""
    largest = np.empty(1, dtype=np.uint64)
    largest[0] = largest_bits(values.view(np.uint64).reshape(1, -1), np.uint64(0x7FFFFFFFFFFFFFFF))
    return float(largest.view(np.float64)[0])


# All numbers are finite here: no NaN to mind.
@njit(nogil=True, cache=True, fastmath=True, boundscheck=False)
def encode_chunk(
    block: NDArray[Any],
    index: NDArray[np.int64],
    start: int,
    center: NDArray[np.float64],
    scale: NDArray[np.float64],
    codes: NDArray[np.uint8],
    traits: NDArray[np.float32],
) -> None:
    """Write the codes and traits of a chunk that begins at ``start``; a row out of range gets a negative error."""
    s = center.shape[0]
    scaled = np.empty(s)
    whole = np.zeros((s + COLUMNS - 1) // COLUMNS * COLUMNS, dtype=np.uint8)
    groups = whole.view(np.uint32)
    slabs = codes.view(np.uint32)
    for i in range(index.shape[0]):
        row = block[index[i]]
        norm = 0.0
        for j in range(s):
            value = np.float64(row[j])
            norm += value * value
            scaled[j] = (value - center[j]) * scale[j]
        largest = _largest_magnitude(scaled)
        place = start + i
        if largest < 1.0 / _CODED_RANGE or largest > _CODED_RANGE or norm > _CODED_RANGE**2:
            traits[ERROR, place] = -1.0
            continue
        step = largest / LIMIT
        inverse = 1.0 / step
        error, length = 0.0, 0.0
        for j in range(s):
            code = np.rint(scaled[j] * inverse)
            decoded = code * step
            error += (scaled[j] - decoded) ** 2
            length += decoded * decoded
            whole[j] = np.uint8(np.int32(code) + SHIFT)
        for group in range(groups.shape[0]):
            slabs[place // SLAB, group * SLAB + place % SLAB] = groups[group]
        length = np.sqrt(length)
        traits[STEP, place] = step
        traits[ERROR, place] = (1.0 + _SINGLE_ROUNDING) * np.sqrt(error) + _SINGLE_ROUNDING * length
        traits[LENGTH, place] = (1.0 + _SINGLE_ROUNDING) * length
        traits[NORM, place] = (1.0 + _SINGLE_ROUNDING) * (np.sqrt(norm) + length)
        traits[PENALTY, place] = 0.0


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, boundscheck=False)
def quantise(
    theta: NDArray[np.float64], spread: NDArray[np.float64], query: NDArray[np.int8]
) -> tuple[float, float, float, int]:
    """Round θ (in the columns' units) to one byte a number; return its step, its norm, the error's, and SHIFT·Σ."""
    s = theta.shape[0]
    # int32 sums must not overflow.
    limit = min(float(_QUERY_LIMIT), np.floor((2.0**31 - 1.0) / ((LIMIT + SHIFT) * s)))
    values = theta * spread
    step = max(_largest_magnitude(values) / limit, TINY)
    inverse = 1.0 / step
    norm, error, total = 0.0, 0.0, 0.0
    for j in range(s):
        # In steps, whose squares float64 holds whatever the size of θ.
        value = values[j] * inverse
        # Rounding up may exceed the limit by its last bit, never by a whole step.
        code = np.rint(value)
        query[j] = np.int8(np.int32(code))
        total += code
        norm += value * value
        error += (value - code) ** 2
    return step, step * np.sqrt(norm) + TINY, step * np.sqrt(error) + TINY, SHIFT * int(total)


class Codes(NamedTuple):
    """The codes of rows, with what bounds their error.

    Attributes
    ----------
    codes : uint8 array of shape (slabs, SLAB · padded columns)
    traits : float32 array of shape (5, padded rows)
    spread : float64 array of shape (s,)
        The columns' units.
    outside : int64 array
        Rows that no code bounds.
    """

    codes: NDArray[np.uint8]
    traits: NDArray[np.float32]
    spread: Vector
    outside: Indices

    @classmethod
    def of(cls, rows: Rows, center: Vector, threads: int) -> Codes:
        """Encode every row."""
        sample = rows.gather(np.linspace(0, len(rows) - 1, min(len(rows), 128)).astype(np.int64))
        spread = np.abs(sample - center).mean(axis=0)
        typical = float(spread.mean())
        # A column that hardly varies must not be blown up by its scale, and no row beyond what float64 holds.
        spread = np.maximum(spread, max(typical * 1e-3, TINY)) if typical > 0.0 else np.ones_like(center)
        codes, traits = empty_codes(len(rows), rows.n_features)

        # Rows in place can be shared out as one likes; others are converted a chunk at a time.
        pieces = threads if rows.in_place else 1

        def work(number: int) -> None:
            block, index = rows.chunk(number // pieces)
            first, stop = (len(index) * piece // pieces for piece in (number % pieces, number % pieces + 1))
            start = rows.bounds(number // pieces)[0] + first
            encode_chunk(block, index[first:stop], start, center, 1.0 / spread, codes, traits)

        map_in_order(work, rows.n_chunks * pieces, threads)
        outside = np.flatnonzero(traits[ERROR, : len(rows)] < 0.0)
        traits[ERROR, outside] = 0.0
        return cls(codes, traits, spread, outside)


def empty_codes(n: int, s: int) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Return room for the codes and traits of ``n`` rows; none of them can be picked yet."""
    rows = -(-n // TILE) * TILE
    codes = aligned_bytes(rows // SLAB, SLAB * padded(s))
    traits = np.zeros((5, rows), dtype=np.float32)
    traits[PENALTY] = TAKEN
    return codes, traits


def aligned_bytes(slabs: int, width: int) -> NDArray[np.uint8]:
    """Return room for codes at the border of a cache line: 64 bytes are then read from one line, not two."""
    room = np.empty(slabs * width + 64, dtype=np.uint8)
    return room[-room.ctypes.data % 64 :][: slabs * width].reshape(slabs, width)


def padded(columns: int) -> int:
    """Return the number of columns of codes and queries.

    Examples
    --------
    >>> padded(100)
    112
    """
    return -(-columns // _PADDED_COLUMNS) * _PADDED_COLUMNS
