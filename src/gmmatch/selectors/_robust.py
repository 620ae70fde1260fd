"""Robust: screen the rows, then match what is left of their distribution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gmmatch.backends.cuda.blocks import TensorSource
from gmmatch.backends.cuda.features import match_on_device
from gmmatch.errors import GMMatchWarning, InvalidInputError
from gmmatch.kernels.kernels import RBF
from gmmatch.kernels.means import row_means
from gmmatch.matching.cost import working_memory
from gmmatch.matching.in_kernel import ComputedRows, match_in_kernel
from gmmatch.matching.match import match
from gmmatch.matching.walk import Picks
from gmmatch.rows.checks import warn_caller
from gmmatch.rows.parallel import resolve_jobs
from gmmatch.rows.rows import Rows
from gmmatch.screening.contrast import TOLERANCE
from gmmatch.screening.sampling import spread_sample
from gmmatch.screening.screens import ScreenMethod, check_screen_options, screen_groups
from gmmatch.selection.labels import Group
from gmmatch.selectors.arguments import group_name
from gmmatch.selectors.base import GroupResult, GroupTask, Prepared, Request, Selector
from gmmatch.selectors.robust_targets import RobustFacts, in_the_kernel_itself, kept_shares, robust_facts
from gmmatch.targets.class_means import narrow_features
from gmmatch.types import Mask, Vector

# Wrong labels that are expected among the picks, in tolerances; with more of them, a more careful target is matched.
_MOST_WRONG = 2.0
# Rows that each pick is chosen from: more of them bring it no closer to the target, and each costs its features.
_CANDIDATES_PER_PICK, _LEAST_CANDIDATES = 4, 2000


@dataclass(kw_only=True, eq=False, repr=False)
class Robust(Selector):
    """Pick rows that follow the distribution of the clean data.

    Rows that do not look clean are screened out (see :func:`~gmmatch.screen`). The others are matched
    to the clean distribution of their class in the space of a Gaussian kernel, greedily, so that the picks
    follow the whole distribution and not only its mean. With labels that distribution is estimated from
    all rows, each counting for every class with the probability that it belongs to it. Where picks that follow
    it are expected to have many wrong labels, it is the distribution of the rows that were not screened out.

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
        found = self._match(tasks)
        facts: RobustFacts = tasks[0].facts
        if facts.excess_of_wrong(tasks, found) <= _MOST_WRONG * self.tolerance:
            return found
        nearer = facts.of_kept_rows()
        return self._match([replace(task, facts=nearer) for task in tasks])

    def _match(self, tasks: list[GroupTask]) -> list[GroupResult]:
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
        target = "kept rows" if facts.kept_alone else "all rows"
        return {
            "kernel": "rbf",
            "bandwidth": facts.bandwidth,
            "n_frequencies": self.n_frequencies,
            "target": target,
        }

    def _match_exactly(self, task: GroupTask, facts: RobustFacts) -> GroupResult:
        kernel = RBF(facts.bandwidth)
        shares = kept_shares(task.weights, facts.kept[task.row_numbers])
        scores = row_means(kernel, task.rows, weights=shares, n_jobs=task.threads)
        picks = match_in_kernel(
            ComputedRows(kernel, task.rows, task.threads), scores, float(shares @ scores),
            np.ones(len(task.rows)), task.k, available=task.available, already=task.already,
        )  # fmt: skip
        return GroupResult(picks, {"kernel": "rbf", "bandwidth": facts.bandwidth})

    def _prepare(self, request: Request) -> Prepared:
        rows = request.preprocessed
        threads = resolve_jobs(self.n_jobs)
        screened = screen_groups(rows, request.groups, self.screen, self.n_modes, self.tolerance, threads)
        kept = screened.screening.kept
        open_rows = kept.copy()
        short = []
        for group, share in zip(request.groups, request.shares, strict=True):
            added = self._readmit(request, group, int(share), open_rows, screened.screening.suspicion)
            short += [(group, int(share), added)] if added else []
        _warn_of_shortage(short)
        if not in_the_kernel_itself(request, screened):
            _thin_out(open_rows, request)
        request = replace(request, outside=request.outside | (~open_rows & ~request.inside))
        facts = robust_facts(rows, request, screened, int(self.n_frequencies))
        return Prepared(request, facts, {"screening": screened.details}, screened.screening)

    def _readmit(self, request: Request, group: Group, share: int, open_rows: Mask, suspicion: Vector) -> int:
        """Open the least suspicious of a group's dropped rows where too few others are left; return how many."""
        mine = group.rows[~request.outside[group.rows] & ~request.inside[group.rows]]
        needed = share - int(request.inside[group.rows].sum()) - int(open_rows[mine].sum())
        closed = mine[~open_rows[mine]]
        added = closed[np.argsort(suspicion[closed], kind="stable")[: max(needed, 0)]]
        open_rows[added] = True
        return len(added)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_screen_options(self.screen, self.n_modes, self.tolerance)
        count = self.n_frequencies
        if isinstance(count, bool) or not hasattr(count, "__index__") or count < 1:
            raise InvalidInputError(f"n_frequencies={count!r}: expected a whole number of at least 1.")


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
