"""The geometric medians of small groups in memory, compiled whole: a class of ten rows takes microseconds.

The same search as in :mod:`gmmatch.median.search`, which asks for one evaluation after another and so works wherever
the rows are, but needs a millisecond of Python for each median. Plain loops throughout: expressions of whole arrays
would take the compiler five times as long.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gmmatch.median import loops
from gmmatch.median.passes import ROUNDOFF
from gmmatch.median.search import DEPTH

_COINCIDENT, _INVERSE, _OBJECTIVE = loops.COINCIDENT, loops.INVERSE_DISTANCES, loops.OBJECTIVE
_NEAREST, _NEAREST_ROW, _NEAREST_WEIGHT = loops.NEAREST_DISTANCE, loops.NEAREST_ROW, loops.NEAREST_WEIGHT
# Where else a pass leaves its numbers.
_NORM, _GAP = loops.N_SUMS, loops.N_SUMS + 1
_SWEEPS = 30


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, boundscheck=False)
def _dot(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    total = 0.0
    for j in range(one.shape[0]):
        total += one[j] * other[j]
    return total


@njit(nogil=True, cache=True, boundscheck=False)
def _copy(source: NDArray[Any], to: NDArray[np.float64]) -> None:
    for j in range(to.shape[0]):
        to[j] = source[j]


@njit(nogil=True, cache=True, boundscheck=False)
def _evaluate(
    block: NDArray[Any], index: NDArray[np.int64], weights: NDArray[np.float64], point: NDArray[np.float64],
    distances: NDArray[np.float64], pull: NDArray[np.float64], sums: NDArray[np.float64],
) -> None:  # fmt: skip
    """Pass over the rows; add ‖pull‖ and the certified gap, as :class:`Evaluation` has them."""
    pull[:] = 0.0
    loops.weiszfeld_chunk(block, index, weights, point, 0.0, False, distances, pull, sums)
    total, counted = 0.0, 0
    for i in range(weights.shape[0]):
        total += weights[i]
        counted += weights[i] > 0.0
    sums[_NORM] = np.sqrt(_dot(pull, pull))
    rounding = ROUNDOFF * (16.0 + point.shape[0] + 4.0 * np.sqrt(counted))
    q = max(0.0, sums[_NORM] - sums[_COINCIDENT]) / total + rounding
    sums[_GAP] = 2.0 * q / (1.0 - q) if q < 1.0 else np.inf
    if sums[_OBJECTIVE] == 0.0:
        sums[_GAP] = 0.0


@njit(nogil=True, cache=True, boundscheck=False)
def _next_point(
    block: NDArray[Any], index: NDArray[np.int64], point: NDArray[np.float64], pull: NDArray[np.float64],
    sums: NDArray[np.float64], out: NDArray[np.float64],
) -> None:  # fmt: skip
    """Write the next point, the nearest row treated exactly, as :meth:`Evaluation.proximal_point` does."""
    inverse, norm = sums[_INVERSE], sums[_NORM]
    if sums[_COINCIDENT] > 0.0 or sums[_NEAREST_ROW] < 0.0:
        still = norm == 0.0 or inverse == 0.0
        share = 0.0 if still else max(0.0, 1.0 - sums[_COINCIDENT] / norm) / inverse
        for j in range(out.shape[0]):
            out[j] = point[j] + share * pull[j]
        return
    row = block[index[int(sums[_NEAREST_ROW])]]
    weight, steep = sums[_NEAREST_WEIGHT], sums[_NEAREST_WEIGHT] / sums[_NEAREST]
    curvature, lands = inverse - steep, True
    if curvature > 1e-12 * inverse:
        for j in range(out.shape[0]):
            offset = row[j] - point[j]
            out[j] = (pull[j] - offset * steep) / curvature - offset
        far = np.sqrt(_dot(out, out))
        lands = far * curvature <= weight
    for j in range(out.shape[0]):
        out[j] = row[j] if lands else row[j] + out[j] * (1.0 - weight / (curvature * far))


@njit(nogil=True, cache=True, boundscheck=False)
def _rotate(one: NDArray[np.float64], other: NDArray[np.float64], tangent: float) -> None:
    cosine = 1.0 / np.sqrt(1.0 + tangent * tangent)
    for j in range(one.shape[0]):
        first, second = one[j], other[j]
        one[j] = cosine * (first - tangent * second)
        other[j] = cosine * (tangent * first + second)


@njit(nogil=True, cache=True, boundscheck=False)
def _mix(
    points: NDArray[np.float64], steps: NDArray[np.float64], count: int, columns: NDArray[np.float64],
    turned: NDArray[np.float64], out: NDArray[np.float64],
) -> None:  # fmt: skip
    """Accelerate the successor in ``out`` by ``count`` changes, as :meth:`AndersonMixer.propose` does.

    The least squares are solved by one-sided Jacobi rotations, which find singular values however small.
    """
    s, scales, largest = out.shape[0], np.empty(count), 0.0
    for k in range(count):
        for j in range(s):
            columns[k, j] = steps[k + 1, j] - steps[k, j]
        scales[k] = np.sqrt(_dot(columns[k], columns[k]))
        for j in range(s):
            columns[k, j] /= scales[k] if scales[k] > 0.0 else 1.0
        for other in range(count):
            turned[k, other] = 1.0 if k == other else 0.0
    for _ in range(_SWEEPS):
        done = True
        for p in range(count - 1):
            for q in range(p + 1, count):
                low, high = _dot(columns[p], columns[p]), _dot(columns[q], columns[q])
                both = _dot(columns[p], columns[q])
                if abs(both) <= 1e-15 * np.sqrt(low * high):
                    continue
                done = False
                zeta = (high - low) / (2.0 * both)
                tangent = (1.0 if zeta >= 0.0 else -1.0) / (abs(zeta) + np.sqrt(1.0 + zeta * zeta))
                _rotate(columns[p], columns[q], tangent)
                _rotate(turned[p], turned[q], tangent)
        if done:
            break
    for k in range(count):
        largest = max(largest, _dot(columns[k], columns[k]))
    finite = 0.0
    for k in range(count):
        size = _dot(columns[k], columns[k])
        if size <= 1e-20 * largest:
            continue
        share = _dot(columns[k], steps[count]) / size
        for other in range(count):
            mixing = share * turned[k, other] / (scales[other] if scales[other] > 0.0 else 1.0)
            for j in range(s):
                moved = points[other + 1, j] - points[other, j] + steps[other + 1, j] - steps[other, j]
                out[j] -= mixing * moved
    for j in range(s):
        finite += 0.0 * out[j]
    if finite != 0.0:  # NaN: the plain successor it is
        for j in range(s):
            out[j] = points[count, j] + steps[count, j]


@njit(nogil=True, cache=True, boundscheck=False)
def small_medians(
    block: NDArray[Any], rows: NDArray[np.int64], offsets: NDArray[np.int64], all_weights: NDArray[np.float64],
    eps: float, max_iter: int, medians: NDArray[np.float64], gaps: NDArray[np.float64],
    all_passes: NDArray[np.int64],
) -> None:  # fmt: skip
    """Move the point of every group from where it is to the median of the group's rows, with gaps and passes."""
    s, most = medians.shape[1], 0
    for group in range(medians.shape[0]):
        most = max(most, offsets[group + 1] - offsets[group])
    points, steps = np.empty((DEPTH + 2, s)), np.empty((DEPTH + 2, s))
    columns, turned = np.empty((DEPTH, s)), np.empty((DEPTH, DEPTH))
    pull, new_pull, plain, new = np.empty(s), np.empty(s), np.empty(s), np.empty(s)
    sums, new_sums, distances = np.empty(loops.N_SUMS + 2), np.empty(loops.N_SUMS + 2), np.empty(most)
    tried = np.empty(most, dtype=np.bool_)
    for group in range(medians.shape[0]):
        index, weights = (
            rows[offsets[group] : offsets[group + 1]],
            all_weights[offsets[group] : offsets[group + 1]],
        )
        point, passes, kept, total = medians[group], 1, 0, 0.0
        for i in range(index.shape[0]):
            tried[i] = False
            total += weights[i]
        _evaluate(block, index, weights, point, distances, pull, sums)
        while sums[_GAP] > eps and passes < max_iter:
            row = int(sums[_NEAREST_ROW])
            try_row = row >= 0 and not tried[row] and sums[_COINCIDENT] == 0.0
            touching = sums[_NEAREST] * total < 1e-9 * sums[_OBJECTIVE]
            if try_row and (touching or sums[_NORM] <= 3.0 * sums[_NEAREST_WEIGHT]):
                tried[row] = True
                _copy(block[index[row]], new)
                _evaluate(block, index, weights, new, distances, new_pull, new_sums)
                passes += 1
                if new_sums[_OBJECTIVE] > sums[_OBJECTIVE] and new_sums[_GAP] > eps:
                    continue
                kept = 0
            else:
                _next_point(block, index, point, pull, sums, plain)
                for j in range(s):
                    points[kept, j], steps[kept, j], new[j] = point[j], plain[j] - point[j], plain[j]
                if kept > DEPTH:
                    for k in range(DEPTH + 1):
                        _copy(points[k + 1], points[k])
                        _copy(steps[k + 1], steps[k])
                    kept = DEPTH
                if kept > 0:
                    _mix(points, steps, kept, columns, turned, new)
                kept += 1
                _evaluate(block, index, weights, new, distances, new_pull, new_sums)
                passes += 1
                if new_sums[_OBJECTIVE] > sums[_OBJECTIVE] * (1.0 + 1e-14) and passes < max_iter:
                    kept = 0
                    _copy(plain, new)
                    _evaluate(block, index, weights, new, distances, new_pull, new_sums)
                    passes += 1
                same = True
                for j in range(s):
                    same = same and new[j] == point[j]
                if same:
                    break  # rounding stopped it: no point in float64 is better
            _copy(new, point)
            _copy(new_pull, pull)
            _copy(new_sums, sums)
        gaps[group], all_passes[group] = sums[_GAP], passes
