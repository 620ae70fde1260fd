"""Improve a selection that was made: swaps that bring its mean nearer to the target, and weights of its picks."""

from __future__ import annotations

from typing import Any

import numpy as np

from gmmatch._array import Indices, Mask, Matrix, Vector
from gmmatch._checks import check_whole_number
from gmmatch.errors import InvalidInputError
from gmmatch.methods.registry import method_from_record
from gmmatch.problem import Problem
from gmmatch.rows.open import per_row_values
from gmmatch.selection.selection import Selection
from gmmatch.targets import Targets

# What a swap gains must exceed rounding, or two rows could be exchanged forever.
_LEAST_GAIN = 1e-10
# Of the mean square of the picks: among weights that match equally well, the most even ones are wanted.
_EVENNESS = 1e-6


def refine(selection: Selection, X: Any, y: Any = None, *, sweeps: int = 10, **arguments: Any) -> Selection:
    """Exchange picks for other rows of their class while that brings the mean of the picks nearer to the target.

    With q picks, ‖Σx − qμ‖² changes by ‖x‖² + 2⟨Σx − qμ, x⟩ as x joins the others: each pick in turn is taken out,
    and the row with the least of it comes in. The rows of one class are held in memory at a time.

    Parameters
    ----------
    selection : Selection
        Made by a matching.
    X, y
        The rows and labels that it was made from.
    sweeps : int
        How often to go over the picks at most.
    **arguments
        Other arguments of ``select`` that it was made with.

    Returns
    -------
    Selection
        Each new pick in the position of the old one; the number of swaps is recorded.

    Examples
    --------
    >>> from gmmatch import Herding
    >>> X = np.random.default_rng(0).standard_normal((60, 2))
    >>> selection = Herding(k=6).select(X)
    >>> refine(selection, X).residual[None] <= selection.residual[None]
    True
    """
    check_whole_number(sweeps, "sweeps")
    method = _matching_of(selection)
    with method.open_problem(X, y, **_recorded_arguments(selection, arguments)) as problem:
        targets = method.targets(problem)
        order, swaps = swap_groups(problem, targets, selection.order, selection.group_of_pick, sweeps)
        by_group = np.argsort(selection.group_of_pick, kind="stable")
        residuals = np.empty(len(order))
        owners = selection.group_of_pick[by_group]
        residuals[by_group] = targets.measure_residuals(problem, order[by_group], owners)
    if selection.order_ids is not None and not np.array_equal(order, selection.order):
        ids = per_row_values(X, arguments.get("ids"), "ids")
        if ids is None:
            raise InvalidInputError("The selection has ids: pass ids= of all rows, for new picks.")
        order_ids: Any = ids(order) if callable(ids) else np.asarray(ids)[order]
    else:
        order_ids = selection.order_ids
    return Selection(
        order, selection.n_rows, classes=selection.classes, group_of_pick=selection.group_of_pick,
        group_sizes=selection.group_sizes, residuals=residuals, ids=order_ids,
        provenance={**selection.provenance, "refined": {"swaps": swaps}}, screening=selection.screening,
    )  # fmt: skip


def weigh(selection: Selection, X: Any, y: Any = None, **arguments: Any) -> Selection:
    """Compute weights that bring the weighted mean of the picks as near to the target as possible.

    Parameters
    ----------
    selection : Selection
        Made by a matching.
    X, y, **arguments
        As in :func:`refine`.

    Returns
    -------
    Selection
        With :attr:`~gmmatch.Selection.weights`: at least 0, and those of a class sum to the number of its rows.

    Examples
    --------
    >>> from gmmatch import Herding
    >>> X = [[-1.0], [3.0], [0.2], [0.4], [0.5]]
    >>> float(weigh(Herding(k=2).select(X), X).weights.sum())
    5.0
    """
    method = _matching_of(selection)
    with method.open_problem(X, y, **_recorded_arguments(selection, arguments)) as problem:
        totals = selection.group_sizes.astype(np.float64)
        weights = weigh_groups(
            problem, method.targets(problem), selection.order, selection.group_of_pick, totals
        )
    return selection.change(slice(None), weights=weights)


def _matching_of(selection: Selection) -> Any:
    """Return the matching that made a selection."""
    method = method_from_record(selection.provenance)
    if not hasattr(method, "target"):
        raise InvalidInputError(
            f"The selection was made by {method.name!r}, which matches no target: only those of matchings, such as "
            "gm-matching, herding and robust, can be refined and weighed."
        )
    return method


def _recorded_arguments(selection: Selection, arguments: dict[str, Any]) -> dict[str, Any]:
    steps = selection.provenance.get("preprocess") or None
    given = {name: value for name, value in arguments.items() if name != "ids"}
    return {"preprocess": steps, **given}


def swap_groups(
    problem: Problem, targets: Targets, order: Indices, owners: Indices, sweeps: int
) -> tuple[Indices, int]:
    """Return picks after swaps in every group, each in the position of the old one, and how many swaps there were."""
    order, swaps = order.copy(), 0
    for group in range(len(problem.groups)):
        positions = np.flatnonzero(owners == group)
        if len(positions):
            mask = (problem.groups.codes == group) & (problem.available | problem.included)
            mask[order[positions]] = True
            rows, fixed = np.flatnonzero(mask), problem.included[order[positions]]
            values, point = targets.locate(problem, group, rows)
            picks, count = swap_picks(
                values, point, np.searchsorted(rows, order[positions]), fixed, problem.available[rows], sweeps,
                problem.request.replacement,
            )  # fmt: skip
            order[positions], swaps = rows[picks], swaps + count
    return order, swaps


def weigh_groups(
    problem: Problem, targets: Targets, order: Indices, owners: Indices, totals: Vector
) -> Vector:
    """Return weights of picks that match the target of each group, and sum to its total."""
    weights = np.zeros(len(order))
    for group, total in enumerate(totals):
        positions = np.flatnonzero(owners == group)
        if len(positions):
            rows, at = np.unique(order[positions], return_inverse=True)
            values, point = targets.locate(problem, group, rows)
            weights[positions] = total * matching_weights(values[at] - point)
    return weights


def swap_picks(
    values: Matrix,
    point: Vector,
    picks: Indices,
    fixed: Mask,
    available: Mask,
    sweeps: int,
    replacement: bool,
) -> tuple[Indices, int]:
    """Return the picks of one group after swaps, and how many there were."""
    norms = np.einsum("ij,ij->i", values, values)
    total = values[picks].sum(axis=0) - len(picks) * point
    free = available.copy()
    if not replacement:
        free[picks] = False
    swaps = 0
    for _ in range(sweeps):
        before = swaps
        for position in np.flatnonzero(~fixed):
            pick = picks[position]
            costs = norms + 2.0 * (values @ (total - values[pick]))
            rounding = _LEAST_GAIN * (norms[pick] + 2.0 * abs(float(values[pick] @ total)))
            best = int(np.argmin(np.where(free, costs, np.inf)))
            if not free[best] or costs[best] >= costs[pick] - rounding:
                continue
            total += values[best] - values[pick]
            free[pick], free[best] = available[pick], replacement
            picks[position], swaps = best, swaps + 1
        if swaps == before:
            break
    return picks, swaps


def matching_weights(difference: Matrix) -> Vector:
    """Return non-negative weights of sum 1 that minimize ‖Σ wⱼ (xⱼ − μ)‖.

    The least of wᵀCw over the simplex, with C the products of the differences, is found without the constraint on the
    sum: the u ≥ 0 that minimize uᵀCu + (Σu − 1)² are in proportion to it.

    Parameters
    ----------
    difference : array of shape (q, s)
        xⱼ − μ.

    Examples
    --------
    >>> matching_weights(np.array([[-1.0], [3.0]])).round(4)
    array([0.75, 0.25])
    """
    from scipy.optimize import minimize

    count, squares = len(difference), float(np.einsum("ij,ij->", difference, difference))
    scale = squares / count if squares > 0.0 else 1.0

    def objective(u: Vector) -> tuple[float, Vector]:
        gradient, excess = difference @ (difference.T @ u) / scale + _EVENNESS * u, float(u.sum()) - 1.0
        return 0.5 * (float(u @ gradient) + excess**2), gradient + excess

    # Less strict limits would stop in flat valleys.
    options = {"maxiter": 3000, "maxfun": 30_000, "ftol": 1e-16, "gtol": 1e-12}
    even, bounds = np.full(count, 1.0 / count), [(0.0, None)] * count
    shares = minimize(objective, even, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    return np.asarray(shares / shares.sum())
