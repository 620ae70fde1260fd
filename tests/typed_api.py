"""What a user writes, for a type checker: `make lint` checks it with mypy, and pyright accepts it. It is not run."""

from __future__ import annotations

import numpy as np

import gmmatch as gm


def pick() -> list[int]:
    X, y = np.zeros((10, 2)), np.arange(10) % 2
    target = gm.GeometricMedian(eps=1e-6)
    selection = gm.select(X, y, k="10%", method="gm-matching", target=target, random_state=0)
    if selection.screening is not None:
        print(selection.screening.summary.title(), selection.screening.noise_interval)
    selection.save("picks.parquet")
    same: bool = gm.Selection.load("picks.parquet") == selection
    print(
        same,
        selection.mask.sum() + 1,
        selection.prefix(2).k + 1,
        gm.metrics.contamination(selection, y == 1) + 0.5,
    )
    matching = gm.GMMatching(k=3, kernel=gm.RandomFeatures(gm.RBF(), 64), batches=gm.Independent(2))
    picked: list[int] = matching.select(X, y).indices.tolist()
    return picked


def judge() -> gm.ScreeningResult:
    X, y = np.zeros((10, 2)), np.arange(10) % 2
    result = gm.screen(X, y, pred_probs=np.full((10, 2), 0.5), random_state=0)
    print(result.probability.mean() + 0.5, gm.corrected_labels(result, y, 0.9).shape[0] + 1)
    print(gm.duplicates(X, threshold=0.9).mask.sum() + 1, gm.geometric_median(X).point.sum() + 1.0)
    return result


def clean(photos: str) -> gm.Store:
    cleaned = gm.clean(photos, "clean", doubtful="drop")
    print(cleaned.counts["mislabeled"] + 1, cleaned.path.name.upper())
    return gm.open_store(cleaned.store)
