"""The Gram matrices of many groups of rows, as many at a time as fit into memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cuda.groups import DeviceGroups
from gmmatch.kernels.kernels import Kernel, Polynomial
from gmmatch.types import Indices

_TILE = 128


def score_block(largest: int) -> int:
    """Return the power of two that holds the scores of a group.

    Examples
    --------
    >>> score_block(5), score_block(1280)
    (64, 2048)
    """
    return max(64, 1 << (largest - 1).bit_length())


def gram_of_slab(
    groups: DeviceGroups, slab: Indices, centers: Any, kernels: list[Kernel] | None = None
) -> tuple[Any, Any]:
    """Return the Gram matrices of a slab of groups, one after another, and where each begins.

    Products of float32 numbers are three TF32 products each, which recovers 21 bits and more; plain TF32
    is never used. Half-precision numbers multiply exactly; for a kernel they are float32 numbers like any others.
    """
    import torch

    from gmmatch.backends.cuda import picks_triton

    data, device = groups.data, groups.data.device
    half = kernels is None and data.dtype in (torch.bfloat16, torch.float16)
    if centers is None and not half:
        # Distances and kernel values: seen from a row of the group, little cancels.
        centers = data[groups.rows[groups.offsets_on_device[:-1]]].to(torch.float32)
        if kernels is not None and isinstance(kernels[0], Polynomial):
            centers = torch.zeros_like(centers)  # an inner product depends on the origin
    kind, degree, shift = picks_triton.LINEAR, 1, 0.0
    inverse_squares = torch.zeros(1, dtype=torch.float32, device=device)
    if kernels is not None and isinstance(kernels[0], Polynomial):
        kind, degree, shift = picks_triton.POLYNOMIAL, kernels[0].degree, float(kernels[0].c)
    elif kernels is not None:
        kind = picks_triton.GAUSSIAN
        scales = np.array([1.0 / kernel.scale**2 for kernel in kernels], dtype=np.float32)  # type: ignore[attr-defined]
        inverse_squares = groups.to_device(scales)
    table, begins, total = _gram_layout(slab, groups)
    gram = torch.empty(total, dtype=torch.float32, device=device)
    gram_offsets = groups.to_device(begins)
    picks_triton.gram_tiles[(len(table),)](
        data, groups.rows, groups.offsets_on_device, groups.to_device(table), gram, gram_offsets,
        inverse_squares if half else centers, shift, inverse_squares, groups.n_features, data.stride(0),
        CENTERED=not half, KERNEL=kind, DEGREE=degree, BLOCK=_TILE,
        DEPTH=32 if data.dtype == torch.float64 else 64, PRECISION="ieee" if half else "tf32x3",
        num_warps=8, num_stages=4 if half else 3,
    )  # fmt: skip
    return gram, gram_offsets


def slabs_that_fit(members: Indices, sizes: Indices, limit: int) -> list[Indices]:
    """Cut runs of consecutive groups whose Gram matrices fit the limit together."""
    slabs: list[Indices] = []
    current: list[int] = []
    used = 0
    for group in members.tolist():
        need = 4 * int(sizes[group]) ** 2
        if current and (used + need > limit or group != current[-1] + 1):
            slabs.append(np.array(current))
            current, used = [], 0
        current.append(group)
        used += need
    slabs.append(np.array(current))
    return slabs


def _gram_layout(slab: Indices, groups: DeviceGroups) -> tuple[NDArray[np.int64], Indices, int]:
    """Return the upper tiles of the slab's matrices, where each matrix begins, and their size in all."""
    sizes = groups.sizes[slab]
    begins = np.concatenate([[0], np.cumsum(sizes**2)])
    gram_offsets = np.zeros(len(groups), dtype=np.int64)
    gram_offsets[slab] = begins[:-1]
    parts = []
    side = -(-sizes // _TILE)
    for length in np.unique(side):
        mine = slab[side == length]
        upper_i, upper_j = np.triu_indices(int(length))
        part = np.empty((len(mine), len(upper_i), 3), dtype=np.int64)
        part[:, :, 0] = mine[:, None]
        part[:, :, 1] = upper_i * _TILE
        part[:, :, 2] = upper_j * _TILE
        parts.append(part.reshape(-1, 3))
    return np.concatenate(parts), gram_offsets, int(begins[-1])
