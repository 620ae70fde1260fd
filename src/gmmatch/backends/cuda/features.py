"""Fourier features of rows on the device that holds them, their means, and picks that match those."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cuda.blocks import TensorRows, tensor_beside, whole_precision
from gmmatch.backends.cuda.groups import DeviceGroups
from gmmatch.backends.cuda.picks import grouped_picks
from gmmatch.kernels.feature_maps import FourierFeatures
from gmmatch.matching.walk import Picks
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices, Vector

# Rows whose features are added up in float32 before they go into a float64 total.
_SUMMED_ROWS = 1 << 14


def fits_on_device(rows: Rows, width: int) -> bool:
    """Return whether float32 features of all rows take at most half of what is free on their device."""
    import torch

    device = TensorRows(rows).tensor.device
    if device.type != "cuda":
        return True
    free = int(torch.cuda.mem_get_info(device)[0])
    return 4 * len(rows) * width <= free // 2


def features_on_device(features: FourierFeatures, rows: Rows) -> Any:
    """Return the float32 features of all rows as a tensor.

    Examples
    --------
    >>> import torch
    >>> from gmmatch.backends.cuda.blocks import TensorSource
    >>> from gmmatch.kernels.kernels import RBF
    >>> rows = np.array([[0.0], [1.0]])
    >>> features = FourierFeatures(RBF(1.0), 100).fit(rows)
    >>> found = features_on_device(features, Rows(TensorSource(torch.from_numpy(rows))))
    >>> bool(np.allclose(found, features.transform(rows), atol=1e-6))
    True
    """
    import torch

    held = TensorRows(rows)
    # Rows are divided by a length before they are narrowed: float32 holds no numbers of any size.
    length = 1.0 / max(float(np.abs(features.frequencies_).max()), 1e-300)
    frequencies = held.to_device((features.frequencies_ * length).astype(np.float32))
    half = int(frequencies.shape[1])
    found = torch.empty((len(rows), 2 * half), dtype=torch.float32, device=held.tensor.device)
    with whole_precision():
        for span in held.spans():
            stored = held.gather(span)
            centre = held.to_device(features.centre_).to(stored.dtype)
            phases = ((stored - centre) * (1.0 / length)).to(torch.float32) @ frequencies
            torch.cos(phases, out=found[span, :half])
            torch.sin(phases, out=found[span, half:])
    return found.mul_(1.0 / float(np.sqrt(half)))


def means_on_device(values: Any, shares: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return Σ shareᵢ φᵢ / Σ shareᵢ for each column of shares.

    Examples
    --------
    >>> import torch
    >>> means_on_device(torch.tensor([[0.0], [1.0]]), np.array([[1.0, 1.0], [0.0, 3.0]], dtype=np.float32)).tolist()
    [[0.0], [0.75]]
    """
    import torch

    weights = tensor_beside(values, shares, values.dtype)
    totals = torch.zeros((shares.shape[1], values.shape[1]), dtype=torch.float64, device=values.device)
    with whole_precision():
        for first in range(0, len(values), _SUMMED_ROWS):
            part = slice(first, first + _SUMMED_ROWS)
            totals += (weights[part].T @ values[part]).double()
    counts = np.maximum(shares.sum(axis=0, dtype=np.float64), 1e-300)
    found: NDArray[np.float64] = totals.cpu().numpy() / counts[:, None]
    return found


def match_on_device(
    values: Any, members: list[Indices], targets: list[Vector], quotas: list[int]
) -> list[Picks]:
    """Match the target of every group with rows of ``values``; positions are within each group's members.

    Examples
    --------
    >>> import torch
    >>> found = match_on_device(torch.tensor([[0.0], [1.0], [5.0]]), [np.array([1, 2])], [np.array([4.0])], [1])
    >>> found[0].order.tolist()
    [1]
    """
    groups = DeviceGroups.of(values, members)
    found = grouped_picks(groups, groups.to_device(np.stack(targets)), np.array(quotas))
    parts = [slice(int(a), int(b)) for a, b in zip(found.offsets[:-1], found.offsets[1:], strict=True)]
    return [Picks(found.order[part], found.residuals[part]) for part in parts]
