"""What ``robust`` matches: the distribution of each group's clean rows, as a mean in a kernel's space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cuda.blocks import on_device
from gmmatch.backends.cuda.features import features_on_device, fits_on_device, means_on_device
from gmmatch.kernels.feature_maps import FourierFeatures
from gmmatch.kernels.kernels import RBF
from gmmatch.matching.cost import GRAM_LIMIT
from gmmatch.rows.rows import Rows
from gmmatch.screening.sampling import spread_sample
from gmmatch.screening.screens import Screened
from gmmatch.selectors.base import GroupResult, GroupTask, Request
from gmmatch.targets.class_means import shared_means
from gmmatch.types import Indices, Mask, Vector

# Up to so many rows the kernel itself is used, beyond them its random features.
_EXACT_ROWS = 10_000
_BANDWIDTH_ROWS = 1000
# Rows that cannot be picked, but count for the targets: two for each pick are enough, and these in all.
_OTHERS_PER_PICK, _LEAST_OTHERS = 2, 4000


@dataclass(frozen=True)
class RobustFacts:
    """What groups are picked by: which rows count, and the features and targets where there are any.

    Attributes
    ----------
    rows, kept
        All rows, and which of them were not screened out.
    bandwidth
        The kernel's.
    counted
        The rows whose features are needed.
    features, targets
        The kernel's random features, and the mean to match by the label of the group.
    values
        The features of the rows numbered ``counted``, where memory allows for it: an array, or a tensor on the
        device that holds the rows.
    own
        How much each row of ``counted`` counts for its own group if only kept rows do.
    doubt
        The probability that each row's label is wrong.
    kept_alone
        Whether the targets are means of kept rows alone.
    """

    rows: Rows
    kept: Mask
    bandwidth: float
    counted: Indices
    features: FourierFeatures | None = None
    targets: dict[Any, Vector] | None = None
    values: Any = None
    own: NDArray[np.float32] | None = None
    doubt: Vector | None = None
    kept_alone: bool = False

    @property
    def on_device(self) -> bool:
        """Whether the features are on a device."""
        return self.values is not None and not isinstance(self.values, np.ndarray)

    def excess_of_wrong(self, tasks: Sequence[GroupTask], found: Sequence[GroupResult]) -> float:
        """Return the share of wrong labels that is expected among picks.

        0 if it is no larger than among all rows that may be picked: a target of these would be no better.
        """
        if self.doubt is None or self.own is None or self.kept_alone:
            return 0.0
        pairs = list(zip(tasks, found, strict=True))
        picks = np.concatenate([task.row_numbers[result.picks.order] for task, result in pairs])
        if not len(picks):
            return 0.0
        candidates = np.concatenate([task.row_numbers[task.available] for task in tasks])
        expected = float(self.doubt[picks].mean())
        return expected if expected > float(self.doubt[candidates].mean()) else 0.0

    def of_kept_rows(self) -> RobustFacts:
        """Return the same with each group's kept rows as its target; a group without any keeps its target."""
        assert self.features is not None and self.targets is not None and self.own is not None
        if self.on_device:
            means = means_on_device(self.values, self.own)
        elif self.values is not None:
            means = self.own.T @ self.values / np.maximum(self.own.sum(axis=0), 1e-30)[:, None]
        else:
            means = shared_means(self.features, self.rows.subset(self.counted), self.own)
        some = (self.own.sum(axis=0) > 0.0).tolist()
        targets = {
            label: mean.astype(np.float64) if has else before
            for (label, before), mean, has in zip(self.targets.items(), means, some, strict=True)
        }
        return replace(self, targets=targets, kept_alone=True)


def robust_facts(rows: Rows, request: Request, screened: Screened, n_frequencies: int) -> RobustFacts:
    """Return what the groups of a request are picked by."""
    kept = screened.screening.kept
    bandwidth = _bandwidth(rows, [group.rows[kept[group.rows]] for group in request.groups])
    open_rows = ~request.outside | request.inside
    if in_the_kernel_itself(request, screened):
        return RobustFacts(rows, kept, bandwidth, np.flatnonzero(open_rows))
    others = max(_LEAST_OTHERS, _OTHERS_PER_PICK * int(np.sum(request.shares)))
    counted, shares = counted_rows(_shares_of_groups(request, screened), open_rows, others)
    width = 2 * n_frequencies
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
    own = _own_shares(request, kept, open_rows, counted)
    return RobustFacts(rows, kept, bandwidth, counted, features, targets, values, own, screened.doubt)


def in_the_kernel_itself(request: Request, screened: Screened) -> bool:
    """Return whether the rows are few enough for the kernel, and belong to one group each."""
    return (
        screened.responsibilities is None and max(len(group.rows) for group in request.groups) <= _EXACT_ROWS
    )


def kept_shares(weights: Vector, kept: Mask) -> Vector:
    """Return the weights of the kept rows as shares of 1; of all rows where the kept ones have none.

    Examples
    --------
    >>> kept_shares(np.array([1.0, 3.0, 4.0]), np.array([True, True, False])).tolist()
    [0.25, 0.75, 0.0]
    """
    counted = np.where(kept, weights, 0.0)
    if counted.sum() == 0.0:
        counted = weights
    shares: Vector = counted / max(float(counted.sum()), 1e-300)
    return shares


def _shares_of_groups(request: Request, screened: Screened) -> NDArray[np.float32]:
    """Return how much each row counts for each group's target."""
    shares = np.zeros((len(request.rows), len(request.groups)), dtype=np.float32)
    for number, group in enumerate(request.groups):
        shares[group.rows, number] = kept_shares(
            request.weights[group.rows], screened.screening.kept[group.rows]
        )
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


def _own_shares(request: Request, kept: Mask, open_rows: Mask, counted: Indices) -> NDArray[np.float32]:
    """Return how much each counted row counts for its own group, if only kept rows do.

    Of kept rows that cannot be picked some are counted, and stand for the others.
    """
    found = np.zeros((len(counted), len(request.groups)), dtype=np.float32)
    for number, group in enumerate(request.groups):
        mine = group.rows[kept[group.rows]]
        places = np.minimum(np.searchsorted(counted, mine), len(counted) - 1)
        closed = ~open_rows[mine]
        present = counted[places] == mine
        weights = request.weights[mine].astype(np.float64)
        standing = float(weights[closed & present].sum())
        if standing > 0.0:
            weights[closed] *= weights[closed].sum() / standing
        found[places[present], number] = weights[present]
    return found


def counted_rows(
    shares: NDArray[np.float32], open_rows: Mask, most: int
) -> tuple[Indices, NDArray[np.float32]]:
    """Return the rows whose features are needed, and how much each counts for every target.

    All that may be picked are needed. Of the others, which count for the targets alone, ``most`` are enough,
    evenly spread, and count for the rest of them.

    Examples
    --------
    >>> shares = np.ones((6, 1), dtype=np.float32)
    >>> rows, counts = counted_rows(shares, np.arange(6) < 2, 2)
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
