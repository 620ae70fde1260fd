"""Robust: screen the rows, then match what is left of their distribution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import GMMatchWarning, InvalidInputError
from gmmatch.feature_maps import FourierFeatures
from gmmatch.gpu.blocks import on_device
from gmmatch.gpu.features import features_on_device, fits_on_device, match_on_device, means_on_device
from gmmatch.gpu.tensor_source import TensorSource
from gmmatch.kernel_means import row_means
from gmmatch.kernels import RBF
from gmmatch.labels import Group
from gmmatch.matching.cost import GRAM_LIMIT, working_memory
from gmmatch.matching.engine import match
from gmmatch.matching.in_kernel import match_in_kernel
from gmmatch.matching.kernel_rows import ComputedRows
from gmmatch.matching.walk import Picks
from gmmatch.parallel import resolve_jobs
from gmmatch.preprocessing import preprocess_rows
from gmmatch.rows import Rows
from gmmatch.screening.contrast import TOLERANCE
from gmmatch.screening.sampling import spread_sample
from gmmatch.screening.screens import Screened, ScreenMethod, check_screen_options, screen_groups
from gmmatch.selectors.arguments import group_name
from gmmatch.selectors.base import GroupResult, GroupTask, Prepared, Request, Selector
from gmmatch.targets.class_means import narrow_features, shared_means
from gmmatch.types import Indices, Mask, Vector
from gmmatch.validation import warn_caller

# Up to so many rows the kernel itself is used, beyond them its random features.
_EXACT_ROWS = 10_000
_BANDWIDTH_ROWS = 1000
# Rows that cannot be picked, but count for the targets: two for each pick are enough, and these in all.
_OTHERS_PER_PICK, _LEAST_OTHERS = 2, 4000
# Rows that each pick is chosen from: more of them bring it no closer to the target, and each costs its features.
_CANDIDATES_PER_PICK, _LEAST_CANDIDATES = 4, 2000


@dataclass(frozen=True)
class RobustFacts:
    """What groups are picked by: which rows count, and the features and targets where there are any.

    ``values`` holds the features of the rows numbered ``counted``, where memory allows for it: an array, or a
    tensor on the device that holds the rows.
    """

    rows: Rows
    kept: Mask
    bandwidth: float
    counted: Indices
    features: FourierFeatures | None = None
    targets: dict[Any, Vector] | None = None
    values: Any = None

    @property
    def on_device(self) -> bool:
        """Whether the features are on a device."""
        return self.values is not None and not isinstance(self.values, np.ndarray)


@dataclass(kw_only=True, eq=False, repr=False)
class Robust(Selector):
    """Pick rows that follow the distribution of the clean data.

    Rows that do not look clean are screened out (see :func:`~gmmatch.screen`). The others are matched
    to the clean distribution of their class in the space of a Gaussian kernel, greedily, so that the picks
    follow the whole distribution and not only its mean. With labels that distribution is estimated from
    all rows, each counting for every class with the probability that it belongs to it.

    Where a class has too few clean rows for its picks, the least suspicious of the others are added, with
    a warning.

    Parameters
    ----------
    screen : "auto", "contrast", "core" or "none"
        Which rows are screened out; see :func:`~gmmatch.screen`.
    n_modes : int, optional
        How many clusters the clean rows of the data without labels form, if that is known.
    tolerance : float
        The expected share of wrong labels among the rows that may be picked.
    n_frequencies : int
        Number of random frequencies, two features each, that stand in for the kernel where there are many
        rows.
    k, per_class, unlabeled, preprocess, random_state, n_jobs
        As in :class:`~gmmatch.MomentMatching`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2))
    >>> X[:80] += 15.0
    >>> selection = Robust(k=20).select(X)
    >>> int(selection.mask[:80].sum()), selection.screening
    (0, Screening: 120 of 200 rows kept, 80 far from the core)
    """

    screen: ScreenMethod = "auto"
    n_modes: int | None = None
    tolerance: float = TOLERANCE
    n_frequencies: int = 512

    method = "robust"

    def pick_group(self, task: GroupTask) -> GroupResult:
        """Match the clean distribution of one group."""
        facts: RobustFacts = task.facts
        if facts.features is None or facts.targets is None:
            return self._match_exactly(task, facts)
        target = facts.targets[task.label]
        # Rows that may not be picked need not be looked at either.
        wanted = task.available.copy()
        wanted[task.already] = True
        positions = np.flatnonzero(wanted)
        mine = task.row_numbers[positions]
        if facts.on_device:
            rows = Rows(TensorSource(facts.values), np.searchsorted(facts.counted, mine))
        elif facts.values is not None:
            rows = Rows(facts.values, np.searchsorted(facts.counted, mine))
        else:
            rows = Rows(narrow_features(facts.features, facts.rows.subset(mine)))
        limit = working_memory(None, task.input_bytes, on_disk=False) // task.side_by_side
        picks = match(
            rows, target, task.k, available=task.available[positions],
            already=np.searchsorted(positions, task.already), memory_limit=limit, threads=task.threads,
        )  # fmt: skip
        return GroupResult(Picks(positions[picks.order], picks.residuals), self._kernel_details(facts))

    def _run(self, tasks: list[GroupTask]) -> list[GroupResult]:
        facts: RobustFacts = tasks[0].facts
        # The walks on a device begin at the target; one that goes on from earlier picks is made here.
        if not facts.on_device or facts.targets is None or any(len(task.already) for task in tasks):
            return super()._run(tasks)
        found = [GroupResult(Picks.join([]), {}) for _ in tasks]
        asked = [number for number, task in enumerate(tasks) if task.k]
        positions = [np.flatnonzero(tasks[number].available) for number in asked]
        members = [
            np.searchsorted(facts.counted, tasks[number].row_numbers[mine])
            for number, mine in zip(asked, positions, strict=True)
        ]
        targets = [facts.targets[tasks[number].label] for number in asked]
        every = match_on_device(facts.values, members, targets, [tasks[number].k for number in asked])
        for number, mine, picks in zip(asked, positions, every, strict=True):
            details = {**self._kernel_details(facts), "device": str(facts.values.device)}
            found[number] = GroupResult(Picks(mine[picks.order], picks.residuals), details)
        return found

    def _kernel_details(self, facts: RobustFacts) -> dict[str, Any]:
        return {"kernel": "rbf", "bandwidth": facts.bandwidth, "n_frequencies": self.n_frequencies}

    def _match_exactly(self, task: GroupTask, facts: RobustFacts) -> GroupResult:
        kernel = RBF(facts.bandwidth)
        shares = _counted(task.weights, facts.kept[task.row_numbers])
        scores = row_means(kernel, task.rows, weights=shares, n_jobs=task.threads)
        picks = match_in_kernel(
            ComputedRows(kernel, task.rows, task.threads), scores, float(shares @ scores),
            np.ones(len(task.rows)), task.k, available=task.available, already=task.already,
        )  # fmt: skip
        return GroupResult(picks, {"kernel": "rbf", "bandwidth": facts.bandwidth})

    def _prepare(self, request: Request) -> Prepared:
        rows = preprocess_rows(request.rows, request.steps)
        threads = resolve_jobs(self.n_jobs)
        screened = screen_groups(rows, request.groups, self.screen, self.n_modes, self.tolerance, threads)
        kept = screened.screening.kept
        open_rows = kept.copy()
        short = []
        for group, share in zip(request.groups, request.shares, strict=True):
            added = self._readmit(request, group, int(share), open_rows, screened.screening.suspicion)
            short += [(group, int(share), added)] if added else []
        _warn_of_shortage(short)
        if not _in_the_kernel_itself(request, screened):
            _thin_out(open_rows, request)
        request = replace(request, outside=request.outside | (~open_rows & ~request.inside))
        facts = self._facts(rows, request, screened)
        return Prepared(request, facts, {"screening": screened.details}, screened.screening)

    def _readmit(self, request: Request, group: Group, share: int, open_rows: Mask, suspicion: Vector) -> int:
        """Open the least suspicious of a group's dropped rows where too few others are left; return how many."""
        mine = group.rows[~request.outside[group.rows] & ~request.inside[group.rows]]
        needed = share - int(request.inside[group.rows].sum()) - int(open_rows[mine].sum())
        closed = mine[~open_rows[mine]]
        added = closed[np.argsort(suspicion[closed], kind="stable")[: max(needed, 0)]]
        open_rows[added] = True
        return len(added)

    def _facts(self, rows: Rows, request: Request, screened: Screened) -> RobustFacts:
        kept = screened.screening.kept
        bandwidth = _bandwidth(rows, [group.rows[kept[group.rows]] for group in request.groups])
        open_rows = ~request.outside | request.inside
        if _in_the_kernel_itself(request, screened):
            return RobustFacts(rows, kept, bandwidth, np.flatnonzero(open_rows))
        shares = self._shares_of_groups(request, screened)
        others = max(_LEAST_OTHERS, _OTHERS_PER_PICK * int(np.sum(request.shares)))
        counted, shares = _counted_rows(shares, open_rows, others)
        width = 2 * int(self.n_frequencies)
        features = FourierFeatures(RBF(bandwidth), width, random_state=request.seed)
        features.fit(rows.subset(spread_sample(len(rows), _BANDWIDTH_ROWS)))
        among = rows.subset(counted)
        if on_device(rows) and fits_on_device(among, width):
            values = features_on_device(features, among)
            means = means_on_device(values, shares)
        else:
            fits = 4 * len(counted) * width <= GRAM_LIMIT
            values = np.empty((len(counted), width), dtype=np.float32) if fits else None
            means = shared_means(features, among, shares, values)
        targets = {group.label: mean for group, mean in zip(request.groups, means, strict=True)}
        return RobustFacts(rows, kept, bandwidth, counted, features, targets, values)

    def _shares_of_groups(self, request: Request, screened: Screened) -> NDArray[np.float32]:
        """Return how much each row counts for each group's target."""
        shares = np.zeros((len(request.rows), len(request.groups)), dtype=np.float32)
        for number, group in enumerate(request.groups):
            counted = _counted(request.weights[group.rows], screened.screening.kept[group.rows])
            shares[group.rows, number] = counted
        if screened.responsibilities is not None:
            assert screened.judged is not None and screened.columns is not None
            weights = request.weights[screened.judged].astype(np.float32)
            among = screened.responsibilities * weights[:, None]
            # A class of which nothing is left keeps its own rows.
            for column, number in enumerate(screened.columns):
                if among[:, column].sum() > 0.0:
                    shares[:, number] = 0.0
                    shares[screened.judged, number] = among[:, column]
        return shares

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_screen_options(self.screen, self.n_modes, self.tolerance)
        count = self.n_frequencies
        if isinstance(count, bool) or not hasattr(count, "__index__") or count < 1:
            raise InvalidInputError(f"n_frequencies={count!r}: expected a whole number of at least 1.")


def _in_the_kernel_itself(request: Request, screened: Screened) -> bool:
    """Return whether the rows are few enough for the kernel, and belong to one group each."""
    return (
        screened.responsibilities is None and max(len(group.rows) for group in request.groups) <= _EXACT_ROWS
    )


def _thin_out(open_rows: Mask, request: Request) -> None:
    """Close rows, evenly spread, of groups that have far more of them than picks to make."""
    for group, share in zip(request.groups, request.shares, strict=True):
        mine = group.rows[open_rows[group.rows] & ~request.inside[group.rows] & ~request.outside[group.rows]]
        most = max(_CANDIDATES_PER_PICK * int(share), _LEAST_CANDIDATES)
        if len(mine) > most:
            open_rows[mine] = False
            open_rows[mine[spread_sample(len(mine), most)]] = True


def _warn_of_shortage(short: list[tuple[Group, int, int]]) -> None:
    """Warn once, for the first of the groups that had too few rows."""
    if not short:
        return
    (group, share, added), *others = short
    also = f" The same holds for {len(others):,} more of the classes." if others else ""
    warn_caller(
        GMMatchWarning(
            f"{share:,} picks were asked of {group_name(group)}, but only {share - added:,} of its rows passed the "
            f"screening: {added:,} of the others were added, the least suspicious first. Ask for fewer rows, or "
            f'pass screen="none".{also}'
        )
    )


def _counted(weights: Vector, kept: Mask) -> Vector:
    """Return the weights of the kept rows as shares of 1; of all rows where the kept ones have none."""
    counted = np.where(kept, weights, 0.0)
    if counted.sum() == 0.0:
        counted = weights
    shares: Vector = counted / max(float(counted.sum()), 1e-300)
    return shares


def _counted_rows(
    shares: NDArray[np.float32], open_rows: Mask, most: int
) -> tuple[Indices, NDArray[np.float32]]:
    """Return the rows whose features are needed, and how much each counts for every target.

    All that may be picked are needed. Of the others, which count for the targets alone, ``most`` are enough,
    evenly spread, and count for the rest of them.

    Examples
    --------
    >>> shares = np.ones((6, 1), dtype=np.float32)
    >>> rows, counts = _counted_rows(shares, np.arange(6) < 2, 2)
    >>> rows.tolist(), counts[:, 0].tolist()
    ([0, 1, 2, 5], [1.0, 1.0, 2.0, 2.0])
    """
    others = np.flatnonzero(~open_rows & (shares > 0.0).any(axis=1))
    sample = others[spread_sample(len(others), most)] if len(others) > most else others
    every, found = (shares[some].sum(axis=0, dtype=np.float64) for some in (others, sample))
    if np.any((found <= 0.0) & (every > 0.0)):  # a class that the sample missed
        sample, found = others, every
    needed = open_rows.copy()
    needed[sample] = True
    counted = np.flatnonzero(needed)
    factors = np.where(found > 0.0, every / np.maximum(found, 1e-300), 1.0).astype(np.float32)
    counts = shares[counted]
    return counted, np.where(open_rows[counted, None], counts, counts * factors)


def _bandwidth(rows: Rows, groups: list[Indices]) -> float:
    """Return the median distance between rows of the same group: what tells groups apart is not to be matched."""
    share = max(2, _BANDWIDTH_ROWS // len(groups))
    found = [
        RBF().fit(rows.gather(members[spread_sample(len(members), share)])).scale
        for members in groups
        if len(members) > 1
    ]
    return float(np.median(found)) if found else 1.0
