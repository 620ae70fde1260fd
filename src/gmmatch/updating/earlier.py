"""What a matching knows of earlier rows when it updates a selection, and what it keeps for the next update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, logit

from gmmatch.errors import InvalidInputError
from gmmatch.kernels.feature_maps import FourierFeatures
from gmmatch.kernels.kernels import RBF, resolve_kernel
from gmmatch.rows.preprocessing import parse_steps
from gmmatch.screening.result import IN_DOUBT, KEPT, MISLABELED, Screening
from gmmatch.screening.screen import least_trust
from gmmatch.selection.budget import PerClass, quotas
from gmmatch.selection.labels import Group, Label
from gmmatch.selection.past import Past
from gmmatch.selection.selection import Selection
from gmmatch.selectors.tasks import GroupTask, Results, Tasks
from gmmatch.targets.reference import PastMoment
from gmmatch.types import Indices, Vector

if TYPE_CHECKING:
    from gmmatch.selectors.base import Request
    from gmmatch.selectors.moment_matching import MomentMatching

# Shares of wrong labels that are thought possible among new rows, and rounds in which theirs settles.
_RATES = (1e-3, 0.95)
_ROUNDS = 50


@dataclass(frozen=True, eq=False)
class Earlier:
    """A selection that is updated; its picks are the first rows of those to pick from now."""

    selection: Selection
    past: Past

    def numbered(self, rows: Indices) -> Indices:
        """Return the numbers of rows among all rows so far: the new ones come after the old."""
        k, order = self.selection.k, self.selection.order
        return np.where(rows < k, order[np.minimum(rows, k - 1)], self.selection.n_rows + rows - k)

    @cached_property
    def _places(self) -> dict[Label, int]:
        return {label: number for number, label in enumerate(self.selection.groups.labels)}

    def moments(self, groups: Sequence[Group]) -> list[Any]:
        """Return the earlier moment of each group, None for one that is new."""
        known = {
            label: PastMoment(self.past.points[at], float(self.past.masses[at]))
            for label, at in self._places.items()
            if self.past.masses[at] > 0.0
        }
        return [known.get(group.label) for group in groups]

    def totals(self, groups: Sequence[Group]) -> Indices:
        """Return how many rows each group has had by now."""
        before = dict(zip(self._places, self.past.counts.tolist(), strict=True))
        return np.array(
            [before.get(group.label, 0) + int((group.rows >= self.selection.k).sum()) for group in groups]
        )

    def shares(self, groups: Sequence[Group], per_class: PerClass) -> Indices:
        """Share as many picks as before among the classes: by all rows that they have had, or as a mapping did."""
        labels, sizes = [group.label for group in groups], np.array([len(group.rows) for group in groups])
        if isinstance(per_class, Mapping):
            counts = self.selection.counts
            wanted = np.array([counts.get(label, 0) for label in labels])
        else:
            # Nothing is picked twice: a class that has fewer rows than its share gives what it has.
            wanted = quotas(self.selection.k, labels, self.totals(groups), per_class, replacement=True)
        shares = np.minimum(wanted, sizes)
        missing = min(int(wanted.sum()), int(sizes.sum())) - int(shares.sum())
        for _ in range(missing):  # what a class cannot give, the others do
            shares[np.argmax((sizes - shares) / np.maximum(sizes, 1))] += 1
        return np.asarray(shares)

    def judged(self, screening: Screening, trust: Vector, tolerance: float) -> tuple[Screening, Vector]:
        """Return a screening of old picks and new rows as if the new rows had been screened among their like.

        The old picks are nearly all labeled right, so among them a wrong label seems rarer than it is among new rows.
        The share of wrong labels among these is the one that agrees with their probabilities once they are corrected
        for it (Saerens, Latinne and Decaestecker, 2002).
        """
        if screening.noise_rate is None:
            return screening, trust
        reasons = np.array([one in (KEPT, MISLABELED, IN_DOUBT) for one in screening.reasons])
        new = np.flatnonzero((np.arange(len(screening)) >= self.selection.k) & reasons[screening.reason])
        assumed = float(np.clip(screening.noise_rate, *_RATES))
        odds = logit(np.clip(screening.probability[new], 1e-9, 1.0 - 1e-9)) - logit(assumed)
        rate, wrong = assumed, screening.probability[new]
        for _ in range(_ROUNDS):
            wrong = expit(odds + logit(rate))
            rate = float(np.clip(wrong.mean() if len(new) else rate, *_RATES))
        kept, probability = np.array(screening.kept), np.array(screening.probability)
        reason = np.array(screening.reason)
        probability[new] = wrong
        least = 0.5
        if rate > tolerance and len(new):
            old = np.flatnonzero(kept[: self.selection.k])
            least = max(least, least_trust(1.0 - probability[np.concatenate([old, new])], tolerance))
        dropped = new[kept[new] & (1.0 - wrong < least)]
        kept[dropped], reason[dropped] = False, screening.reasons.index(IN_DOUBT)
        trust = np.where(kept, trust, 0.0)
        trust[new] = np.where(kept[new], 1.0 - wrong, 0.0)
        return replace(screening, kept=kept, probability=probability, reason=reason), trust

    def features(self) -> FourierFeatures | None:
        """Return the features that the earlier sums are of."""
        known = self.past.features
        if known is None:
            return None
        made = FourierFeatures(RBF(known["scale"]), known["n_components"], random_state=known["seed"])
        return made.fit(np.array([known["centre"]]))  # of a single row, the typical one is that row


def past_of(
    selector: MomentMatching, request: Request, tasks: Tasks, results: Results, order: Indices
) -> Past:
    """Return what the next update needs."""
    stored = request.rows.source.dtype
    dtype = np.float64 if stored.itemsize > 4 and not request.rows.bfloat16 else np.float32
    counts = np.array([len(group.rows) for group in request.groups])
    if selector.earlier is not None:
        counts = selector.earlier.totals(request.groups)
    features: FourierFeatures | None = tasks.facts
    moments = [
        _unpicked(selector, tasks[number]) if one is None else one
        for number, one in enumerate(results.moments or [])
    ]
    width = max((len(one[0]) for one in moments if one is not None), default=1)
    points, masses = np.zeros((len(tasks), width)), np.zeros(len(tasks))
    for number, one in enumerate(moments):
        if one is not None:
            points[number], masses[number] = one
    made = None
    if features is not None:
        kernel: Any = resolve_kernel(features.kernel)
        made = {
            "scale": kernel.scale, "n_components": features.n_components, "seed": features.random_state,
            "centre": features.centre_.tolist(),
        }  # fmt: skip
    return Past(request.rows.gather(order, dtype), counts, points, masses, made)


def _unpicked(selector: MomentMatching, task: GroupTask) -> tuple[Vector, float] | None:
    """Return the moment and mass of a group of which nothing was picked, because a later update may pick from it."""
    if task.reference is None and not task.weights.any():
        return None
    rows = task.rows.here()
    task = replace(task, rows=rows if task.facts is None else rows.mapped(task.facts))
    return selector.weighed(task, selector.moment_of(task))


def check_updatable(selector: MomentMatching) -> None:
    """Raise for what cannot be updated later."""
    if not selector.updatable:
        return
    why = None
    kernel = resolve_kernel(selector.kernel)
    if selector.method != "robust" and not kernel.is_linear:
        why = f"a kernel of {selector.method} has no sums: use robust, with screen='none' for kernel herding alone"
    elif selector.method == "robust" and (not isinstance(kernel, RBF) or selector.approximation != "auto"):
        why = 'robust keeps sums of Fourier features of the "rbf" kernel: leave out kernel and approximation'
    elif selector.target == "coordinate-median":
        why = 'the coordinate-wise median has no sums: use target="geometric-median"'
    elif selector.replacement:
        why = "rows are picked once: leave out replacement"
    elif selector.reference is not None:
        why = "a reference is not kept with the picks: leave it out"
    elif any(name != "unit" for name, _ in parse_steps(selector.preprocess)):
        why = 'steps but "unit" would have to be fitted to all rows again: preprocess the rows yourself'
    if why is not None:
        raise InvalidInputError(f"updatable=True: {why}.")
