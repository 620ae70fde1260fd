"""Rows of a torch tensor, on any device.

Functions of blocks take torch tensors as they take NumPy arrays. On CUDA, means, medians and picks of all groups are
computed by Triton kernels; ``TRITON_INTERPRET=1`` runs the same kernels on tensors of the CPU, slowly, for tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gmmatch._array import Indices, Mask, Matrix, Vector, to_numpy
from gmmatch._triton import has_kernels
from gmmatch.errors import InvalidTypeError
from gmmatch.median.compiled import OBJECTIVE
from gmmatch.median.search import Evaluations, Medians
from gmmatch.rows.base import BlockFunction, GreedyTask, LocalRows, PerRow, RowMap, search_medians
from gmmatch.rows.tensor_groups import TensorGroups

# Numbers in a block on a GPU, where a launch must have work for all of it.
_CUDA_BLOCK = 1 << 25
# Steps from the mean towards the median that are not judged.
_FIRST_STEPS = 6
# Picks whose rows are gathered at a time.
_READ_PICKS = 1 << 16


class TensorRows(LocalRows):
    """Rows of a tensor, which stay on its device; half precision is converted block by block.

    Parameters
    ----------
    tensor : torch.Tensor of shape (n, s)
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        if tensor.is_complex() or tensor.layout != torch.strided:
            raise InvalidTypeError(
                f"X is a tensor of {tensor.dtype} with layout {tensor.layout}: pass real numbers, "
                "X.to_dense() if it is sparse."
            )
        if not tensor.is_floating_point() or tensor.element_size() == 1:
            tensor = tensor.to(torch.float64 if tensor.element_size() >= 4 else torch.float32)
        self.tensor = tensor.detach()
        self.n_features = int(tensor.shape[1])
        self._dtype = torch.promote_types(tensor.dtype, torch.float32)

    def __len__(self) -> int:
        return len(self.tensor)

    def take(self, index: Indices) -> Matrix:
        """Return the rows with these numbers in float64."""
        return to_numpy(self.tensor[self.scatter(index)].to(self._dtype)).astype(np.float64)

    def map(self, row_map: RowMap) -> TensorRows:
        """Return the rows that ``row_map`` makes of these, on the same device."""
        mapped, edges = None, self.edges()
        blocks = self.iterate_blocks(row_map, (), (), edges)
        for (first, stop), block in zip(pairwise(edges), blocks, strict=True):
            if mapped is None:
                mapped = block.new_empty((len(self), block.shape[1]))
            mapped[first:stop] = block
        return TensorRows(mapped)

    def block(self, first: int, stop: int) -> torch.Tensor:
        """Return a run of rows."""
        return self.tensor[first:stop].to(self._dtype)

    def scatter(self, values: NDArray[Any]) -> torch.Tensor:
        """Return an array as a tensor on the device of the rows; on the CPU, of the same memory."""
        # torch warns of memory that it may not write to.
        return torch.from_numpy(np.require(values, requirements=["C", "W"])).to(self.tensor.device)

    def edges(self) -> Indices:
        """Return where the blocks begin; on a GPU a launch must have work for all of it."""
        if not self.tensor.is_cuda:
            return super().edges()
        return np.append(np.arange(0, len(self), max(1, _CUDA_BLOCK // self.n_features)), len(self))

    def iterate_blocks(
        self, function: BlockFunction, args: tuple[Any, ...], per_row: PerRow, edges: Indices
    ) -> Iterator[Any]:
        """Yield the results of the blocks between ``edges``, in order."""
        with _full_precision():
            yield from super().iterate_blocks(function, args, per_row, edges)

    def provenance(self) -> dict[str, Any]:
        """Return what is recorded about the rows."""
        return {**super().provenance(), "device": str(self.tensor.device)}

    def group_means(self, codes: Indices, weights: Vector, n_groups: int) -> Matrix:
        """Return the weighted mean of each group, summed in the same order every time."""
        if not self._has_kernels:
            return super().group_means(codes, weights, n_groups)
        return to_numpy(self._group_terms(codes, weights, n_groups, 0.0).means())

    def group_medians(
        self, codes: Indices, weights: Vector, n_groups: int, *, eps: float, max_iter: int, delta: float
    ) -> Medians:
        """Return the geometric median of each group; the search and its state stay on the device."""
        if not self._has_kernels:
            return super().group_medians(codes, weights, n_groups, eps=eps, max_iter=max_iter, delta=delta)
        terms = self._group_terms(codes, weights, n_groups, delta)
        # The search makes hundreds of small launches for each point: it certifies what the first steps arrive at.
        n_steps = _FIRST_STEPS if delta == 0.0 and max_iter > 2 * _FIRST_STEPS else 0
        start = _approach_medians(terms.means(), terms.evaluate, n_steps)
        # Solving small systems for a deeper history takes a GPU longer than the passes that it saves.
        options: dict[str, Any] = {"eps": eps, "max_iter": max_iter - n_steps, "delta": delta, "depth": 1}
        medians = search_medians(start, terms.evaluate, **options)
        return replace(medians, iterations=medians.iterations + n_steps)

    def greedy_picks(self, task: GreedyTask) -> tuple[Indices, Matrix]:
        """Pick rows in all groups at once; the picks are those of rows in main memory."""
        if not self._has_kernels:
            return super().greedy_picks(task)
        from gmmatch.rows.tensor_picks import TensorPicks

        groups = self._groups(task.codes, task.available, len(task.quotas))
        return TensorPicks(groups, task).run()

    def measure_residuals(self, points: Matrix, picks: Indices, owners: Indices) -> Vector:
        """Return ‖point − mean of the picks so far‖ after each pick."""
        targets, residuals = self.scatter(points), np.empty(len(picks))
        n_before, error = (
            np.arange(len(picks)) - np.searchsorted(owners, owners),
            torch.zeros_like(targets[0]),
        )
        for first in range(0, len(picks), _READ_PICKS):
            span = slice(first, first + _READ_PICKS)
            rows = self.tensor[self.scatter(picks[span])].to(torch.float64)
            # A device adds up fastest along neighbors in memory.
            errors = (targets[self.scatter(owners[span])] - rows).T.contiguous()
            errors[:, 0] += error * bool(n_before[first])
            totals = errors.cumsum(1)
            starts = np.maximum(np.arange(len(rows)) - n_before[span], 0)
            paths = totals - (totals - errors)[:, self.scatter(starts)]
            residuals[span], error = to_numpy(torch.linalg.vector_norm(paths, dim=0)), paths[:, -1]
        return residuals / (n_before + 1)

    @property
    def _has_kernels(self) -> bool:
        return has_kernels(self.tensor)

    def _groups(self, codes: Indices, mask: Mask, n_groups: int) -> TensorGroups:
        return TensorGroups.of(self.tensor, self.scatter(codes), self.scatter(mask), n_groups)

    def _group_terms(self, codes: Indices, weights: Vector, n_groups: int, delta: float) -> Any:
        from gmmatch.rows.triton_median import GroupTerms

        groups = self._groups(codes, weights > 0.0, n_groups)
        return GroupTerms(groups, self.scatter(weights)[groups.rows], delta)


def _approach_medians(
    points: torch.Tensor, evaluate: Callable[[Any, Any], Any], n_steps: int
) -> torch.Tensor:
    """Return points closer to the medians, after accelerated steps of which none waits for the device."""
    groups = torch.arange(len(points), device=points.device)
    last_points, last_steps, last_successors = (torch.zeros_like(points) for _ in range(3))
    best = torch.full_like(points[:, 0], torch.inf)
    for _ in range(n_steps):
        evaluations = Evaluations.of(points, evaluate(points, groups), 0.0)
        successors, objective = evaluations.proximal_points(), evaluations.terms[:, OBJECTIVE]
        steps = successors - points
        change = steps - last_steps
        mixing = (steps * change).sum(1) / (change * change).sum(1).clamp(min=1e-300)
        proposals = successors - torch.where(best < torch.inf, mixing, 0.0)[:, None] * (
            points - last_points + change
        )
        # Back to the plain successor where the last step went too far.
        worse = objective > best * (1.0 + 1e-14)
        best = torch.where(worse, torch.inf, objective)
        last_points, points = points, torch.where(worse[:, None], last_successors, proposals)
        last_steps, last_successors = steps, successors
    return points


@contextmanager
def _full_precision() -> Iterator[None]:
    """Keep products of float32 matrices from being rounded to 11 bits, though the program around may allow it."""
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:  # set by backend, which torch does not let this function read or change
        before = "highest"
    if before == "highest":
        yield
        return
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
