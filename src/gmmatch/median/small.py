"""The geometric medians of many small groups in memory, compiled: a class of ten rows takes microseconds.

For each evaluation that :mod:`gmmatch.median.search` asks for, Python takes a millisecond. These loops take the same
steps with a memory of one step, as the kernels on a GPU do; the few groups that do not converge so are left to it.
Plain loops throughout: expressions of whole arrays would take the compiler five times as long.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gmmatch.median import loops
from gmmatch.median.passes import ROUNDOFF

_COINCIDENT, _INVERSE, _OBJECTIVE = loops.COINCIDENT, loops.INVERSE_DISTANCES, loops.OBJECTIVE
_NEAREST, _NEAREST_ROW, _NEAREST_WEIGHT = loops.NEAREST_DISTANCE, loops.NEAREST_ROW, loops.NEAREST_WEIGHT
# Where else a pass leaves its numbers.
_NORM, _GAP = loops.N_SUMS, loops.N_SUMS + 1
# A group that has not ended by now is left as it stands.
_MOST_PASSES = 100


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
    loops.weiszfeld_chunk(block, index, weights, point, 0.0, distances, pull, sums)
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
def _accelerate(
    point: NDArray[np.float64], plain: NDArray[np.float64], last: NDArray[np.float64],
    step: NDArray[np.float64], first: bool, out: NDArray[np.float64],
) -> None:  # fmt: skip
    """Write the accelerated successor of ``point``, as :class:`AndersonMixer` has it for a memory of one step.

    ``last`` and ``step`` are the point before and its step; they become this point and its step.
    """
    along, length = 0.0, 0.0
    for j in range(out.shape[0]):
        new = plain[j] - point[j]
        along += new * (new - step[j])
        length += (new - step[j]) * (new - step[j])
    mixing = 0.0 if first or length == 0.0 else along / length
    for j in range(out.shape[0]):
        new = plain[j] - point[j]
        out[j] = plain[j]
        if mixing != 0.0:
            out[j] -= mixing * (point[j] - last[j] + new - step[j])
        last[j], step[j] = point[j], new


@njit(nogil=True, cache=True, boundscheck=False)
def small_medians(
    block: NDArray[Any], rows: NDArray[np.int64], offsets: NDArray[np.int64], all_weights: NDArray[np.float64],
    eps: float, max_iter: int, medians: NDArray[np.float64], gaps: NDArray[np.float64],
    all_passes: NDArray[np.int64],
) -> None:  # fmt: skip
    """Move the point of every group from where it is towards the median of the group's rows, with gaps and passes."""
    s, most = medians.shape[1], 0
    for group in range(medians.shape[0]):
        most = max(most, offsets[group + 1] - offsets[group])
    pull, new_pull, plain, new = np.zeros(s), np.zeros(s), np.zeros(s), np.zeros(s)
    last, step = np.zeros(s), np.zeros(s)
    sums, new_sums, distances = np.empty(loops.N_SUMS + 2), np.empty(loops.N_SUMS + 2), np.empty(most)
    tried = np.empty(most, dtype=np.bool_)
    for group in range(medians.shape[0]):
        part = slice(offsets[group], offsets[group + 1])
        index, weights = rows[part], all_weights[part]
        point, passes, first, total = medians[group], 1, True, 0.0
        for i in range(index.shape[0]):
            tried[i] = False
            total += weights[i]
        _evaluate(block, index, weights, point, distances, pull, sums)
        while sums[_GAP] > eps and passes < min(max_iter, _MOST_PASSES):
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
                first = True
            else:
                _next_point(block, index, point, pull, sums, plain)
                _accelerate(point, plain, last, step, first, new)
                _evaluate(block, index, weights, new, distances, new_pull, new_sums)
                passes, first = passes + 1, False
                worse = not new_sums[_OBJECTIVE] <= sums[_OBJECTIVE] * (1.0 + 1e-14)
                if worse and passes == max_iter:
                    break
                if worse:
                    _copy(plain, new)
                    _evaluate(block, index, weights, new, distances, new_pull, new_sums)
                    passes, first = passes + 1, True
                same = True
                for j in range(s):
                    same = same and new[j] == point[j]
                if same:
                    break  # rounding stopped it: no point in float64 is better
            _copy(new, point)
            _copy(new_pull, pull)
            _copy(new_sums, sums)
        gaps[group], all_passes[group] = sums[_GAP], passes
