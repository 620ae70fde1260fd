"""Self-supervised: keep the rows that are farthest from the prototypes of their clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gmmatch.rows.checks import check_whole_number
from gmmatch.rows.parallel import resolve_jobs
from gmmatch.selectors.base import Request
from gmmatch.selectors.model_scores import ScoreRanking, check_some_weight
from gmmatch.types import Vector

_CLUSTERS_WITHOUT_LABELS = 10
# Measured: bytes that importing k-means takes.
_SCIKIT_LEARN = 32_000_000


@dataclass(kw_only=True, eq=False, repr=False)
class SelfSupervised(ScoreRanking):
    """Keep the rows that are farthest from the nearest prototype, the center of a k-means cluster.

    The least typical rows (Sorscher et al., 2022); corrupted rows are among them. The rows
    should be embeddings of a self-supervised model from the hub, such as
    ``gmmatch embed --encoder facebook/dinov2-small``, or your own, which
    :func:`gmmatch_paper.training.contrastive.train_simclr` trains on images. Labels do not change the score,
    only the number of clusters and the quotas.

    Parameters
    ----------
    n_clusters : int, optional
        Prototypes. By default as many as there are classes, and 10 without labels.
    scores : array of shape (n,) or path, optional
        Your own scores instead of the distances.
    k, per_class, unlabeled, preprocess, random_state, n_jobs
        As in :class:`~gmmatch.MomentMatching`. ``preprocess=["unit"]`` ranks by angle.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [10.0], [11.0], [15.0]]
    >>> SelfSupervised(k=1, n_clusters=2, random_state=0).select(X).indices
    array([5])
    """

    n_clusters: int | None = None

    method = "self-supervised"

    def learn(self, request: Request) -> tuple[Vector, dict[str, Any]]:
        """Find the prototypes of all rows that can be picked from, and the distance of each row."""
        from gmmatch.scores.prototypes import find_prototypes, prototype_distances

        n_clusters = self.n_clusters
        if n_clusters is None:
            classes = sum(group.label is not None for group in request.groups)
            n_clusters = classes or _CLUSTERS_WITHOUT_LABELS
        counted = np.zeros(len(request.rows))
        for group in request.groups:
            counted[group.rows] = request.weights[group.rows]
        check_some_weight(counted)
        rows = request.preprocessed
        prototypes = find_prototypes(rows, n_clusters, counted, np.random.default_rng(request.seed))
        distances = prototype_distances(rows, prototypes, resolve_jobs(self.n_jobs))
        return distances, {"prototypes": len(prototypes), "found_by": "k-means"}

    def least_memory(self, n_rows: int, n_features: int) -> int:
        """Return the bytes that no limit can spare: k-means holds a sample."""
        from gmmatch.scores.prototypes import sample_size

        # As it is stored, and as floats.
        sample = 6 * n_features * min(n_rows, sample_size(n_features))
        return super().least_memory(n_rows, n_features) + sample + _SCIKIT_LEARN

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.n_clusters is not None:
            check_whole_number(self.n_clusters, "n_clusters", 1)
