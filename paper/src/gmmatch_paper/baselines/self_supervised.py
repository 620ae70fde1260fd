"""Self-supervised: keep the rows that are farthest from the prototypes of their clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gmmatch.errors import InvalidInputError
from gmmatch.problem import Problem
from gmmatch_paper.arrays import Vector
from gmmatch_paper.baselines.learned import LearnedRanking
from gmmatch_paper.baselines.prototypes import find_prototypes, prototype_distances
from gmmatch_paper.checks import check_whole_number

_CLUSTERS_WITHOUT_LABELS = 10


@dataclass(kw_only=True, eq=False, repr=False)
class SelfSupervised(LearnedRanking):
    """Keep the rows that are farthest from the nearest prototype, the center of a k-means cluster.

    The least typical rows (Sorscher et al., 2022); corrupted rows are among them. The rows should be embeddings of a
    self-supervised model, such as ``gmmatch embed --encoder facebook/dinov2-small``, or of a network that
    :func:`gmmatch_paper.training.contrastive.train_simclr` trains on the images. Labels do not change the score, only
    the number of clusters and the quotas.

    Parameters
    ----------
    n_clusters : int, optional
        Prototypes. By default as many as there are classes, and 10 without labels.
    k, per_class, screening, random_state
        As in :class:`~gmmatch.methods.base.Method`.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [10.0], [11.0], [15.0]]
    >>> SelfSupervised(k=1, n_clusters=2, random_state=0).select(X).indices
    array([5])
    """

    n_clusters: int | None = None

    name = "self-supervised"

    def learn(self, problem: Problem) -> tuple[Vector, dict[str, Any]]:
        """Find the prototypes of all rows that can be picked from, and the distance of each row."""
        if self.n_clusters is not None:
            check_whole_number(self.n_clusters, "n_clusters")
        n_classes = sum(label is not None for label in problem.groups.labels)
        weights = np.where(problem.groups.codes >= 0, problem.weights, 0.0)
        if not weights.any():
            raise InvalidInputError("sample_weight is zero for every row that can be picked from.")
        n_clusters = self.n_clusters or n_classes or _CLUSTERS_WITHOUT_LABELS
        prototypes = find_prototypes(problem.rows, n_clusters, weights, np.random.default_rng(problem.seed))
        return prototype_distances(problem.rows, prototypes), {
            "prototypes": len(prototypes),
            "clustering": "k-means",
        }
