"""Rows of a torch tensor, on any device.

Functions of blocks take torch tensors as they take NumPy arrays. On CUDA, means, medians and picks of all groups are
computed by Triton kernels; ``TRITON_INTERPRET=1`` runs the same kernels on tensors of the CPU, slowly, for tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gmmatch._array import Indices, Mask, Matrix, Vector, to_numpy
from gmmatch._triton import has_kernels
from gmmatch.errors import InvalidTypeError
from gmmatch.median.compiled import OBJECTIVE
from gmmatch.median.search import Medians, MedianSearch
from gmmatch.rows.base import BlockFunction, Combine, GreedyTask, LocalRows, PerRow, RowMap
from gmmatch.rows.tensor_groups import TensorGroups
from gmmatch.rows.tree import TreeFold, block_edges

# Numbers in a block on a GPU, where a launch must have work for all of it.
_CUDA_BLOCK = 1 << 25
# Steps from the mean towards the median that are not judged.
_FIRST_STEPS = 6


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
        mapped, edges = None, self._edges()
        with _full_precision():
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

    def run_blocks(
        self, function: BlockFunction, args: tuple[Any, ...], per_row: PerRow, combine: Combine | None
    ) -> NDArray[Any]:
        """Run a function on all blocks; combine or join the results."""
        with _full_precision():
            results = self.iterate_blocks(function, args, per_row, self._edges())
            if combine is None:
                return np.concatenate([to_numpy(result) for result in results])
            return to_numpy(TreeFold.of(results, combine).result())

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
        start = terms.approach(terms.means(), n_steps)
        # Solving small systems for a deeper history takes a GPU longer than the passes that it saves.
        search = MedianSearch(start, eps=eps, max_iter=max_iter - n_steps, delta=delta, depth=1)
        first = terms.evaluate(search.ask(), search.active)
        search.tell(first)
        # A row that holds NaN, infinity or a number too large to square: there is no median.
        finite = bool(torch.isfinite(first[:, OBJECTIVE]).all())
        while finite and len(search.active):
            search.tell(terms.evaluate(search.ask(), search.active))
        medians = search.result()
        return replace(medians, iterations=medians.iterations + n_steps)

    def greedy_picks(self, task: GreedyTask) -> tuple[Indices, Matrix]:
        """Pick rows in all groups at once; the picks are those of rows in main memory."""
        if not self._has_kernels:
            return super().greedy_picks(task)
        from gmmatch.rows.tensor_picks import TensorPicks

        groups = self._groups(task.codes, task.available, len(task.quotas))
        return TensorPicks(groups, task.quotas, task.targets, task.thetas, task.replacement).run()

    def measure_residuals(self, points: Matrix, picks: Indices, owners: Indices) -> Vector:
        """Return ‖point − mean so far‖ after each pick; picks and their groups come group after group."""
        if not self._has_kernels:
            return super().measure_residuals(points, picks, owners)
        from gmmatch.rows.tensor_picks import measure_residuals

        starts = self.scatter(np.searchsorted(owners, np.arange(len(points) + 1)))
        return to_numpy(measure_residuals(self._row_major, self.scatter(picks), starts, self.scatter(points)))

    @cached_property
    def _has_kernels(self) -> bool:
        return has_kernels(self.tensor)

    @cached_property
    def _row_major(self) -> torch.Tensor:
        """The tensor, the columns of a row next to each other: what kernels read."""
        return self.tensor if self.tensor.stride(1) == 1 else self.tensor.contiguous()

    def _groups(self, codes: Indices, mask: Mask, n_groups: int) -> TensorGroups:
        return TensorGroups.of(self._row_major, self.scatter(codes), self.scatter(mask), n_groups)

    def _group_terms(self, codes: Indices, weights: Vector, n_groups: int, delta: float) -> Any:
        from gmmatch.rows.triton_median import GroupTerms

        groups = self._groups(codes, weights > 0.0, n_groups)
        return GroupTerms(groups, self.scatter(weights)[groups.rows], delta)

    def _edges(self) -> Indices:
        n, s = self.tensor.shape
        if not self.tensor.is_cuda:
            return block_edges(n, s)
        return np.append(np.arange(0, n, max(1, _CUDA_BLOCK // s)), n)


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
