"""``python -m benchmarks.audit FILE.npz ...``: sets that people mislabeled, cleaned by gmmatch and by its peers.

A file holds embeddings ``rows``, true ``labels``, those that people gave (``human``), and texts that say what they
are: ``name``, ``labels_by`` and ``encoder``. Every tool keeps as many rows as gmmatch trusts, those that it
believes in most, of each class or of all; and a fifth. gmmatch runs as it is, each peer in all its settings, of which
the tables show the one that is best on that very set.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier

import gmmatch as gm
from benchmarks import machine
from benchmarks.machine import installed_version
from gmmatch._threads import one_blas_thread

Labels, Scores = NDArray[np.int64], NDArray[np.float64]

COMMAND = "python -m benchmarks.audit FILE.npz ... --json benchmarks/results/audit.json"
SEEDS = 3
STRENGTHS = (1e-3, 1e-2, 1e-1)
NEIGHBORS = (5, 10, 20, 50)
QUALITIES = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")


def probabilities(rows: Any, labels: Labels) -> Iterator[tuple[str, str, Scores, float]]:
    """Yield out-of-fold probabilities by tool and setting, with the processor seconds they took."""
    start = time.process_time()
    reduced = PCA(min(256, *rows.shape), random_state=0).fit_transform(rows)
    reduced /= reduced.std()
    reduction = time.process_time() - start
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    models: dict[tuple[str, str], Any] = {
        ("regression", f"C={strength:g}"): LogisticRegression(C=strength, max_iter=100)
        for strength in STRENGTHS
    }
    models |= {
        ("neighbors", f"{count} neighbors"): KNeighborsClassifier(count, weights="distance")
        for count in NEIGHBORS
    }
    for (tool, setting), model in models.items():
        start = time.process_time()
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        data = reduced if tool == "regression" else unit
        p = cross_val_predict(model, data, labels, cv=folds, method="predict_proba")
        yield tool, setting, p, time.process_time() - start + (reduction if tool == "regression" else 0.0)


def peers(rows: Any, labels: Labels) -> Iterator[tuple[str, str, Scores, float]]:
    """Yield how much each peer believes each label, in each of its settings, and its processor seconds."""
    from cleanlab.rank import get_label_quality_scores

    for tool, setting, p, seconds in probabilities(rows, labels):
        yield tool, setting, p[np.arange(len(labels)), labels], seconds
        for quality, adjusted in product(QUALITIES, (False, True)):
            if adjusted and quality == "confidence_weighted_entropy":  # which cannot be adjusted
                continue
            start = time.process_time()
            belief = get_label_quality_scores(labels, p, method=quality, adjust_pred_probs=adjusted)
            words = f"{quality}{', adjusted' * adjusted}, {tool} {setting}"
            yield "cleanlab", words, belief, seconds + time.process_time() - start


def best_of_each_class(belief: Scores, labels: Labels, counts: NDArray[np.int64]) -> Labels:
    """Return the rows with the highest values, as many of each class as asked for.

    Examples
    --------
    >>> best_of_each_class(np.array([0.1, 0.9, 0.5]), np.array([0, 0, 1]), np.array([1, 1])).tolist()
    [1, 2]
    """
    order = np.lexsort((-belief, labels))
    starts = np.searchsorted(labels[order], np.arange(len(counts)))
    return np.sort(
        np.concatenate([order[start : start + count] for start, count in zip(starts, counts, strict=True)])
    )


def audit(data: dict[str, Any]) -> dict[str, Any]:
    """Return what gmmatch and its peers say of a set, and how often what they keep is mislabeled."""
    rows, labels = data["rows"].astype(np.float32), data["human"].astype(np.int64)
    mislabeled, n_classes = labels != data["labels"], int(labels.max()) + 1

    def wrong_share(kept: Labels) -> float:
        return round(float(mislabeled[kept].mean()), 5)

    # A fifth of each class; then as many as gmmatch trusts with the first random seed.
    quotas = {"fifth": np.bincount(labels, minlength=n_classes) // 5}
    runs = []
    for seed in range(SEEDS):
        start = time.process_time()
        result = gm.screen(rows, labels, random_state=seed)
        run = {"cpu_seconds": time.process_time() - start, "rate": result.noise_rate}
        run |= dict(zip(("low", "high"), result.noise_interval or (0.0, 1.0), strict=True))
        quotas.setdefault("trusted", np.bincount(labels[result.trusted], minlength=n_classes))
        fifth = best_of_each_class(-result.suspicion, labels, quotas["fifth"])
        run |= {
            "kept": int(result.trusted.sum()),
            "wrong_trusted": wrong_share(np.flatnonzero(result.trusted)),
        }
        runs.append(run | {"wrong_fifth": wrong_share(fifth)})
    settings = []
    for tool, setting, belief, seconds in peers(rows, labels):
        # As many of each class, and as many in all: a peer has the better of both.
        for words, groups in ((setting, labels), (f"{setting}, of all classes", np.zeros_like(labels))):
            one = {"tool": tool, "setting": words, "cpu_seconds": round(seconds, 2)}
            for name, quota in quotas.items():
                counts = quota if groups is labels else quota.sum(keepdims=True)
                one[f"wrong_{name}"] = wrong_share(best_of_each_class(belief, groups, counts))
            settings.append(one)
    about = {key: str(data[key]) for key in ("name", "labels_by", "encoder")}
    sizes = {"rows": len(rows), "columns": rows.shape[1], "classes": n_classes}
    own = {key: round(fmean(run[key] for run in runs), 5) for key in runs[0]}
    return {**about, **sizes, "true": round(float(mislabeled.mean()), 5), "gmmatch": own, "peers": settings}


def main(arguments: Sequence[str] | None = None) -> None:
    """Audit the files one by one, and keep the JSON file up to date."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--json", type=Path, required=True, help="file to write, or to add to")
    options = parser.parse_args(arguments)
    sets: dict[str, Any] = {}
    if options.json.exists():
        sets = {one["name"]: one for one in json.loads(options.json.read_text(encoding="utf-8"))["sets"]}
    rng = np.random.default_rng(0)
    gm.screen(rng.normal(size=(200, 8)), rng.integers(0, 2, 200))  # compiles
    for path in options.files:
        with warnings.catch_warnings(), one_blas_thread(), np.load(path) as data:
            warnings.simplefilter("ignore")
            found = audit(dict(data.items()))
        print(json.dumps(found["gmmatch"]), flush=True)
        sets[found["name"]] = found
        content = {
            "command": COMMAND,
            "machine": machine.describe(),
            "cleanlab": installed_version("cleanlab"),
        }
        content["sets"] = list(sets.values())
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
