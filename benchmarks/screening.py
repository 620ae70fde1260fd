"""``python -m benchmarks.screening DATA.npz``: what ``robust`` picks where labels are wrong or images corrupted.

``DATA.npz`` holds embeddings ``rows`` with ``labels``, ``test_rows`` with ``test_labels``, and, if at hand, labels
that people gave (``human``) and embeddings of corrupted copies of some rows (``corrupted_KIND``, the row numbers in
``corrupted_rows``). Peers screen with a classifier on the same rows and pick at random from what they keep.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gmmatch as gm
from benchmarks import machine
from gmmatch_paper.training.probe import fit_linear_probe

Labels = NDArray[np.int64]
Rows = NDArray[np.float32]
Keeps = NDArray[np.bool_]

NOISES = ("none", "symmetric 20%", "symmetric 40%", "symmetric 60%", "next class 40%", "human")
STRENGTH = 0.03


def noisy(labels: Labels, noise: str, human: Labels | None, seed: int) -> Labels | None:
    """Return the labels to learn from; None where people gave none."""
    if noise == "none":
        return labels
    if noise == "human":
        return human
    kind, share = noise.rsplit(" ", 1)
    random = np.random.default_rng([7, seed])
    count = int(labels.max()) + 1
    wrong = random.random(len(labels)) < float(share.rstrip("%")) / 100.0
    step = random.integers(1, count, len(labels)) if kind == "symmetric" else 1
    return np.where(wrong, (labels + step) % count, labels)


def predicted(rows: Rows, labels: Labels) -> NDArray[np.float64]:
    """Return three-fold probabilities of a logistic regression on 256 principal components."""
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    reduced = PCA(min(256, *rows.shape), random_state=0).fit_transform(rows)
    reduced /= reduced.std()
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    model = LogisticRegression(C=1e-2, max_iter=100)
    return cross_val_predict(model, reduced, labels, cv=folds, method="predict_proba")


def regression_agrees(rows: Rows, labels: Labels) -> Keeps:
    """Keep rows whose label is what a cross-fitted logistic regression predicts."""
    return predicted(rows, labels).argmax(axis=1) == labels


def confident_learning(rows: Rows, labels: Labels) -> Keeps:
    """Keep rows in which cleanlab sees no label issue."""
    from cleanlab.filter import find_label_issues

    return ~find_label_issues(labels, predicted(rows, labels), n_jobs=1)


def neighbours_agree(rows: Rows, labels: Labels) -> Keeps:
    """Keep rows whose label is the most frequent one among ten neighbours by cosine, as SimiFeat votes."""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    count, keeps = int(labels.max()) + 1, np.empty(len(rows), dtype=bool)
    for first in range(0, len(rows), 1000):
        part = slice(first, min(first + 1000, len(rows)))
        close = unit[part] @ unit.T
        close[np.arange(len(close)), np.arange(part.start, part.stop)] = -2.0
        near = np.argpartition(-close, 10, axis=1)[:, :10]
        votes = np.zeros((len(near), count))
        np.add.at(votes, (np.arange(len(near))[:, None], labels[near]), 1.0)
        keeps[part] = votes.argmax(axis=1) == labels[part]
    return keeps


SCREENS: dict[str, Callable[[Rows, Labels], Keeps]] = {
    "regression agrees + random": regression_agrees,
    "cleanlab + random": confident_learning,
    "10 neighbors agree + random": neighbours_agree,
}


def picks_of(
    name: str, data: dict[str, Any], labels: Labels, share: float, seed: int
) -> tuple[Labels, Keeps | None]:
    """Return the picks of a method, and which rows it kept if it screens."""
    rows, k = data["rows"], round(share * len(data["rows"]))
    if name in SCREENS or name == "correct labels + random":
        keeps = labels == data["labels"] if name not in SCREENS else SCREENS[name](rows, labels)
        some = np.flatnonzero(keeps)
        chosen = gm.select(rows[some], y=labels[some], k=k, method="random", random_state=seed)
        return some[chosen.indices], keeps
    chosen = gm.select(rows, y=labels, k=k, method=name, random_state=seed)
    named = None if chosen.screening is None else np.isin(chosen.screening.verdict, ("wrong", "doubtful"))
    return chosen.indices, None if named is None else ~named


def measure(
    name: str, data: dict[str, Any], labels: Labels, share: float, seed: int
) -> tuple[Labels, dict[str, Any]]:
    """Return a method's picks, and what there is to say about them."""
    start = time.perf_counter()
    picks, keeps = picks_of(name, data, labels, share, seed)
    found: dict[str, Any] = {"seconds": time.perf_counter() - start}
    wrong = labels != data["labels"]
    found["wrong_picks"] = float(wrong[picks].mean())
    if keeps is not None:
        hits = float((wrong & ~keeps).sum())
        found["dropped"] = float(1.0 - keeps.mean())
        found["precision"] = hits / max(float((~keeps).sum()), 1.0)
        found["recall"] = hits / max(float(wrong.sum()), 1.0)
        found["f1"] = 2.0 * hits / max(float((~keeps).sum() + wrong.sum()), 1.0)
        found["wrong_kept"] = float(wrong[keeps].mean())
    probe = fit_linear_probe(data["rows"][picks], labels[picks], strengths=[STRENGTH], max_iter=100)
    found["probe"] = probe.accuracy(data["test_rows"], data["test_labels"])
    return picks, found


def corrupted(data: dict[str, Any], kind: str, share: float, seed: int) -> dict[str, Any]:
    """Return how many corrupted rows are picked, of chance, and how many clean ones are dropped."""
    places, copies = data["corrupted_rows"], data[f"corrupted_{kind}"]
    rows, labels = data["rows"][: data["corrupted_of"]].copy(), data["labels"][: data["corrupted_of"]]
    some = np.random.default_rng([8, seed]).permutation(len(places))[: round(share * len(rows))]
    rows[places[some]] = copies[some]
    bad = np.zeros(len(rows), dtype=bool)
    bad[places[some]] = True
    chosen = gm.select(rows, y=labels, k=0.2, method="robust", random_state=seed)
    return {
        "picked_of_chance": float(bad[chosen.indices].mean() / bad.mean()),
        "clean_dropped": float((chosen.screening.verdict == "wrong")[~bad].mean()),
        "reasons": chosen.screening.counts,
    }


def load(path: Path, n_rows: int | None) -> dict[str, Any]:
    """Read a data file, embeddings as float32."""
    data = dict(np.load(path).items())
    for key in data:
        if data[key].dtype == np.float16:
            data[key] = data[key].astype(np.float32)
        elif data[key].ndim:
            data[key] = data[key].astype(np.int64)
    for key in ("rows", "labels", "human"):
        if key in data:
            data[key] = data[key][:n_rows]
    return data


def asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.screening", description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--name", default="", help="of the data, for the JSON file")
    parser.add_argument("--share", type=float, default=0.2, help="of the rows that is picked")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, help="use the first rows only")
    parser.add_argument("--noise", nargs="*", default=list(NOISES))
    parser.add_argument(
        "--methods",
        nargs="+",
        default=["robust", *SCREENS, "gm-matching", "random", "correct labels + random"],
    )
    parser.add_argument(
        "--corrupted", type=float, nargs="*", default=[0.1, 0.3], help="shares of corrupted images"
    )
    parser.add_argument("--json", type=Path, help="file to write, or to add to")
    parser.add_argument("--picks", type=Path, help=".npz file to write for benchmarks.subset_training")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print as it goes, and keep the JSON file up to date."""
    options = asked(arguments)
    warnings.simplefilter("ignore", gm.errors.GMMatchWarning)
    data, surroundings = load(options.data, options.rows), machine.describe()
    content: dict[str, Any] = {"runs": [], "corrupted": []}
    if options.json is not None and options.json.exists():
        content = json.loads(options.json.read_text(encoding="utf-8"))
    content |= {"command": "python -m benchmarks.screening DATA.npz --json benchmarks/results/screening.json",
                "probe_strength": STRENGTH, "machine": surroundings}  # fmt: skip

    def keep(part: str, case: dict[str, Any], found: dict[str, Any]) -> None:
        content[part] = [run for run in content[part] if any(run[key] != case[key] for key in case)]
        content[part].append({**case, **found})
        print(json.dumps(content[part][-1]), flush=True)
        if options.json is not None:
            options.json.write_text(
                json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
            )

    subsets: dict[str, Labels] = {}
    for noise in options.noise:
        for seed in range(options.seeds):
            labels = noisy(data["labels"], noise, data.get("human"), seed)
            for name in options.methods if labels is not None else ():
                # Labels without chance in them, and peers, are measured once.
                if seed and (noise in ("none", "human") or name != "robust"):
                    continue
                case = {
                    "data": options.name,
                    "rows": len(data["rows"]),
                    "noise": noise,
                    "method": name,
                    "seed": seed,
                }
                picks, found = measure(name, data, labels, options.share, seed)
                keep("runs", case, found)
                subsets |= {
                    f"rows/{noise}/{name}/{seed}": picks,
                    f"labels/{noise}/{name}/{seed}": labels[picks],
                }
    if options.picks is not None:
        np.savez_compressed(options.picks, **subsets)
    kinds = [
        key.removeprefix("corrupted_") for key in data if key.startswith("corrupted_") and data[key].ndim == 2
    ]
    for kind in kinds:
        for share in options.corrupted:
            case = {
                "data": options.name,
                "rows": int(data["corrupted_of"]),
                "kind": kind,
                "share": share,
                "seed": 0,
            }
            keep("corrupted", case, corrupted(data, kind, share, 0))


if __name__ == "__main__":
    main()
