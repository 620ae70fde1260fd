"""Sums over the rows of many groups at once, in float64, by torch operations on the device that holds the rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gmmatch.backends.cuda.groups import DeviceGroups
from gmmatch.types import Indices, offsets_of

# Rows that are added up together, the same ones on every device: sums do not depend on it.
_TILE = 256
# Numbers that are converted to float64 at a time.
_BLOCK_ELEMENTS = 1 << 25


def _tile_length(groups: DeviceGroups) -> int:
    return min(_TILE, int(groups.sizes.max()))


def _tiles(groups: DeviceGroups) -> Iterator[tuple[Any, Any, Any]]:
    """Yield blocks of tiles: their groups, the positions of their rows, and which of these are there.

    A tile holds rows of one group; short ones are filled up with rows that are not there.
    """
    import torch

    length = _tile_length(groups)
    table = groups.tiles(length).table
    step = max(1, _BLOCK_ELEMENTS // (length * groups.n_features))
    within = torch.arange(length, device=groups.data.device)
    for first in range(0, len(table), step):
        group, start, stop = table[first : first + step].unbind(dim=1)
        at = start[:, None] + within
        there = at < stop[:, None]
        yield group, at.where(there, start[:, None]), there


def grouped_sums(groups: DeviceGroups, weights: Any = None) -> Any:
    """Return Σ wᵢxᵢ of every group, a float64 tensor of shape (G, s); the same bits whenever it is asked for.

    Examples
    --------
    >>> import torch
    >>> rows = torch.tensor([[1.0], [2.0], [4.0]])
    >>> grouped_sums(DeviceGroups.of(rows, [np.array([0, 2]), np.array([1])])).tolist()
    [[5.0], [2.0]]
    """
    import torch

    sums, owners = [], []
    for group, at, there in _tiles(groups):
        weight = there.double() if weights is None else weights[at] * there
        rows = groups.data[groups.rows[at]].double()
        sums.append(torch.bmm(weight[:, None, :], rows)[:, 0])
        owners.append(group)
    tiles, owner = torch.cat(sums), torch.cat(owners)
    counts = -(-groups.sizes // _tile_length(groups))
    if counts.max() > 1:
        every = torch.arange(len(tiles), device=tiles.device)
        return grouped_sums(DeviceGroups(tiles, every, offsets_of(counts)))
    total = torch.zeros((len(groups), groups.n_features), dtype=torch.float64, device=tiles.device)
    total[owner] = tiles
    return total


def grouped_totals(values: Any, offsets: Indices) -> Any:
    """Return the sum of every group's numbers, one number per row; a float64 tensor of shape (G,)."""
    import torch

    every = torch.arange(len(values), device=values.device)
    return grouped_sums(DeviceGroups(values[:, None], every, offsets))[:, 0]


def grouped_means(groups: DeviceGroups, weights: Any = None) -> Any:
    """Return the weighted mean of every group, a float64 tensor of shape (G, s)."""
    if weights is None:
        return grouped_sums(groups) / groups.to_device(groups.sizes.astype(np.float64))[:, None]
    return grouped_sums(groups, weights) / grouped_totals(weights, groups.offsets)[:, None]


def grouped_coordinate_medians(groups: DeviceGroups, weights: Any = None) -> Any:
    """Return the weighted median of each column of every group, a float64 tensor of shape (G, s).

    Examples
    --------
    >>> import torch
    >>> rows = torch.tensor([[0.0], [1.0], [5.0], [7.0]])
    >>> grouped_coordinate_medians(DeviceGroups.of(rows, [np.arange(4), np.array([2])])).tolist()
    [[3.0], [5.0]]
    """
    import torch

    device, most = groups.data.device, int(groups.sizes.max())
    found = torch.empty((len(groups), groups.n_features), dtype=torch.float64, device=device)
    width = max(1, min(groups.n_features, _BLOCK_ELEMENTS // most))
    step = max(1, _BLOCK_ELEMENTS // (most * width))
    for first in range(0, len(groups), step):
        starts = groups.offsets_on_device[first : first + step + 1]
        sizes = starts.diff()
        at = starts[:-1, None] + torch.arange(int(sizes.max()), device=device)
        there = at < starts[1:, None]
        at = at.where(there, starts[:-1, None])
        weight = there.double() if weights is None else weights[at] * there
        for column in range(0, groups.n_features, width):
            columns = groups.data[groups.rows[at], column : column + width].double()
            ranked, order = columns.where(there[:, :, None], torch.inf).sort(dim=1)
            # The tolerance of `middle_values`, which does this for one group on the CPU.
            below = weight[:, :, None].expand_as(order).gather(1, order).cumsum(dim=1)
            half = 0.5 * below[:, -1:]
            low = (below < half * (1.0 - 1e-12)).sum(dim=1, keepdim=True)
            high = (below <= half * (1.0 + 1e-12)).sum(dim=1, keepdim=True)
            middle = ranked.gather(1, low) + ranked.gather(1, high)
            found[first : first + step, column : column + width] = 0.5 * middle[:, 0]
    return found


def grouped_distances(groups: DeviceGroups, points: Any) -> Any:
    """Return the distance of every row to its group's point, a float64 tensor in the groups' order."""
    import torch

    found = torch.empty(len(groups.rows), dtype=torch.float64, device=groups.data.device)
    for group, at, _ in _tiles(groups):
        apart = groups.data[groups.rows[at]].double() - points[group][:, None, :]
        found[at] = apart.norm(dim=2)  # what fills up a tile is a row of it, and gets the same number again
    return found


def grouped_residuals(
    groups: DeviceGroups, points: Any, order: Any, offsets: Indices, already: Any = None
) -> Any:
    """Return ‖point − mean of the first t picks‖ for the picks of every group, group after group.

    Parameters
    ----------
    groups : DeviceGroups
    points : float64 tensor of shape (G, s)
    order : int64 tensor
        Positions within the group, in the order they were picked, group after group.
    offsets : int64 array of shape (G + 1,)
        Where each group's picks begin.
    already : bool tensor of shape (n,), optional
        Rows that count as picked before the first pick is made.
    """
    import torch

    quotas, device = np.diff(offsets), points.device
    drift, counts = torch.zeros_like(points), torch.zeros(len(groups), dtype=torch.float64, device=device)
    if already is not None:
        counts = grouped_totals(already.double(), groups.offsets)
        drift = counts[:, None] * points - grouped_sums(groups, already.double())
    begins = groups.to_device(offsets)
    residuals = torch.empty(len(order) + 1, dtype=torch.float64, device=device)  # the last of no pick
    numbers = groups.rows[groups.to_device(np.repeat(groups.offsets[:-1], quotas)) + order]
    first = 0
    while first < quotas.max(initial=0):
        # As many picks of each group as fit together; groups in parts, where even one pick of all does not.
        active = np.flatnonzero(quotas > first)
        width = max(1, min(int(quotas.max()) - first, _BLOCK_ELEMENTS // (len(active) * groups.n_features)))
        step = max(1, _BLOCK_ELEMENTS // (width * groups.n_features))
        within = torch.arange(first, first + width, device=device)
        for part in range(0, len(active), step):
            group = groups.to_device(active[part : part + step])
            at = begins[group][:, None] + within
            there = at < begins[group + 1][:, None]
            rows = groups.data[numbers[at.where(there, begins[group][:, None])]].double()
            along = (points[group][:, None, :] - rows).cumsum(dim=1) + drift[group][:, None, :]
            drift[group] = along[:, -1]
            made = counts[group][:, None] + within + 1
            residuals[at.where(there, len(order))] = along.norm(dim=2) / made
        first += width
    return residuals[:-1]
