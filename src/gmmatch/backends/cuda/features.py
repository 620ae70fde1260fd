"""Means of Fourier features of rows on the device that holds them, and picks that match those."""

from __future__ import annotations

from typing import Any

import numpy as np

from gmmatch.backends.cuda.blocks import TensorRows, tensor_beside
from gmmatch.backends.cuda.groups import DeviceGroups
from gmmatch.backends.cuda.picks import grouped_picks
from gmmatch.kernels.feature_maps import FourierFeatures
from gmmatch.matching.walk import Picks
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices, Mask, Vector

# Rows whose features are added up in float64 at a time.
_SUMMED_ROWS = 1 << 14


def match_weighted_means(
    features: FourierFeatures,
    rows: list[Rows],
    weights: list[Vector],
    available: list[Mask],
    quotas: list[int],
) -> list[Picks]:
    """Pick rows of every group whose mean of features approaches the weighted mean of the group's.

    Examples
    --------
    >>> import torch
    >>> from gmmatch.backends.cuda.blocks import TensorSource
    >>> from gmmatch.kernels.kernels import RBF
    >>> X = np.array([[0.0], [1.0], [5.0]])
    >>> group = Rows(TensorSource(torch.from_numpy(X)))
    >>> features = FourierFeatures(RBF(1.0), 200).fit(X)
    >>> match_weighted_means(features, [group], [np.array([1.0, 9.0, 1.0])], [np.ones(3, bool)], [1])[0].order
    array([1])
    """
    import torch

    offsets = np.concatenate([[0], np.cumsum([len(group) for group in rows])])
    together = Rows(
        rows[0].source, np.concatenate([group.index for group in rows]), bfloat16=rows[0].bfloat16
    )
    values = TensorRows(together).mapped(features).tensor
    group_of_row = tensor_beside(values, np.repeat(np.arange(len(rows)), np.diff(offsets)))
    weight = tensor_beside(values, np.concatenate(weights), torch.float64)[:, None]
    totals = torch.zeros((len(rows), values.shape[1]), dtype=torch.float64, device=values.device)
    for first in range(0, len(values), _SUMMED_ROWS):
        part = slice(first, first + _SUMMED_ROWS)
        totals.index_add_(0, group_of_row[part], values[part].double() * weight[part])
    sums = np.array([float(one.sum()) for one in weights])
    targets = totals.cpu().numpy() / np.maximum(sums, 1e-300)[:, None]
    open_rows = [np.flatnonzero(mask) for mask in available]
    asked = [number for number, quota in enumerate(quotas) if quota]
    picks = match_on_device(
        values,
        [offsets[number] + open_rows[number] for number in asked],
        [targets[number] for number in asked],
        [quotas[number] for number in asked],
    )
    found = [Picks.join([]) for _ in rows]
    for number, one in zip(asked, picks, strict=True):
        found[number] = Picks(open_rows[number][one.order], one.residuals)
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
