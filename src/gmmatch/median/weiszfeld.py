"""The geometric median of the rows of a matrix: Weiszfeld's iteration, safeguarded and certified."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np

from gmmatch.errors import ConvergenceWarning, InvalidInputError, InvalidTypeError, NotFiniteError
from gmmatch.median.passes import evaluate, weighted_mean
from gmmatch.median.result import MedianResult
from gmmatch.median.search import Stop, run_search, search_median
from gmmatch.rows.checks import as_generator, check_finite, check_fraction, check_rows, check_sample_weight
from gmmatch.rows.parallel import resolve_jobs
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices, RandomState, Vector

# From how many rows on a sample gives the start.
SAMPLE_START_FROM = 8192


def geometric_median(
    X: Any,
    *,
    sample_weight: Any = None,
    eps: float = 1e-8,
    max_iter: int = 1000,
    delta: float = 0.0,
    init: Literal["auto", "mean"] | Any = "auto",
    fraction: float = 1.0,
    stop: Stop = "gap",
    accelerate: bool = True,
    random_state: RandomState = None,
    n_jobs: int | None = -1,
) -> MedianResult:
    r"""Return the point with the least summed distance to the rows of ``X``.

    Minimizes :math:`\rho(z) = \sum_i w_i \lVert z - x_i \rVert` by Weiszfeld's re-weighted mean
    :math:`z^+ = \sum_i \frac{w_i x_i}{d_i} \big/ \sum_i \frac{w_i}{d_i}`, with Vardi and Zhang's rule
    where :math:`z` meets a row. The point stays within a bounded distance while less than half of the weight is
    corrupted.

    Parameters
    ----------
    X : array of shape (n, s)
        Rows; floats of any precision or integers, NumPy or torch. Never modified or copied wholesale.
    sample_weight : array of shape (n,), optional
        Non-negative weight of each row; all 1 by default.
    eps : float
        Accuracy. With ``stop="gap"`` the iteration ends at a point *certified* to satisfy
        ρ(z) ≤ (1 + eps)·ρ(best); with ``stop="step"``, the paper's rule, when two successive points are
        less than ``eps`` apart, which proves nothing about the gap.
    max_iter : int
        Most passes over the rows. Stopping there gives a :class:`~gmmatch.errors.ConvergenceWarning`.
    delta : float
        The paper's δ, added to each distance before it is inverted. Not needed here: Vardi and Zhang's
        rule does its work without moving the answer. The certificate is that of the true objective: it counts
        what δ may have moved, and the iteration ends where the rest of it is below ``eps``.
    init : "auto", "mean" or array of shape (s,)
        Where to start: the median of an evenly spaced sample of the rows when there are many and their
        mean otherwise; the mean (the paper); or your own point.
    fraction : float
        The paper's γ: use a random sample of this share of the rows (at least one).
    stop : "gap" or "step"
        See ``eps``.
    accelerate : bool
        Anderson's acceleration of a step that treats the nearest row exactly; it reaches the same
        certificate in fewer passes, and reaches it at all where the median lies very close to a row.
        Off, the iteration is the paper's.
    random_state : int, Generator or None
        Seed of the sample that ``fraction`` draws.
    n_jobs : int or None
        Threads; -1 is every core. The result does not depend on it.

    Returns
    -------
    MedianResult
        ``.point``, ``.objective``, ``.gap``, ``.iterations``, ``.converged``.

    References
    ----------
    Weiszfeld (1937); Vardi and Zhang (2000), The multivariate L1-median and associated data depth.

    Examples
    --------
    One row of five is wrong by a million; the mean moves by 200,000, the median stays:

    >>> X = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1e6, 1e6]]
    >>> geometric_median(X).point.round(3)
    array([0.789, 0.789])
    """
    rows = check_rows(X, finite=False)
    weights = check_sample_weight(sample_weight, len(rows))
    check_fraction(fraction, "fraction")
    _check_options(eps, max_iter, delta, stop)
    if fraction < 1.0:
        chosen = sample_positions(weights, fraction, as_generator(random_state))
        rows, weights = rows.subset(chosen), weights[chosen]
    if init is not None and not isinstance(init, str):
        start: Vector | str = _check_point(init, rows.n_features)
    else:
        start = "auto" if init is None else init
    try:
        result = solve(
            rows, weights, eps=eps, max_iter=max_iter, delta=delta, init=start, stop=stop, accelerate=accelerate,
            threads=resolve_jobs(n_jobs),
        )  # fmt: skip
    except NotFiniteError:
        check_finite(rows)  # names the rows; looking for them beforehand would cost a pass
        raise
    if not result.converged:
        warnings.warn(
            f"The geometric median stopped after max_iter={max_iter} passes with a certified gap of "
            f"{result.gap:.1e}, not eps={eps:.1e}. Raise max_iter or eps.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return result


@np.errstate(over="ignore", invalid="ignore")
def solve(
    rows: Rows,
    weights: Vector,
    *,
    eps: float = 1e-8,
    max_iter: int = 1000,
    delta: float = 0.0,
    init: Vector | str = "auto",
    stop: Stop = "gap",
    accelerate: bool = True,
    threads: int = 1,
) -> MedianResult:
    """Run the iteration on rows that were checked already."""
    keep = weights > 0.0
    if not keep.all():  # a row without weight must not attract the "nearest row" test
        rows, weights = rows.subset(np.flatnonzero(keep)), weights[keep]
    options = {"eps": eps, "max_iter": max_iter, "delta": delta, "stop": stop, "accelerate": accelerate}
    start = _start(rows, weights, init, threads, options)
    total = float(weights.sum())
    return run_search(
        search_median(start, eps=eps, max_iter=max_iter, stop=stop, accelerate=accelerate),
        lambda point: evaluate(rows, weights, point, delta, threads, total),
        rows.row,
    )


def _start(rows: Rows, weights: Vector, init: Vector | str, threads: int, options: dict[str, Any]) -> Vector:
    if not isinstance(init, str):
        return init
    if init not in ("auto", "mean"):
        raise InvalidInputError(
            f'init={init!r}: expected "auto", "mean" or a point of {rows.n_features} numbers.'
        )
    if init == "mean" or len(rows) < SAMPLE_START_FROM:
        return weighted_mean(rows, weights, threads)
    # An evenly spaced 1/32 of the rows is close to the answer for the price of a third of a pass.
    every = np.arange(0, len(rows), 32)
    sample = solve(
        rows.subset(every), weights[every], threads=threads,
        **{**options, "init": "mean", "eps": max(options["eps"], 1e-4), "stop": "gap"},
    )  # fmt: skip
    return sample.point


def sample_positions(weights: Vector, fraction: float, random: np.random.Generator) -> Indices:
    """Return a sorted random sample of ``fraction`` of the positions with a weight, at least one."""
    positions = np.flatnonzero(weights > 0.0)
    count = max(1, int(np.floor(fraction * len(positions) + 0.5)))
    return np.sort(random.choice(positions, size=count, replace=False))


def _check_point(init: Any, n_features: int) -> Vector:
    point = np.array(init, dtype=np.float64)
    if point.shape != (n_features,) or not np.all(np.isfinite(point)):
        raise InvalidInputError(
            f"init must be {n_features} finite numbers, one per column of X; got shape {point.shape}."
        )
    return point


def _check_options(eps: float, max_iter: int, delta: float, stop: str) -> None:
    for name, value in (("eps", eps), ("max_iter", max_iter), ("delta", delta)):
        if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
            raise InvalidTypeError(f"{name}={value!r}: expected a number.")
    if not eps >= 0.0:
        raise InvalidInputError(f"eps={eps!r}: expected a number of at least 0, such as 1e-8.")
    if max_iter < 1:
        raise InvalidInputError(f"max_iter={max_iter!r}: expected at least 1 pass.")
    if not delta >= 0.0 or not np.isfinite(delta):
        raise InvalidInputError(f"delta={delta!r}: expected a finite number of at least 0.")
    if stop not in ("gap", "step"):
        raise InvalidInputError(f'stop={stop!r}: expected "gap" (certified) or "step" (the paper\'s rule).')
