"""Matchings: pick rows one after another so that their mean approaches a target moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal

import numpy as np

from gmmatch.errors import FarRowWarning, InvalidInputError
from gmmatch.kernels.kernels import KernelSpec, resolve_kernel
from gmmatch.matching.cost import check_strategy, working_memory
from gmmatch.matching.loops import TINY
from gmmatch.matching.match import MemoryPicker, Picker, Pool, match_pools
from gmmatch.matching.walk import Walk
from gmmatch.median.result import FAR, Spread
from gmmatch.rows.checks import check_whole_number
from gmmatch.selection.budget import PerClass
from gmmatch.selection.labels import Groups
from gmmatch.selection.past import Past
from gmmatch.selectors.base import GroupResult, GroupTask, Request, Results, Selector, Tasks
from gmmatch.selectors.finishing import finished
from gmmatch.selectors.kernel_groups import (
    Approximation,
    check_kernel_options,
    check_kernel_values,
    median_warning,
    pick_in_kernel,
    rows_to_hold,
)
from gmmatch.selectors.references import check_reference, with_references
from gmmatch.targets import Moment, Target, resolve_target
from gmmatch.targets.reference import PastMoment
from gmmatch.types import Indices, Mask, Start, Vector
from gmmatch.updating.earlier import Earlier, check_updatable, past_of

# Parameters that say how one process works.
_WITHOUT_ENGINE = ("median_fraction", "strategy", "memory_limit", "refine", "updatable")

# The least that a matching can work in.
_LEAST_WORKING = 16_000_000

TargetName = Literal["mean", "geometric-median", "coordinate-median"]


@dataclass(kw_only=True, eq=False, repr=False)
class MomentMatching(Selector):
    """Pick rows whose mean approaches a target moment, in the data's space or in a kernel's.

    θ₀ = μ; pick argmax ⟨θ, φ(x)⟩ over the rows left; θ ← θ + μ − φ(x).

    Parameters
    ----------
    k : int, float or str, optional
        How many rows: a count (``500``) or a share (``0.1``, ``"10%"``). By default what a mapping
        ``per_class`` sums to, and a tenth of the rows without one.
    per_class : "proportional", "balanced", mapping or None
        With labels, how ``k`` is shared among the classes; a mapping of class to count or share says
        it for each; None ignores the labels.
    unlabeled : "drop" or "group"
        Whether rows without a label are left out or form a group of their own.
    preprocess : list of "center", "scale", "pca:64", "unit", optional
        Steps applied to the rows first.
    duplicates : "keep" or "one"
        With "one", only the most typical row of each group of near-duplicates (see :func:`~gmmatch.duplicates`)
        counts and may be picked.
    random_state : int, Generator or None
        Random seed; the one that was used is recorded.
    n_jobs : int or None
        Threads, -1 for every core. The picks do not depend on it.
    target : "mean", "geometric-median" or "coordinate-median"
        The moment to match.
    kernel : "linear", "polynomial", "rbf", "laplacian" or a kernel object
        The space to match in.
    normalize : bool
        Scale rows to unit length first.
    unit_target : bool
        Scale the target to unit length, as the paper's authors' code does. Its residual cannot reach 0.
    start : "target" or "zero"
        θ₀: μ (the paper) or 0, which makes the picks independent of where the origin is.
    replacement : bool
        Whether a row may be picked again.
    batches : int, optional
        Number of random batches, which are matched one after another. By default one for rows in memory, and as
        many as ``memory_limit`` requires for rows in files.
    carry : bool
        Whether θ is carried from batch to batch. If not, batches are independent and run in parallel,
        their last picks correct their common error, and the picks are the same in memory and on any engine.
    median_fraction : float
        The paper's γ: share of the rows that the median is computed from.
    eps, max_iter, delta : float, int, float
        Accuracy and limit of the geometric median, and the paper's δ.
    strategy : "auto", "direct" or "coded"
        How scores are computed; the picks are the same.
    approximation : "auto", "nystroem", "fourier" or None
        Explicit features instead of a kernel; "auto" uses them where the exact computation does not
        fit, with a warning, and None never.
    n_components : int, optional
        Number of those features.
    memory_limit : int, optional
        Bytes of working memory beside the input.
    weights : bool
        Whether to compute weights that bring the mean of the picks as near to the target as possible:
        :attr:`Selection.weights <gmmatch.Selection.weights>`.
    refine : int
        The largest number of sweeps in which each pick is exchanged for the row that brings the mean of all picks
        nearest to the target.
    reference : array of shape (m, s), or a pair of such an array and its labels, optional
        Rows that the picks should follow instead of the data: the target is computed from them. With labels,
        each class follows the reference rows of its label; without, every class follows all of them.
    reference_weight : float
        How much the reference's target counts beside the data's own, above 0 and up to 1.
    updatable : bool
        Whether the selection keeps what :meth:`Selection.update <gmmatch.Selection.update>` needs: the rows of the
        picks, and sums over all rows.

    Examples
    --------
    >>> MomentMatching(k=2, target="coordinate-median").select([[0.0], [1.0], [2.0], [9.0]]).indices
    array([0, 3])
    """

    target: TargetName = "mean"
    kernel: KernelSpec = "linear"
    normalize: bool = False
    unit_target: bool = False
    start: Start = "target"
    replacement: bool = False
    batches: int | None = None
    carry: bool = True
    median_fraction: float = 1.0
    eps: float = 1e-8
    max_iter: int = 1000
    delta: float = 0.0
    strategy: Literal["auto", "direct", "coded"] = "auto"
    approximation: Approximation = "auto"
    n_components: int | None = None
    memory_limit: int | None = None
    weights: bool = False
    refine: int = 0
    reference: Any = None
    reference_weight: float = 1.0
    updatable: bool = False

    earlier: ClassVar[Earlier | None] = None  # a selection that is being updated
    method = "moment-matching"

    def pick_group(self, task: GroupTask) -> GroupResult:
        """Match the target of one group."""
        if not resolve_kernel(self.kernel).is_linear:
            return pick_in_kernel(self, task)
        task = replace(task, rows=task.rows.held(rows_to_hold(self, task)))
        return self.match_moment(task, self.moment_of(task))

    def moment_of(self, task: GroupTask) -> Moment:
        """Return the moment that a group is to match."""
        past = isinstance(task.reference, PastMoment) and not task.weights.any()
        if past or (task.reference is not None and task.reference.alone):
            return self.aim(task, None)
        return self.aim(task, self.moment_target().of(task.rows, task.weights, task.random, task.threads))

    def aim(self, task: GroupTask, own: Moment | None) -> Moment:
        """Return a group's own moment, drawn to its reference or to earlier rows if there are any."""
        if isinstance(task.reference, PastMoment):
            mass = 0.0 if own is None or not task.weights.any() else self.mass_of(task, own)
            return task.reference.joined(own if mass else None, mass)
        if task.reference is not None:
            return task.reference.aim(own, self.moment_target(), task.random, task.threads)
        assert own is not None
        return own

    def mass_of(self, task: GroupTask, moment: Moment) -> float:
        """Return the weight of a group's own moment: its rows, near ones counting more for a median.

        Two medians are joined like two means, to first order, if each counts by Σ w/d, its objective's curvature.
        Where all rows are the median, they count like those of a mean.
        """
        if self.target != "geometric-median":
            return float(task.weights.sum())
        distances = moment.distances_of(task.rows, task.threads)
        farthest = float(distances.max())
        if farthest <= TINY:
            return float(task.weights.sum())
        return float((task.weights / np.maximum(distances, 1e-9 * farthest)).sum())

    def weighed(self, task: GroupTask, moment: Moment) -> tuple[Vector, float]:
        """Return what an update needs of a group's moment: the point, and how much the rows behind it weigh."""
        return moment.point, self.mass_of(task, moment) if moment.mass is None else moment.mass

    def match_moment(self, task: GroupTask, moment: Moment) -> GroupResult:
        """Match a moment that is known."""
        # Features of a kernel that are held may be larger than the input; codes of them are a quarter of that.
        held = task.side_by_side * task.rows.nbytes if task.rows.in_place else 0
        limit = working_memory(self.memory_limit, max(task.input_bytes, held), on_disk=task.rows.on_disk)
        limit //= task.side_by_side

        def picker(pools: list[Pool]) -> Picker:
            return MemoryPicker(
                pools,
                replacement=self.replacement,
                strategy=self.strategy,
                memory=limit,
                threads=task.threads,
            )

        # Features of a kernel of differences have at most length 1: no row is far, and a pass is spared.
        if resolve_kernel(self.kernel).is_translation_invariant:
            spread = Spread(0.0, 0, 0.0)
        else:
            spread = Spread.of(moment.distances_of(task.rows, task.threads), task.available)
        return self.match_moments([task], [moment], [spread], picker, limit)[0]

    def match_moments(
        self,
        tasks: Sequence[GroupTask],
        moments: Sequence[Moment],
        spreads: Sequence[Spread],
        picker: Callable[[list[Pool]], Picker],
        memory: int = 0,
    ) -> list[GroupResult]:
        """Match the moments of groups, wherever their rows are; ``picker`` makes picks from pools of rows."""
        pools = []
        for task, moment in zip(tasks, moments, strict=True):
            point = moment.point
            length = float(np.linalg.norm(point)) if self.unit_target else 0.0
            point = point / length if length > 0.0 else point
            already = task.rows.gather(task.already) if len(task.already) else None
            walk = Walk.begin(point, self.start, already)
            pools.append(
                Pool(
                    task.rows, walk, task.available.copy(), task.k, task.row_numbers, task.seed, task.random,
                    task.n_total,
                )
            )  # fmt: skip
        found = match_pools(
            pools, picker(pools), batches=self.batches, carry=self.carry, replacement=self.replacement, memory=memory
        )  # fmt: skip
        results = []
        for pool, picks, task, moment, spread in zip(pools, found, tasks, moments, spreads, strict=True):
            details = dict(moment.details) if self.carry else {"batches": pool.batches, **moment.details}
            warnings = self.moment_warnings([task], [moment.details], [spread])
            result = GroupResult(picks, details, tuple(warnings))
            if self.updatable:
                result = replace(result, moment=self.weighed(task, moment))
            results.append(finished(self, task, result, pool.walk.target))
        return results

    @property
    def finishes(self) -> bool:
        """Whether there is more to do once the picks are made."""
        return self.weights or self.refine > 0 or self.updatable

    def moment_warnings(
        self, tasks: Sequence[GroupTask], details: Sequence[dict[str, Any]], spreads: Sequence[Spread]
    ) -> list[Warning]:
        """Return what is to be warned about: medians that did not converge, and rows far from the target."""
        found = []
        for number, (about, spread) in enumerate(zip(details, spreads, strict=True)):
            if not about.get("median_converged", True):
                of_group = f"The geometric median{_of(tasks[number])}"
                found.append(median_warning(self, about, of_group))
            if 0.0 < FAR * spread.typical < spread.farthest:
                row = int(self.numbered(tasks[number].row_numbers[spread.position]))
                found.append(_far_row_warning(row, tasks[number], spread))
        return [warning for warning in found if warning is not None]

    def _run(self, tasks: Tasks) -> Results:
        source = tasks.rows.source
        if hasattr(source, "cluster"):
            from gmmatch.backends.cluster.selecting import run_on_engine

            return Results.join(run_on_engine(self, list(tasks)))
        if hasattr(source, "tensor"):
            from gmmatch.backends.cuda.selecting import run_on_device, runs_on_device

            if runs_on_device(self, tasks):
                return run_on_device(self, tasks)
        elif tasks.rows.in_place and type(self).pick_group is MomentMatching.pick_group:
            from gmmatch.backends.memory import directly_matched, match_small

            small = directly_matched(self, tasks)
            if small.any():
                found = match_small(self, tasks.take(np.flatnonzero(small))).spread(small)
                others = np.flatnonzero(~small)
                return found if small.all() else found.beside(super()._run(tasks.take(others)).spread(~small))
        return super()._run(tasks)

    def _prepare(self, request: Request) -> Request:
        check_kernel_values(self, request)
        return with_references(self, request)

    def _shares(self, groups: Groups, per_class: PerClass, outside: Mask, absent: Mask | None) -> Indices:
        if self.earlier is not None:
            return self.earlier.shares(groups, per_class)
        return super()._shares(groups, per_class, outside, absent)

    def numbered(self, rows: Indices) -> Indices:
        """Return the numbers by which warnings name rows; in an update, those among all rows so far."""
        return rows if self.earlier is None else self.earlier.numbered(rows)

    def _past(self, request: Request, tasks: Tasks, results: Results, order: Indices) -> Past | None:
        return past_of(self, request, tasks, results, order) if self.updatable else None

    def check_engine(self, sample_weight: Any = None) -> None:
        """Raise for what an engine cannot do."""
        super().check_engine(sample_weight)
        for field in fields(self):
            if field.name in _WITHOUT_ENGINE and getattr(self, field.name) != field.default:
                raise InvalidInputError(f"{field.name}= has no meaning on an engine: leave it out.")
        if self.carry and self.batches != 1:
            raise InvalidInputError(
                "carry=True: batches on an engine are independent; pass carry=False, or batches=1."
            )
        if self.approximation is None and not resolve_kernel(self.kernel).is_linear:
            raise InvalidInputError(
                f"approximation=None: an engine matches many rows in the space of kernel={self.kernel!r} by "
                "features; leave it out, or select without an engine."
            )
        if self.target == "coordinate-median":
            raise InvalidInputError(
                'target="coordinate-median" does not run on an engine: use "geometric-median".'
            )

    def least_memory(self, n_rows: int, n_features: int) -> int:
        """Return the bytes that no limit can spare."""
        return super().least_memory(n_rows, n_features) + _LEAST_WORKING

    def thread_memory(self) -> int:
        """Return the bytes that each thread takes; a kernel's features are made in float64."""
        return super().thread_memory() * (1 if resolve_kernel(self.kernel).is_linear else 2)

    def moment_target(self) -> Target:
        """Return the target as an object."""
        return resolve_target(
            self.target,
            eps=self.eps,
            max_iter=self.max_iter,
            delta=self.delta,
            fraction=self.median_fraction,
        )

    def _own_steps(self) -> list[tuple[str, int]]:
        return [("unit", 0)] if self.normalize else []

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_strategy(self.strategy)
        self.moment_target()
        if self.start not in ("target", "zero"):
            raise InvalidInputError(
                f'start={self.start!r}: expected "target" (the paper\'s θ₀ = μ) or "zero".'
            )
        if self.batches is not None:
            check_whole_number(self.batches, "batches")
        check_whole_number(self.refine, "refine", 0)
        check_reference(self)
        check_updatable(self)
        check_kernel_options(self)


def _far_row_warning(row: int, task: GroupTask, spread: Spread) -> Warning:
    also = f", and {spread.far - 1:,} more over {FAR:.0f} times" if spread.far > 1 else ""
    ratio = spread.farthest / spread.typical
    times = f"{ratio:,.0f}" if ratio < 1e9 else f"{ratio:.0e}"
    return FarRowWarning(
        f"Row {row}{_of(task)} lies {times} times "
        f"as far from the target as the median row{also}. Linear matching may pick such a row and lose the "
        "target: pass normalize=True, exclude it (exclude=[...]), or use a bounded kernel (kernel='rbf')."
    )


def _of(task: GroupTask) -> str:
    return "" if task.label is None else f" of class {task.label!r}"
