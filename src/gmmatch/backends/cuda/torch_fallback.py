"""The grouped median and the picks in plain torch operations: for devices where Triton does not work.

Slower than the kernels, with the same results: everything is computed in float64, group by group.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gmmatch.backends.cuda.groups import DeviceGroups
from gmmatch.backends.cuda.medians import GroupedMedians
from gmmatch.median.acceleration import AndersonMixer
from gmmatch.median.passes import Evaluation, rounding_of_pull
from gmmatch.types import Vector

# Rows converted to float64 at a time.
_BLOCK_ELEMENTS = 1 << 24


def medians_by_torch(groups: DeviceGroups, weights: Any, eps: float, max_iter: int) -> GroupedMedians:
    """Return the medians of all groups, one after another."""
    import torch

    device = groups.data.device
    count, s = len(groups), groups.n_features
    points = torch.zeros((count, s), dtype=torch.float64, device=device)
    figures = np.zeros((count, 3))
    distances = torch.zeros(len(groups.rows), dtype=torch.float64, device=device)
    for group in range(count):
        start, stop = int(groups.offsets[group]), int(groups.offsets[group + 1])
        problem = _Group(groups, start, stop, weights)
        best, passes = _solve(problem, eps, max_iter)
        points[group] = torch.from_numpy(best.point).to(device)
        distances[start:stop] = torch.from_numpy(best.distances).to(device)
        figures[group] = best.gap, best.objective, passes
    gaps, objectives, iterations = (torch.from_numpy(figures[:, j].copy()).to(device) for j in range(3))
    return GroupedMedians(points, gaps, objectives, iterations.to(torch.int64), gaps <= eps, distances)


def _solve(problem: _Group, eps: float, max_iter: int) -> tuple[Evaluation, int]:
    best = problem.at(problem.mean())
    mixer, passes = AndersonMixer(6), 1
    while best.gap > eps and passes < max_iter:
        nearest = problem.row(best.nearest_row) if best.nearest_row >= 0 else best.point
        if best.nearest_row >= 0 and best.nearest_distance * best.total_weight < 1e-9 * best.objective:
            plain = nearest
        else:
            plain = best.proximal_point(nearest)
        there = problem.at(mixer.propose(best.point, plain))
        passes += 1
        if there.objective > best.objective * (1.0 + 1e-14):
            mixer.forget()
            there = problem.at(plain)
            passes += 1
        if not np.any(there.point != best.point):
            break
        best = there
    return best, passes


class _Group:
    """The rows of one group, read block by block in float64 on their device."""

    def __init__(self, groups: DeviceGroups, start: int, stop: int, weights: Any) -> None:
        import torch

        self.data, self.rows = groups.data, groups.rows[start:stop]
        ones = torch.ones(stop - start, dtype=torch.float64, device=self.data.device)
        self.weights = ones if weights is None else weights[start:stop]
        self.block = max(1, _BLOCK_ELEMENTS // groups.n_features)

    def row(self, position: int) -> Vector:
        values: Vector = self.data[self.rows[position]].double().cpu().numpy()
        return values

    def mean(self) -> Vector:
        total = 0.0
        for first in range(0, len(self.rows), self.block):
            part = slice(first, first + self.block)
            total = total + self.weights[part] @ self.data[self.rows[part]].double()
        mean: Vector = (total / self.weights.sum()).cpu().numpy()
        return mean

    def at(self, point: Vector) -> Evaluation:
        import torch

        z = torch.from_numpy(point).to(self.data.device)
        pull, parts = torch.zeros_like(z), []
        for first in range(0, len(self.rows), self.block):
            part = slice(first, first + self.block)
            difference = self.data[self.rows[part]].double() - z
            d = difference.norm(dim=1)
            inverse = torch.where(d > 1e-150, self.weights[part] / d.clamp(min=1e-150), 0.0)
            pull += inverse @ difference
            parts.append((d, inverse))
        d = torch.cat([part[0] for part in parts])
        inverse = torch.cat([part[1] for part in parts])
        away = torch.where((d > 1e-150) & (self.weights > 0), d, torch.inf)
        nearest = int(away.argmin())
        least = away[nearest]
        found = bool(torch.isfinite(least))
        copies = (away == least) & (self.data[self.rows] == self.data[self.rows[nearest]]).all(dim=1)
        return Evaluation(
            point=point,
            pull=pull.cpu().numpy(),
            inverse_distances=float(inverse.sum()),
            objective=float(self.weights @ d),
            coincident_weight=float(self.weights[d <= 1e-150].sum()),
            nearest_row=nearest if found else -1,
            nearest_distance=float(least),
            nearest_weight=float(self.weights[copies].sum()) if found else 0.0,
            total_weight=float(self.weights.sum()),
            distances=d.cpu().numpy(),
            rounding=rounding_of_pull(len(self.rows), self.data.shape[1]),
        )
