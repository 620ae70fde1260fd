"""Matching one group in a kernel's space: exactly where it fits, by explicit features where not."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gmmatch.errors import ApproximationWarning, ConvergenceWarning, InvalidInputError
from gmmatch.kernels.feature_maps import FeatureMap, FourierFeatures, NystroemFeatures
from gmmatch.kernels.kernels import Gram, Kernel, resolve_kernel
from gmmatch.kernels.means import row_means
from gmmatch.matching.cost import GRAM_LIMIT, working_memory
from gmmatch.matching.in_kernel import ComputedRows, KernelRows, KernelTarget, StoredGram, match_in_kernel
from gmmatch.matching.walk import Picks
from gmmatch.median.in_kernel import kernel_geometric_median
from gmmatch.median.weiszfeld import sample_positions
from gmmatch.rows.checks import check_whole_number
from gmmatch.rows.parallel import blas_threads, resolve_jobs
from gmmatch.rows.rows import RowMap, Rows
from gmmatch.selectors.base import GroupResult, GroupTask, Request
from gmmatch.selectors.finishing import finished_in_kernel
from gmmatch.targets.moments import median_details
from gmmatch.targets.reference import Reference
from gmmatch.types import Indices, Matrix, Vector

if TYPE_CHECKING:
    from gmmatch.selectors.moment_matching import MomentMatching

Approximation = Literal["auto", "nystroem", "fourier"] | None

# The exact mean in a kernel's space takes n² kernel values: seconds up to here, minutes beyond.
EXACT_MEAN_ROWS = 50_000
# Up to so many rows the picks read the Gram matrix that the mean was taken of: 8 MB.
_STORED_ROWS = 1024
# Each pick takes one product with a matrix of all rows; from so many numbers on, threads of BLAS may share it.
_SHARED_PRODUCT = 1 << 18
# The square of what float32 can hold: features are as long as the root of a kernel's value.
_LARGEST_VALUE = 1e76


def pick_in_kernel(selector: MomentMatching, task: GroupTask) -> GroupResult:
    """Match one group in the space of a non-linear kernel."""
    # The kernel is to tell apart what is matched.
    alone = task.reference.rows if isinstance(task.reference, Reference) and task.reference.alone else None
    kernel = resolve_kernel(selector.kernel).fit(task.rows if alone is None else alone)
    how, forced = approximation_of(selector, len(task.rows))
    if how is not None:
        return _pick_by_features(selector, task, kernel, how, forced)
    task = replace(task, rows=task.rows.held(rows_to_hold(selector, task)).here())
    scores, norm, kernel_rows, details = _target_scores(selector, task, kernel)
    if selector.unit_target and norm > 0.0:
        scores, norm = scores / np.sqrt(norm), 1.0
    diagonal = [kernel.diagonal(task.rows.block(number)) for number in range(task.rows.n_chunks)]
    target = KernelTarget(kernel_rows, scores, norm, np.concatenate(diagonal))
    shared = len(task.rows) * task.rows.n_features > _SHARED_PRODUCT
    with blas_threads(task.threads) if shared else nullcontext():
        picks = match_in_kernel(
            target, task.k, available=task.available, already=task.already, start=selector.start,
            replacement=selector.replacement, batches=selector.batches or 1, random_state=task.random,
        )  # fmt: skip
    return finished_in_kernel(selector, task, kernel_result(selector, kernel, picks, details), kernel, target)


def kernel_result(
    selector: MomentMatching, kernel: Kernel, picks: Picks, details: dict[str, Any]
) -> GroupResult:
    """Return picks in a kernel's space with what should be recorded and warned about."""
    warning = median_warning(selector, details, f"The geometric median in the {kernel.name} kernel's space")
    recorded = {"kernel": kernel.name, **kernel.params, **details}
    return GroupResult(picks, recorded, () if warning is None else (warning,))


def median_warning(selector: MomentMatching, details: dict[str, Any], median: str) -> Warning | None:
    """Return the warning that a median did not converge, if it did not."""
    if details.get("median_converged", True):
        return None
    eps = details.get("median_eps", selector.eps)
    return ConvergenceWarning(
        f"{median} stopped at max_iter={selector.max_iter} with a certified gap of {details['median_gap']:.1e}, not "
        f"eps={eps:.1e}. Raise max_iter or eps."
    )


def check_kernel_options(selector: MomentMatching) -> None:
    """Raise for options that do not go together."""
    kernel = resolve_kernel(selector.kernel)
    if selector.approximation not in ("auto", "nystroem", "fourier", None):
        raise InvalidInputError(
            f'approximation={selector.approximation!r}: expected "auto", "nystroem", "fourier" or None.'
        )
    if selector.n_components is not None:
        check_whole_number(selector.n_components, "n_components")
    if selector.memory_limit is not None:
        check_whole_number(selector.memory_limit, "memory_limit", 0, "number of bytes")
    if kernel.is_linear:
        return
    if selector.target == "coordinate-median":
        raise InvalidInputError(
            f'target="coordinate-median" has no meaning in the space of kernel={kernel.name!r}, which has no '
            'coordinates: use "geometric-median" or "mean".'
        )
    if not selector.carry and (selector.batches or 1) > 1 and selector.approximation in ("auto", None):
        raise InvalidInputError(
            "carry=False: batches that know nothing of each other need explicit features; with "
            f'kernel={kernel.name!r} pass carry=True or approximation="nystroem".'
        )


def check_kernel_values(selector: MomentMatching, request: Request) -> None:
    """Raise for rows that an unbounded kernel makes numbers of that float32 features cannot hold.

    No value of a kernel is larger than the largest of a row with itself.
    """
    kernel = resolve_kernel(selector.kernel)
    rows = request.preprocessed
    if kernel.is_linear or kernel.is_translation_invariant or hasattr(rows.source, "tensor"):
        return
    with np.errstate(over="ignore"):
        values = rows.each(_own_value, kernel, threads=resolve_jobs(selector.n_jobs))
    row = int(np.argmax(values))
    if not values[row] <= _LARGEST_VALUE:
        raise InvalidInputError(
            f"kernel={kernel.name!r} has the value {values[row]:.0e} at row {row}, which is too large: pass "
            'normalize=True, preprocess=["scale"], or a bounded kernel such as "rbf".'
        )


def _own_value(block: Matrix, index: Indices, kernel: Kernel) -> Vector:
    return kernel.diagonal(block[index])


def _limit(selector: MomentMatching) -> int:
    return GRAM_LIMIT if selector.memory_limit is None else selector.memory_limit


def approximation_of(selector: MomentMatching, n: int) -> tuple[str | None, bool]:
    """Return which features to use, if any, and whether the size of the data forced it."""
    if selector.approximation in ("nystroem", "fourier"):
        return selector.approximation, False
    if selector.target == "mean":  # takes long on many rows, but little memory
        forced = n > EXACT_MEAN_ROWS and selector.approximation == "auto"
        return ("nystroem", True) if forced else (None, False)
    if 8 * n * n <= _limit(selector):
        return None, False
    if selector.approximation is None:
        raise InvalidInputError(
            f"approximation=None: {_why_not_exact(selector, n)}. Raise memory_limit or use "
            'approximation="nystroem".'
        )
    return "nystroem", True


def _why_not_exact(selector: MomentMatching, n: int) -> str:
    if selector.target == "mean":
        return f"the exact mean in a kernel's space takes {n * n:.0e} kernel values for {n:,} rows"
    return (
        f"the Gram matrix of {n:,} rows takes {8 * n * n / 2**20:,.1f} MiB, and memory_limit is "
        f"{_limit(selector) / 2**20:,.1f} MiB"
    )


def _pick_by_features(
    selector: MomentMatching, task: GroupTask, kernel: Kernel, how: str, forced: bool
) -> GroupResult:
    features = feature_map(selector, task, kernel, how)
    result = match_features(selector, task, features)
    exact = "pass approximation=None" if selector.target == "mean" else "raise memory_limit"
    reason = f"{_why_not_exact(selector, len(task.rows))}. For exact picks {exact}"
    return features_result(result, features, how, reason if forced else None)


def match_features(selector: MomentMatching, task: GroupTask, features: FeatureMap) -> GroupResult:
    """Match the target of one group in the features that a map makes of its rows."""
    rows = task.rows.mapped(features).made()
    explicit = in_features(replace(task, rows=rows.held(rows_to_hold(selector, task))), features)
    if hasattr(rows.source, "tensor"):
        from gmmatch.backends.cuda.selecting import match_one_on_device

        return match_one_on_device(selector, explicit)
    return selector.match_moment(explicit, selector.moment_of(explicit))


def in_features(task: GroupTask, features: RowMap) -> GroupTask:
    """Return a task whose rows are features already with its reference in their space."""
    return task if task.reference is None else replace(task, reference=task.reference.mapped(features))


def features_record(features: FeatureMap, how: str) -> dict[str, Any]:
    """Return what to record of the features that stand in for a kernel."""
    kernel, count = features.kernel_, features.n_features_out_
    return {"kernel": kernel.name, **kernel.params, "approximation": how, "n_components": count}


def features_result(
    result: GroupResult, features: FeatureMap, how: str, reason: str | None = None
) -> GroupResult:
    """Return picks by a kernel's features with what to record; warn where there is a reason that nobody asked for."""
    details = {**features_record(features, how), **result.details}
    if reason is None:
        return replace(result, details=details)
    warning = ApproximationWarning(
        f"{features.n_features_out_} {how} features stand in for the {features.kernel_.name} kernel, because "
        f'{reason}; to choose the features yourself pass approximation="nystroem" and n_components.'
    )
    return replace(result, details=details, warnings=(warning, *result.warnings))


def feature_map(
    selector: MomentMatching, task: GroupTask, kernel: Kernel, how: str, most: int = 1 << 62
) -> FeatureMap:
    """Return the features that stand in for a kernel on the rows of a group, fitted to them.

    How many there are is up to the selector; if it does not say, the map has at most ``most`` numbers.
    """
    count = selector.n_components
    if count is None:
        # Features of rows on disk are made as these are read: how many there are is not a matter of memory.
        limit = GRAM_LIMIT if task.rows.on_disk else _limit(selector)
        count = min(1024, int(limit // (6 * len(task.rows))), most // (task.rows.n_features + 1024))
        count = max(16, count) // 2 * 2  # even, because Fourier features come in pairs
    make = NystroemFeatures if how == "nystroem" else FourierFeatures
    return make(kernel, count, random_state=task.random).fit(task.rows)


def rows_to_hold(selector: MomentMatching, task: GroupTask) -> int:
    """Return how many bytes of a group on disk are read once and held; many passes would each read them again."""
    return working_memory(selector.memory_limit, task.input_bytes, on_disk=True) // 4


def _target_scores(
    selector: MomentMatching, task: GroupTask, kernel: Kernel
) -> tuple[Vector, float, KernelRows, dict[str, Any]]:
    """Return ⟨μ, φ(xᵢ)⟩, ‖μ‖², where kernel rows come from, and what to record."""
    reference = task.reference if isinstance(task.reference, Reference) else None
    own = None
    if reference is None or not reference.alone:
        own = _kernel_moment(selector, task, kernel, task.rows, task.weights, selector.median_fraction)
    if own is not None and own.gram is not None:
        kernel_rows: KernelRows = StoredGram(own.gram)
    else:
        kernel_rows = ComputedRows(kernel, task.rows, task.threads)
    if own is not None and reference is None:
        return own.scores, own.norm, kernel_rows, own.details
    assert reference is not None
    theirs = _kernel_moment(selector, task, kernel, reference.rows, np.ones(len(reference.rows)), 1.0)
    # A median's coefficients may fall below 0 by rounding.
    across = row_means(
        kernel, task.rows, reference.rows, np.maximum(theirs.coefficients, 0.0), n_jobs=task.threads
    )
    details = {**theirs.details, "reference_rows": len(reference.rows)}
    if own is None:
        return across, theirs.norm, kernel_rows, details
    mixed, rest = reference.weight, 1.0 - reference.weight
    norm = rest**2 * own.norm + mixed**2 * theirs.norm + 2.0 * rest * mixed * float(own.coefficients @ across)
    return rest * own.scores + mixed * across, norm, kernel_rows, details


@dataclass(frozen=True, eq=False)
class _KernelMoment:
    """A moment in a kernel's space: Σ αᵢφ(xᵢ), its products with these rows, and their Gram matrix if it was made."""

    coefficients: Vector
    scores: Vector
    gram: Gram | None
    details: dict[str, Any]

    @property
    def norm(self) -> float:
        return float(self.coefficients @ self.scores)


def _kernel_moment(
    selector: MomentMatching, task: GroupTask, kernel: Kernel, rows: Rows, weights: Vector, fraction: float
) -> _KernelMoment:
    """Return the mean or the geometric median of rows in a kernel's space."""
    n = len(rows)
    mean, shares = selector.target == "mean", weights / weights.sum()
    if mean and (n > _STORED_ROWS or 8 * n * n > _limit(selector)):
        return _KernelMoment(shares, row_means(kernel, rows, weights=shares, n_jobs=task.threads), None, {})
    wide = rows.gather(np.arange(n))
    gram = kernel(wide, wide)
    if mean:
        return _KernelMoment(shares, gram @ shares, gram, {})
    chosen = np.arange(n)
    if fraction < 1.0:
        chosen = sample_positions(weights, fraction, task.random)
    part = gram if len(chosen) == n else gram[np.ix_(chosen, chosen)]
    result = kernel_geometric_median(part, weights[chosen], eps=selector.eps, max_iter=selector.max_iter)
    coefficients = np.zeros(n)
    coefficients[chosen] = result.point
    details = median_details(result.gap, result.iterations, result.converged)
    return _KernelMoment(coefficients, gram @ coefficients, gram, details)
