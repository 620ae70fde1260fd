"""Robust: screen the rows, then match the distribution of the trusted ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gmmatch.backends.cuda.blocks import on_device
from gmmatch.errors import GMMatchWarning
from gmmatch.kernels.feature_maps import FourierFeatures
from gmmatch.kernels.kernels import RBF, resolve_kernel
from gmmatch.rows.checks import warn_caller
from gmmatch.rows.parallel import resolve_jobs
from gmmatch.screening.blocks import SAMPLE, spread
from gmmatch.screening.result import FAR_OUT, NO_CLASS, Screening
from gmmatch.screening.screen import TOLERANCE, ScreenMethod, check_screen_options
from gmmatch.selection.labels import Group
from gmmatch.selectors._kernel_herding import KernelHerding
from gmmatch.selectors.arguments import group_name
from gmmatch.selectors.base import GroupResult, GroupTask, Request, Results, Selector, Tasks
from gmmatch.selectors.kernel_groups import features_record, features_result, match_features
from gmmatch.selectors.screened import screen_readable
from gmmatch.targets.reference import Reference
from gmmatch.types import Indices, Vector

# Up to so many rows the kernel itself is used, but for an engine; beyond them random features of it, the same for all
# classes.
_EXACT_ROWS = 5_000
_FEATURES = 512
_BANDWIDTH_ROWS = 1_000
# Of rows without labels, a larger part than this is not dropped without a word.
_MANY_DROPPED = 0.3
# What a screening says of rows that ``relabel=`` has corrected: a class that needs more rows takes these gladly.
CORRECTED = "label corrected"


@dataclass(kw_only=True, eq=False, repr=False)
class Robust(KernelHerding):
    """Pick rows that follow the distribution of the clean data.

    Rows that look mislabeled, corrupted or duplicate are screened out (see :func:`~gmmatch.screen`). Kernel herding
    then picks from the others, so that the picks follow the distribution of the trusted rows, each weighted by the
    trust in its label. If a class has too few trusted rows for its picks, the least suspicious others are added, with
    a warning.

    Parameters
    ----------
    screen : "auto", "labels", "rows" or "none"
        What is screened; see :func:`~gmmatch.screen`.
    tolerance : float
        The share of mislabeled rows to accept; see :func:`~gmmatch.screen`.
    approximation : "auto", "nystroem", "fourier" or None
        "auto" uses Fourier features of the Gaussian kernel from 5,000 rows on, and on an engine.
    k, per_class, unlabeled, preprocess, random_state, n_jobs, kernel and all others
        As in :class:`~gmmatch.MomentMatching`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2))
    >>> X[:50] += 15.0
    >>> selection = Robust(k=20).select(X)
    >>> int(selection.mask[:50].sum()), selection.screening
    (0, Screening: 150 of 200 rows kept, 50 far out)
    """

    screen: ScreenMethod = "auto"
    tolerance: float = TOLERANCE

    method = "robust"
    known: ClassVar[tuple[Screening, Vector] | None] = None  # what was screened before, by ``relabel=``

    def pick_group(self, task: GroupTask) -> GroupResult:
        """Match the distribution of one group's trusted rows."""
        features: FourierFeatures | None = task.facts
        if features is None:
            return super().pick_group(task)
        return features_result(match_features(self, task, features), features, "fourier")

    def _run(self, tasks: Tasks) -> Results:
        features: FourierFeatures | None = tasks.facts
        if features is None:
            return super()._run(tasks)
        if hasattr(tasks.rows.source, "cluster"):
            from gmmatch.backends.cluster.selecting import run_in_features

            found = Results.join(run_in_features(self, list(tasks), features))
        elif self._at_once(tasks):
            from gmmatch.backends.cuda.selecting import run_in_features_on_device

            found = run_in_features_on_device(self, tasks, features)
        else:
            return Selector._run(self, tasks)
        about = features_record(features, "fourier")
        return replace(found, details=[{**about, **one} for one in found.details])

    def _at_once(self, tasks: Tasks) -> bool:
        """Return whether all groups are on a device, and nothing but the picks of the paper's listing is wanted."""
        plain = self.start == "target" and self.target == "mean" and (self.batches or 1) == 1
        extra = self.finishes or tasks.references is not None or tasks.included.any()
        plain = plain and not (self.replacement or self.unit_target or extra)
        return plain and on_device(tasks.rows)

    def _features(self, request: Request, groups: list[Group]) -> FourierFeatures | None:
        """Return the features that stand in for the kernel, if there are many rows."""
        exact = resolve_kernel(self.kernel)
        if self.earlier is not None:
            return self.earlier.features()
        rows = request.preprocessed
        few = sum(len(group.rows) for group in groups) <= _EXACT_ROWS
        if self.approximation != "auto" or (few and not self.updatable):
            return None
        if not isinstance(exact, RBF):
            return None
        share = max(2, _BANDWIDTH_ROWS // len(groups))
        samples = [group.rows[spread(len(group.rows), share)] for group in groups if len(group.rows) > 1]
        if not samples and self.updatable:  # classes of one row each
            samples = [np.concatenate([group.rows for group in groups])]
        if not samples:
            return None
        # What tells classes apart is not to be matched: distances are those within a class.
        matched = [rows.subset(sample) for sample in samples]
        if request.references is not None and self.reference_weight == 1.0:
            found = {id(one): one.rows for one in request.references if isinstance(one, Reference)}
            matched = list(found.values())
        scale = np.median([exact.fit(some.gather(spread(len(some), share))).scale for some in matched])
        features = FourierFeatures(
            RBF(float(scale)), self.n_components or _FEATURES, random_state=request.seed
        )
        return features.fit(rows.subset(np.concatenate(samples)))

    def _prepare(self, request: Request) -> Request:
        request = super()._prepare(request)
        screening, trust = self.known or screen_readable(
            request.preprocessed, request.groups, self.screen, self.tolerance, resolve_jobs(self.n_jobs)
        )
        if self.earlier is not None:
            screening, trust = self.earlier.judged(screening, trust, self.tolerance)
        elif all(group.label is None for group in request.groups):
            _warn_of_many_dropped(screening)
        groups, short, open_rows = [], [], screening.kept | request.inside
        reasons = np.array(screening.reasons)
        for group, share in zip(request.groups, request.shares, strict=True):
            added = self._added(request, group, int(share), screening)
            open_rows[added] = True
            groups.append(replace(group, rows=group.rows[open_rows[group.rows]]))
            doubtful = int((reasons[screening.reason[added]] != CORRECTED).sum())
            short += [(group, int(share), doubtful)] if doubtful else []
        _warn_of_shortage(short)
        # A class of which nothing is trusted is matched as it is.
        weights = request.weights * np.maximum(trust, 1e-6)
        features = self._features(request, groups)
        request = replace(request, groups=groups, weights=weights, facts=features, screening=screening)
        return request.recording(screening={"dropped": screening.counts, "noise_rate": screening.noise_rate})

    def _added(self, request: Request, group: Group, share: int, screening: Screening) -> Indices:
        """Return the least suspicious of a group's dropped rows, as many as are needed for its picks."""
        rows = group.rows
        usable = ~request.outside[rows] | request.inside[rows]
        kept = screening.kept[rows] | request.inside[rows]
        closed = rows[usable & ~kept]
        needed = max(share - int((usable & kept).sum()), 0)
        return closed[np.argsort(screening.probability[closed], kind="stable")[:needed]]

    def least_memory(self, n_rows: int, n_features: int) -> int:
        """Return the bytes that no limit can spare: the screening holds a sample, and some numbers of each row."""
        return super().least_memory(n_rows, n_features) + 100 * n_rows + 8 * SAMPLE * n_features

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_screen_options(self.screen, self.tolerance)


def _warn_of_many_dropped(screening: Screening) -> None:
    """Warn where a large part of rows without labels was dropped: it may well be a kind of its own."""
    counts = {words: screening.counts[words] for words in (FAR_OUT, NO_CLASS) if words in screening.counts}
    dropped = sum(counts.values())
    if dropped <= _MANY_DROPPED * len(screening):
        return
    why = ", ".join(f"{count:,} {words}" for words, count in counts.items())
    warn_caller(
        GMMatchWarning(
            f"The screening dropped {dropped:,} of {len(screening):,} rows ({why}), and without labels it cannot "
            "tell outliers from a rare kind of row: pass labels if there are any, or "
            'screen="none" if these rows should be picked too.'
        )
    )


def _warn_of_shortage(short: list[tuple[Group, int, int]]) -> None:
    """Warn once, for the first of the groups that had too few rows."""
    if not short:
        return
    (group, share, added), *others = short
    also = f" The same holds for {len(others):,} more of the classes." if others else ""
    warn_caller(
        GMMatchWarning(
            f"{share:,} picks were asked of {group_name(group.label)}, but only {share - added:,} of its rows passed "
            f"the screening: {added:,} of the others were added, the least suspicious first. Ask for fewer rows, or "
            f'pass screen="none".{also}'
        )
    )
