"""K-means on the device that holds the rows, draw for draw as scikit-learn does it on the CPU.

Seeds are those of greedy k-means++ (Arthur and Vassilvitskii, 2007), steps are Lloyd's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cuda.blocks import TensorRows
from gmmatch.backends.cuda.groups import DeviceGroups
from gmmatch.backends.cuda.sums import grouped_sums, grouped_totals
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices, Vector, offsets_of, stable_order

# As in scikit-learn: the most steps, and the step that is small enough, in variances of the rows.
_STEPS = 300
_TOLERANCE = 1e-4
# Products of rows with centres that are held at a time.
_BLOCK_ELEMENTS = 1 << 25


def kmeans_centers(
    rows: Rows, chosen: Indices, weights: Vector, n_clusters: int, starts: int, seed: int
) -> NDArray[np.float64]:
    """Return the centers of the best of several starts, on the rows at the chosen positions.

    Examples
    --------
    >>> import torch
    >>> from gmmatch.backends.cuda.blocks import TensorSource
    >>> rows = Rows(TensorSource(torch.tensor([[0.0], [1.0], [10.0], [11.0]])))
    >>> np.sort(kmeans_centers(rows, np.arange(4), np.ones(4), 2, 3, seed=0), axis=0)
    array([[ 0.5],
           [10.5]])
    """
    held = TensorRows(rows)
    points, heavy = held.gather(chosen).double(), held.to_device(weights)
    origin = points.mean(dim=0)
    points = points - origin  # not in place: they may be the caller's
    random = np.random.RandomState(seed)
    tolerance = _TOLERANCE * float(points.var(dim=0, correction=0).mean())
    best, least = points[:1], np.inf
    for _ in range(starts):
        centers, inertia = _lloyd(points, heavy, _seeds(points, heavy, n_clusters, random), tolerance)
        if inertia < least:
            best, least = centers, inertia
    found: NDArray[np.float64] = (best + origin).cpu().numpy()
    return found


def _seeds(points: Any, weights: Any, n_clusters: int, random: np.random.RandomState) -> Any:
    """Return the first centers: rows drawn in proportion to their squared distance from those before."""
    import torch

    squares = points.square().sum(dim=1)
    shares = (weights / weights.sum()).cpu().numpy()
    chosen = [torch.tensor([int(random.choice(len(points), p=shares))], device=points.device)]
    nearest = _squared(points[chosen[0]], points, squares)[0]
    trials = 2 + int(np.log(n_clusters))
    for _ in range(1, n_clusters):
        running = (weights * nearest).cumsum(dim=0)
        draws = torch.from_numpy(random.uniform(size=trials)).to(points.device) * running[-1]
        candidates = torch.searchsorted(running, draws).clamp(max=len(points) - 1)
        closer = torch.minimum(nearest, _squared(points[candidates], points, squares))
        best = (closer @ weights).argmin().reshape(1)
        nearest = closer[best][0]
        chosen.append(candidates[best])
    return points[torch.cat(chosen)].clone()


def _squared(some: Any, points: Any, squares: Any) -> Any:
    return (some.square().sum(dim=1)[:, None] + squares - 2.0 * some @ points.T).clamp(min=0.0)


def _lloyd(points: Any, weights: Any, centers: Any, tolerance: float) -> tuple[Any, float]:
    """Return where the centers come to rest, and the weighted sum of squared distances to them."""
    import torch

    labels = None
    for _ in range(_STEPS):
        before, labels = labels, _assign(points, centers)
        order = stable_order(labels)
        offsets = offsets_of(torch.bincount(labels, minlength=len(centers)).cpu().numpy())
        sums = grouped_sums(DeviceGroups(points, order, offsets), weights[order])
        total = grouped_totals(weights[order], offsets)[:, None]
        moved = torch.where(total > 0.0, sums / total.clamp(min=1e-300), centers)
        shift = float((moved - centers).square().sum())
        centers = moved
        if shift <= tolerance or (before is not None and torch.equal(before, labels)):
            break
    apart = (points - centers[_assign(points, centers)]).square().sum(dim=1)
    return centers, float(weights @ apart)


def _assign(points: Any, centers: Any) -> Any:
    """Return the number of each row's nearest center."""
    import torch

    squares = centers.square().sum(dim=1)
    parts = points.split(max(1, _BLOCK_ELEMENTS // len(centers)))
    return torch.cat([(squares - 2.0 * part @ centers.T).argmin(dim=1) for part in parts])
