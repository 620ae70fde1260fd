"""Verdict: trusted, doubtful or wrong, from one posterior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gmmatch._array import Matrix
from gmmatch.screening.posterior import Posterior
from gmmatch.screening.result import DOUBTFUL, TRUSTED, WRONG

# Rows are called wrong only if this share of them is expected to be.
_SURE_PRECISION = 0.8
# Noise is certain, too, where classes lie apart: overlap explains at most this share of the contradicted labels.
# Of clean data it explains nearly all, and of noisy data with some overlap a third to three quarters. Of labels that
# are contradicted half as often as shuffled ones would be, nothing is certain.
_EXPLAINED, _LARGEST_SHARE = 0.1, 0.5
# Where noise is certain, labels that are wrong with this probability are doubtful: with half of it many right labels
# are, with twice as much the interval misses the truth more often.
_DOUBT = 0.25


@dataclass(frozen=True)
class Rule:
    """What verdicts depend on besides the row.

    Attributes
    ----------
    sure : bool
        Whether any row may be called wrong.
    most_noise : float
        The share of wrong labels that are feared: suspicion counts all doubtful rows as noise.
    """

    sure: bool
    most_noise: float

    @classmethod
    def of(cls, posterior: Posterior) -> Rule:
        """Decide by the posterior of a sample."""
        likely, overlap = posterior.wrong > 0.5, 1.0 - posterior.classes.max(axis=0)
        n_contradicted, counts = posterior.contradicted.sum(), np.bincount(posterior.labels.given)
        n_by_chance = counts.sum() - (counts**2).sum() / counts.sum()
        # Two rows more, so that a few contradicted labels do not decide.
        separate = (
            overlap.sum() + 2.0 < _EXPLAINED * n_contradicted < _EXPLAINED * _LARGEST_SHARE * n_by_chance
        )
        precise = likely.any() and posterior.wrong[likely].mean() > _SURE_PRECISION
        sure = bool(precise and (posterior.sure or separate))
        doubtful = cls(sure, 0.0).judge(posterior)[:, 0] == DOUBTFUL
        return cls(sure, float(doubtful.mean()) + 0.01)

    def judge(self, posterior: Posterior) -> Matrix:
        """Return the verdicts: wrong where noise is certain and likely, doubtful where evidence objects.

        Returns
        -------
        array of shape (n, 5)
            Verdict, probability that the label is wrong, suspicion, suggested class, and its probability.
        """
        labels, probability = posterior.labels, posterior.wrong
        likely = probability > 0.5
        doubtful = likely | (probability > _DOUBT if self.sure else posterior.contradicted)
        verdict = np.where(likely & self.sure, WRONG, np.where(doubtful, DOUBTFUL, TRUSTED))
        joint = posterior.classes * posterior.noise.raise_to(self.most_noise).transitions(labels)
        given_p = joint[0].copy()
        joint[0] = 0.0
        suspicion = np.log(joint.sum(axis=0) + 1e-12) - np.log(given_p + 1e-12)
        # The rest of the classes together are no suggestion.
        joint[-1] = -1.0
        position = np.where(verdict == TRUSTED, 0, joint.argmax(axis=0))
        confidence = posterior.posterior[position, np.arange(len(labels))]
        columns = verdict, probability, suspicion, labels.classes_at(position), confidence
        return np.stack(columns, axis=1).astype(np.float64)
