"""Picks by one-byte codes of the rows, which rule rows out; the few that they leave open are scored exactly.

A row, minus the target and scaled by column, is rounded to 255 levels of its largest entry. Products of codes bound
the products of rows from both sides (Cauchy and Schwarz on what was rounded away), at a quarter of float32's bytes
and with instructions that multiply 32 or 64 bytes at once. So the picks are those of the plain scan, to the last
bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from gmmatch._array import Block, Indices, Mask, Vector
from gmmatch.matching.compiled import REORDER, exact_score, quick_score

# Codes lie in slabs of 16 rows: four columns of the first row, the same of the second, ..., then the next four
# columns. One instruction then adds four products for each of the 16 rows.
SLAB, COLUMNS = 16, 4
# Rows are padded to whole tiles, whose bounds are tested together; columns to what loops are unrolled by.
TILE, _UNROLLED = 64, 4
_PADDED_COLUMNS = COLUMNS * _UNROLLED
_LIMIT = 127
# The instructions for it, from the newest: four products are added in 32 bits, or first two in 16 bits, where a query
# of at most 64 keeps them (255 · 64 · 2 < 2¹⁵).
_FEATURES = binding.get_host_cpu_features()
_ADDS_FOUR, _ADDS_TWO = _FEATURES.get("avx512vnni", False), _FEATURES.get("avx2", False)
_QUERY_LIMIT = 64 if _ADDS_TWO and not _ADDS_FOUR else _LIMIT
# Codes are stored without a sign, as code + SHIFT: the instruction multiplies unsigned by signed numbers.
_SHIFT = 128
# Rows whose largest entry is outside this range are not coded: float32 holds the bounds of the others.
_CODED_RANGE = 1e30
# Relative rounding of the float32 arithmetic on codes, generously.
_SINGLE_ROUNDING = 1e-6
# Squares of numbers below this may underflow, so a norm is known up to this much.
_TINY = 1e-150
# Rows of ``stats``: the size of a step, ‖row − decoded row‖ with all rounding, ‖decoded row‖, ‖x‖ plus that, and 0
# for a row that may be picked, TAKEN for others.
STEP, ERROR, LENGTH, NORM, PENALTY = range(5)
TAKEN = -1e37


class Codes(NamedTuple):
    """The codes of n rows, and what bounds their error.

    Attributes
    ----------
    codes : uint8 array of shape (slabs, SLAB · padded columns)
    stats : float32 array of shape (5, padded rows)
    scale : float64 array of shape (s,)
        The unit of each column.
    uncoded : int64 array
        Rows that no code bounds.
    """

    codes: NDArray[np.uint8]
    stats: NDArray[np.float32]
    scale: Vector
    uncoded: Indices


def encode_rows(block: Block, index: Indices, center: Vector) -> Codes:
    """Encode the rows ``block[index]``."""
    n, s = len(index), block.shape[1]
    sample = block[index[np.linspace(0, n - 1, min(n, 128)).astype(np.int64)]].astype(np.float64)
    scale = np.abs(sample - center).mean(axis=0)
    typical = float(scale.mean())
    # A column that hardly varies must not be blown up by its unit, and no row beyond what float64 holds.
    scale = np.maximum(scale, max(typical * 1e-3, _TINY)) if typical > 0.0 else np.ones_like(center)
    n_padded, width = -(-n // TILE) * TILE, SLAB * (-(-s // _PADDED_COLUMNS) * _PADDED_COLUMNS)
    # At the border of a cache line: 64 bytes are then read from one line, not two.
    room = np.zeros(n_padded // SLAB * width + 64, dtype=np.uint8)
    codes = room[-room.ctypes.data % 64 :][: n_padded // SLAB * width].reshape(-1, width)
    stats = np.zeros((5, n_padded), dtype=np.float32)
    stats[PENALTY] = TAKEN
    _write_codes(block, index, center, 1.0 / scale, codes, stats)
    uncoded = np.flatnonzero(stats[ERROR, :n] < 0.0)
    stats[ERROR, uncoded] = 0.0
    return Codes(codes, stats, scale, uncoded)


# All numbers are finite here, so there is no NaN to respect.
@njit(nogil=True, cache=True, fastmath=True)
def _write_codes(
    block: Block, index: Indices, center: Vector, inverse_scale: Vector, codes: NDArray[np.uint8],
    stats: NDArray[np.float32],
) -> None:  # fmt: skip
    """Write the codes and statistics of all rows; a row out of range gets a negative error."""
    s = center.shape[0]
    scaled = np.empty(s)
    row_codes = np.zeros((s + COLUMNS - 1) // COLUMNS * COLUMNS, dtype=np.uint8)
    packed, slabs = row_codes.view(np.uint32), codes.view(np.uint32)
    for i in range(index.shape[0]):
        row, norm, largest = block[index[i]], 0.0, 0.0
        for j in range(s):
            value = np.float64(row[j])
            norm += value * value
            scaled[j] = (value - center[j]) * inverse_scale[j]
            largest = max(largest, abs(scaled[j]))
        if largest < 1.0 / _CODED_RANGE or largest > _CODED_RANGE or norm > _CODED_RANGE**2:
            stats[ERROR, i] = -1.0
            continue
        step = largest / _LIMIT
        inverse, error, length = 1.0 / step, 0.0, 0.0
        for j in range(s):
            code = np.rint(scaled[j] * inverse)
            decoded = code * step
            error += (scaled[j] - decoded) ** 2
            length += decoded * decoded
            row_codes[j] = np.uint8(np.int32(code) + _SHIFT)
        for group in range(packed.shape[0]):
            slabs[i // SLAB, group * SLAB + i % SLAB] = packed[group]
        length = np.sqrt(length)
        stats[STEP, i] = step
        stats[ERROR, i] = (1.0 + _SINGLE_ROUNDING) * np.sqrt(error) + _SINGLE_ROUNDING * length
        stats[LENGTH, i] = (1.0 + _SINGLE_ROUNDING) * length
        stats[NORM, i] = (1.0 + _SINGLE_ROUNDING) * (np.sqrt(norm) + length)
        stats[PENALTY, i] = 0.0


@njit(nogil=True, cache=True, fastmath=REORDER)
def _quantize(theta: Vector, scale: Vector, query: NDArray[np.int8]) -> tuple[float, float, float, int]:
    """Round θ, in the units of the columns, to one byte a number.

    Return its step, norm, error and SHIFT · Σ codes.
    """
    s = theta.shape[0]
    # int32 sums must not overflow.
    limit = min(float(_QUERY_LIMIT), np.floor((2.0**31 - 1.0) / ((_LIMIT + _SHIFT) * s)))
    largest = 0.0
    for j in range(s):
        largest = max(largest, abs(theta[j] * scale[j]))
    step = max(largest / limit, _TINY)
    inverse, norm, error, total = 1.0 / step, 0.0, 0.0, 0.0
    for j in range(s):
        # In steps, whose squares float64 holds whatever the size of θ. Rounding may exceed the limit by its last bit.
        value = theta[j] * scale[j] * inverse
        code = np.rint(value)
        query[j] = np.int8(np.int32(code))
        total += code
        norm += value * value
        error += (value - code) ** 2
    return step, step * np.sqrt(norm) + _TINY, step * np.sqrt(error) + _TINY, _SHIFT * int(total)


@intrinsic
def _multiply_slab(context: Any, codes: Any, slab: Any, query: Any, out: Any, column: Any) -> Any:
    """Write the products of a slab of codes with a query into 16 entries of ``out``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, word, long = ir.IntType(8), ir.IntType(32), ir.IntType(64)
        slice_of_bytes, sums = ir.VectorType(byte, SLAB * COLUMNS), ir.VectorType(word, SLAB)
        arrays = {
            position: context.make_array(signature.args[position])(context, builder, arguments[position])
            for position in (0, 2, 3)
        }

        def point_to(start: Any, offset: Any, item: Any) -> Any:
            return builder.bitcast(builder.gep(start, [offset]), item.as_pointer())

        def load(start: Any, offset: Any, item: Any) -> Any:
            value = builder.load(point_to(start, offset, item))
            value.align = 1
            return value

        width = builder.extract_value(arrays[2].shape, 0)
        slab_bytes = builder.extract_value(arrays[0].shape, 1)
        slab_start = builder.gep(arrays[0].data, [builder.mul(arguments[1], slab_bytes)])
        totals = [cgutils.alloca_once_value(builder, ir.Constant(sums, None)) for _ in range(_UNROLLED)]
        with cgutils.for_range_slice(builder, long(0), width, long(COLUMNS * _UNROLLED)) as (begin, _):
            for number, total in enumerate(totals):
                offset = builder.add(begin, long(COLUMNS * number))
                left = load(slab_start, builder.mul(offset, long(SLAB)), slice_of_bytes)
                undefined = ir.Constant(sums, ir.Undefined)
                four = builder.insert_element(undefined, load(arrays[2].data, offset, word), word(0))
                same = builder.shuffle_vector(four, four, ir.Constant(sums, [0] * SLAB))
                right = builder.bitcast(same, slice_of_bytes)
                builder.store(_add_products(builder, builder.load(total), left, right), total)
        value = builder.load(totals[0])
        for total in totals[1:]:
            value = builder.add(value, builder.load(total))
        builder.store(value, point_to(arrays[3].data, arguments[4], sums)).align = 1
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
            positions = list(range(first, first + SLAB * COLUMNS // 2))
            half = ir.Constant(ir.VectorType(ir.IntType(32), len(positions)), positions)
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


# A count, not a maximum: the compiler vectorizes sums of whole numbers, and no maximum of floats.
@njit(nogil=True, cache=True, fastmath=True)
def _bound_tile(
    dots: NDArray[np.int32], offset: np.int32, factors: NDArray[np.float32], stats: NDArray[np.float32], first: int,
    threshold: np.float32, upper_bounds: NDArray[np.float32],
) -> int:  # fmt: skip
    """Write upper bounds of the scores of a tile; return how many of them are at least ``threshold``."""
    scale, query_error, rounding = factors[0], factors[1], factors[2]
    step, error = stats[STEP, first : first + TILE], stats[ERROR, first : first + TILE]
    length, norm = stats[LENGTH, first : first + TILE], stats[NORM, first : first + TILE]
    penalty, count = stats[PENALTY, first : first + TILE], np.int32(0)
    for r in range(TILE):
        score = np.float32(np.int32(dots[r] - offset)) * (scale * step[r]) + penalty[r]
        upper_bounds[r] = score + (error[r] + query_error * length[r] + rounding * norm[r])
        count = np.int32(count + (upper_bounds[r] >= threshold))
    return int(count)


@njit(nogil=True, cache=True)
def _find_candidates(
    coded: Codes, query: NDArray[np.int8], offset: np.int32, factors: NDArray[np.float32], candidates: Indices,
    upper_bounds: NDArray[np.float32],
) -> tuple[int, Any]:  # fmt: skip
    """Write the rows whose score may be the best; return how many, -1 for too many, and the best lower bound."""
    stats = coded.stats
    dots, bounds = np.empty(TILE, dtype=np.int32), np.empty(TILE, dtype=np.float32)
    count, threshold = 0, np.float32(0.1 * TAKEN)
    for first in range(0, stats.shape[1], TILE):
        for column in range(0, TILE, SLAB):
            _multiply_slab(coded.codes, (first + column) // SLAB, query, dots, column)
        if _bound_tile(dots, offset, factors, stats, first, threshold, bounds) == 0:
            continue
        for r in range(TILE):
            if bounds[r] >= threshold:
                if count == candidates.shape[0]:
                    return -1, threshold
                i = first + r
                candidates[count], upper_bounds[count] = i, bounds[r]
                count += 1
                error = stats[ERROR, i] + factors[1] * stats[LENGTH, i] + factors[2] * stats[NORM, i]
                threshold = max(threshold, bounds[r] - np.float32(2.0) * error)
    return count, threshold


@njit(nogil=True, cache=True)
def _choose(
    block: Block, index: Indices, target: Vector, theta: Vector, norms: NDArray[np.float32], query_norm: float,
    candidates: Indices, upper_bounds: NDArray[np.float32], threshold: Any, uncoded: Indices, open_rows: Mask,
    scores: Vector,
) -> tuple[int, int]:  # fmt: skip
    """Return the best row among the candidates and the uncoded rows (-1 for none), and how many were scored.

    The most promising candidate comes first: few others reach what it surely scores.
    """
    s, theta_norm = theta.shape[0], np.sqrt(quick_score(theta, theta))
    rounding = 4.0 * s * 2.0**-52 * (theta_norm + _TINY)
    target_score = quick_score(target, theta)
    slack = rounding * (np.sqrt(quick_score(target, target)) + _TINY)
    count, low = 0, -np.inf
    if candidates.shape[0] > 0:
        first = np.argmax(upper_bounds[: candidates.shape[0]])
        candidates[0], candidates[first] = candidates[first], candidates[0]
        upper_bounds[0], upper_bounds[first] = upper_bounds[first], upper_bounds[0]
    for c in range(candidates.shape[0]):
        i = candidates[c]
        if upper_bounds[c] >= threshold and open_rows[i]:
            score, error = quick_score(block[index[i]], theta), rounding * (norms[i] + _TINY)
            low = max(low, score - error)
            # Codes are of rows from which the target was subtracted.
            sure = (score - target_score - 2.0 * (error + slack)) / query_norm
            threshold = max(threshold, np.float32(sure - 1e-6 * abs(sure)))
            candidates[count], scores[count] = i, score + error
            count += 1
    best, best_score, scored = -1, -np.inf, count
    for c in range(count + uncoded.shape[0]):
        i = candidates[c] if c < count else uncoded[c - count]
        if open_rows[i] and not (c < count and scores[c] < low):
            score = exact_score(block[index[i]], theta)
            if best < 0 or score > best_score or (score == best_score and i < best):
                best, best_score = i, score
    return best, scored


@njit(nogil=True, cache=True)
def pick_by_codes(
    block: Block, index: Indices, target: Vector, theta: Vector, replacement: bool, open_rows: Mask, coded: Codes,
    order: Indices,
) -> tuple[int, int]:  # fmt: skip
    """Pick as :func:`gmmatch.matching.compiled.pick_by_scan` does, until codes leave too many rows open.

    Returns how many picks were made, and how many rows were scored.
    """
    n, s = index.shape[0], theta.shape[0]
    room = 4096 + n // 16
    candidates, upper_bounds = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.float32)
    scores, factors = np.empty(room), np.empty(3, dtype=np.float32)
    query = np.zeros(coded.codes.shape[1] // SLAB, dtype=np.int8)
    total_scored = 0
    for t in range(order.shape[0]):
        step, norm, error, offset = _quantize(theta, coded.scale, query)
        theta_norm = np.sqrt(quick_score(theta, theta))
        factors[0], factors[1] = step / norm, 1.000001 * error / norm
        factors[2] = 1.000001 * 4.0 * s * 2.0**-52 * (theta_norm + _TINY) / norm
        count, threshold = _find_candidates(coded, query, np.int32(offset), factors, candidates, upper_bounds)
        if count < 0:
            return t, total_scored
        best, scored = _choose(
            block, index, target, theta, coded.stats[NORM], norm, candidates[:count], upper_bounds, threshold,
            coded.uncoded, open_rows, scores,
        )  # fmt: skip
        total_scored += scored
        if best < 0:
            return t, total_scored
        order[t] = best
        open_rows[best] = replacement
        if not replacement:
            coded.stats[PENALTY, best] = TAKEN
        row = block[index[best]]
        for j in range(s):
            theta[j] += target[j] - np.float64(row[j])
    return order.shape[0], total_scored
