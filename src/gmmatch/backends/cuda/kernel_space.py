"""Grouped matching in a kernel's space, on the device that holds the rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cuda.gram import gram_of_slab, score_block, slabs_that_fit
from gmmatch.backends.cuda.groups import DeviceGroups, on_their_device
from gmmatch.backends.cuda.picks import DEFAULT_MEMORY, GroupedPicks, PickJob
from gmmatch.kernels.distances import median_sample
from gmmatch.kernels.kernels import RBF, Kernel
from gmmatch.types import Indices

# Numbers that are held in float64 at a time, and pairs of rows whose differences are.
_BLOCK_ELEMENTS = 1 << 25
_CLOSE_PAIRS = 1 << 15


@dataclass(frozen=True, eq=False)
class KernelPicks:
    """Picks in a kernel's space, with the certified gaps of the medians they match.

    ``picks.rescored`` counts picks whose two best scores lay within the rounding of float32 kernel
    values; there is no exact score to decide them by.
    """

    picks: GroupedPicks
    gaps: NDArray[np.float64]
    iterations: Indices


def kernel_eps(eps: float) -> float:
    """Return the accuracy that a median of float32 kernel values is searched to.

    Examples
    --------
    >>> kernel_eps(1e-8), kernel_eps(1e-3)
    (1e-06, 0.001)
    """
    return max(eps, 1e-6)


def fitted_kernels(kernel: Kernel, groups: DeviceGroups) -> list[Kernel]:
    """Return the kernel of every group, with the median distance of the group's rows where that is its bandwidth.

    Examples
    --------
    >>> import torch
    >>> groups = DeviceGroups.of(torch.tensor([[0.0], [1.0], [3.0], [9.0]]), [np.arange(3), np.arange(4)])
    >>> fitted_kernels(RBF(), groups)
    [RBF(bandwidth=2.0), RBF(bandwidth=4.5)]
    """
    if not isinstance(kernel, RBF) or not isinstance(kernel.bandwidth, str):
        return [kernel] * len(groups)
    return [replace(kernel, bandwidth=scale) for scale in median_distances(groups).tolist()]


def median_distances(groups: DeviceGroups) -> NDArray[np.float64]:
    """Return the median distance between rows of every group, of the rows that the CPU draws."""
    import torch

    drawn = {size: median_sample(size) for size in np.unique(groups.sizes).tolist()}
    width = max(len(positions) for positions in drawn.values())
    found = np.ones(len(groups))
    step = max(1, _BLOCK_ELEMENTS // (width * max(width, groups.n_features)))
    for first in range(0, len(groups), step):
        sizes = groups.sizes[first : first + step].tolist()
        counts = np.array([len(drawn[size]) for size in sizes])
        at = np.zeros((len(sizes), width), dtype=np.int64)  # short groups are filled up with their first row
        for number, size in enumerate(sizes):
            at[number, : counts[number]] = drawn[size]
        at += groups.offsets[first : first + step][: len(sizes), None]
        rows = groups.data[groups.rows[groups.to_device(at)]].double()
        i, j = torch.triu_indices(width, width, 1, device=rows.device)
        distances = _squared_distances(rows)[:, i, j].sqrt()
        there = j < groups.to_device(counts)[:, None]
        ranked = distances.where(there, torch.inf).sort(dim=1).values
        pairs = groups.to_device(counts * (counts - 1) // 2)[:, None]
        if width > 1:
            middle = torch.cat([(pairs - 1).clamp(min=0) // 2, pairs // 2], dim=1).clamp(
                max=ranked.shape[1] - 1
            )
            median = ranked.gather(1, middle).mean(dim=1)
            positive = there & (distances > 0.0)
            # More than half of the pairs are duplicates: the mean of the other distances stands in.
            mean = distances.where(positive, 0.0).sum(dim=1) / positive.sum(dim=1)
            scale = median.where(median > 0.0, mean).where(positive.any(dim=1), 1.0)
            found[first : first + step] = scale.cpu().numpy()
    return found


def _squared_distances(rows: Any) -> Any:
    """Return ‖xᵢ − xⱼ‖² of all pairs in each of several sets of rows, (sets, n, s), without cancellation."""
    rows = rows - rows[:, :1]
    norms = rows.square().sum(dim=2)
    scale = norms[:, :, None] + norms[:, None, :]
    squared = (scale - 2.0 * rows @ rows.transpose(1, 2)).clamp(min=0.0)
    # Where nearly all digits cancelled, the differences themselves are squared.
    group, i, j = (squared < 1e-9 * scale).nonzero(as_tuple=True)
    for part in range(0, len(group), _CLOSE_PAIRS):
        at = (group[part : part + _CLOSE_PAIRS], i[part : part + _CLOSE_PAIRS], j[part : part + _CLOSE_PAIRS])
        squared[at] = (rows[at[0], at[1]] - rows[at[0], at[2]]).square().sum(dim=1)
    return squared


@on_their_device
def grouped_kernel_picks(
    groups: DeviceGroups,
    kernels: list[Kernel],
    quotas: Indices,
    *,
    median: bool,
    weights: Any = None,
    available: Any = None,
    start: str = "target",
    replacement: bool = False,
    eps: float = 1e-6,
    max_iter: int = 1000,
    memory_limit: int | None = None,
) -> KernelPicks:
    """Match the mean or the geometric median of every group in the space of its kernel.

    Parameters
    ----------
    groups : DeviceGroups
        Of at most 8,192 rows each.
    kernels : list of RBF or of Polynomial
        One per group, all of one kind (their bandwidths may differ).
    quotas : int64 array of shape (G,)
    median : bool
        Whether the target is the geometric median; the mean otherwise.
    weights, available, start, replacement, eps, max_iter, memory_limit
        As in :func:`gmmatch.backends.cuda.picks.grouped_picks`. Kernel values are float32, so ``eps`` below
        1e-6 cannot be certified: see :func:`kernel_eps`.
    """
    import torch

    from gmmatch.backends.cuda import medians_triton, picks_triton  # which need Triton

    limit = DEFAULT_MEMORY if memory_limit is None else memory_limit
    n, count = len(groups.rows), len(groups)
    job = PickJob.of(groups, None, None, quotas, available, replacement)
    wanted, offsets = groups.to_device(job.quotas), groups.to_device(job.offsets)

    def new(*shape: int, dtype: Any = torch.float64) -> Any:
        return torch.zeros(shape, dtype=dtype, device=groups.data.device)

    w = new(n) + 1.0 if weights is None else weights
    coefficients, products, scratch = new(n), new(n), new(n)
    target_norms, gaps = new(count), new(count)
    passes, rescored = new(count, dtype=torch.int64), new(count, dtype=torch.int64)
    nothing = new(1)
    for slab in slabs_that_fit(np.flatnonzero(job.quotas > 0), groups.sizes, limit):
        gram, gram_offsets = gram_of_slab(groups, slab, None, kernels)
        block = score_block(int(groups.sizes[slab].max()))
        programs, first = (int(slab[-1] - slab[0]) + 1,), int(slab[0])
        medians_triton.kernel_targets[programs](
            gram, gram_offsets, groups.offsets_on_device, w, coefficients, products, scratch, target_norms,
            gaps, passes, first, kernel_eps(eps), max_iter, MEDIAN=median, ROWS=max(1, 8192 // block),
            BLOCK=block, num_warps=8,
        )  # fmt: skip
        starts = products if start == "target" else torch.zeros_like(products)
        picks_triton.pick_groups[programs](
            groups.data, groups.rows, groups.offsets_on_device, gram, gram_offsets, starts, products, nothing,
            job.free, nothing, nothing, target_norms, wanted, offsets, job.order, job.residuals, rescored,
            first, 2.0**-18, groups.n_features, groups.data.stride(0),
            REPLACEMENT=replacement, BLOCK=block, COLUMNS=16, EXACT=False, num_warps=8,
        )  # fmt: skip
        del gram
    return KernelPicks(job.picks(rescored.sum()), gaps.cpu().numpy(), passes.cpu().numpy())
