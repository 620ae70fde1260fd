"""The worst that a given number of corrupted rows can do to a geometric median, and convex hulls.

At a point z the clean rows pull with the force g(z) = Σ (x − z)/‖x − z‖. Every corrupted row pulls with a
force of at most 1, so m of them can hold z in balance only where ‖g(z)‖ ≤ m; and wherever that is so,
putting all m *at* z makes z the median. The medians that m rows can cause are therefore exactly the set
{z : ‖g(z)‖ ≤ m} (a clean row that lies at z counts with the corrupted ones), and the farthest point of that
set is the worst attack there is, not only the worst that was tried. Its border is where the median goes
when all m rows recede to infinity in one direction u: the minimum of Σ‖z − x‖ − m⟨u, z⟩.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gmmatch_paper.arrays import Vector

_DIRECTIONS = 72


def pull(rows: NDArray[np.float64], points: NDArray[np.float64]) -> Vector:
    """Return ‖g(z)‖ for each point z: how many corrupted rows it takes to make it the median."""
    forces = np.empty(len(points))
    for number, point in enumerate(points):
        offsets = rows - point
        lengths = np.linalg.norm(offsets, axis=1, keepdims=True)
        forces[number] = np.linalg.norm((offsets / np.maximum(lengths, 1e-300)).sum(axis=0))
    return forces


def pulled_median(rows: NDArray[np.float64], m: int, direction: Vector) -> Vector:
    """Return the median of the rows and m more that are infinitely far away in a direction."""
    from scipy.optimize import minimize

    if rows.shape[1] == 1:  # a quantile, where the objective has corners
        ranked = np.sort(rows[:, 0] * direction[0])
        return np.array([ranked[(len(rows) + m) // 2] * direction[0]])

    def objective(z: Vector) -> tuple[float, Vector]:
        offsets = z - rows
        lengths = np.maximum(np.linalg.norm(offsets, axis=1), 1e-300)
        value = float(lengths.sum() - m * (z @ direction)) / len(rows)
        return value, (offsets / lengths[:, None]).sum(axis=0) / len(rows) - m / len(rows) * direction

    start = rows.mean(axis=0) + direction * rows.std()
    found = minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-9})
    point: Vector = found.x
    return point


def worst_median(rows: NDArray[np.float64], m: int) -> tuple[Vector, Vector]:
    """Return the farthest median from the mean that m corrupted rows can cause, and its direction; in the plane."""
    from scipy.optimize import minimize_scalar

    mean = rows.mean(axis=0)

    def error(angle: float) -> float:
        return float(np.linalg.norm(pulled_median(rows, m, _unit(angle)) - mean))

    angles = np.linspace(0.0, 2.0 * np.pi, _DIRECTIONS, endpoint=False)
    best = angles[int(np.argmax([error(angle) for angle in angles]))]
    step = angles[1]
    found = minimize_scalar(lambda angle: -error(angle), bounds=(best - step, best + step), method="bounded")
    angle = float(found.x) if -found.fun >= error(best) else float(best)
    return pulled_median(rows, m, _unit(angle)), _unit(angle)


def far_cluster_error(rows: NDArray[np.float64], m: int) -> float:
    """Return √(λ / 2(1 − m/n)), what the worst error tends to as m approaches the number of rows n.

    Far out at distance R the clean rows pull almost as one: ‖g‖/n ≈ 1 − v/(2R²), where v is their variance
    across the line of sight, at most the largest eigenvalue λ of their covariance.
    """
    spread = float(np.linalg.eigvalsh(np.cov(rows.T, bias=True))[-1])
    return float(np.sqrt(spread / (2.0 * (1.0 - m / len(rows)))))


def in_hull(point: Vector, rows: NDArray[np.float64]) -> bool:
    """Return whether a point is a convex combination of the rows, by linear programming."""
    from scipy.optimize import linprog

    equations = np.vstack([rows.T, np.ones(len(rows))])
    solved = linprog(np.zeros(len(rows)), A_eq=equations, b_eq=np.append(point, 1.0), bounds=(0, None))
    return bool(solved.status == 0)


def distance_to_hull(point: Vector, rows: NDArray[np.float64]) -> float:
    """Return how far a point of the plane is from the convex hull of the rows; 0 inside."""
    if in_hull(point, rows):
        return 0.0
    # The nearest point of a hull in the plane lies on a segment between two rows.
    starts, ends = (np.repeat(rows, len(rows), axis=0), np.tile(rows, (len(rows), 1)))
    along = ends - starts
    lengths = np.maximum(np.einsum("ij,ij->i", along, along), 1e-300)
    shares = np.clip(np.einsum("ij,ij->i", point - starts, along) / lengths, 0.0, 1.0)
    return float(np.linalg.norm(starts + shares[:, None] * along - point, axis=1).min())


def _unit(angle: float) -> Vector:
    return np.array([np.cos(angle), np.sin(angle)])
