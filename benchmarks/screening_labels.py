"""``python -m benchmarks.screening_labels``: wrong labels among the picks, and what a linear probe learns from them.

Embeddings of a labelled set, its labels made wrong at random or by people, and a subset picked by ``robust``, by
others, and by cleanlab's confident learning (3-fold logistic regression on 128 principal components) followed by
a random draw or by herding among the rows it keeps. The probe is tested on the clean labels of the test set.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gmmatch as gm
from benchmarks import machine
from gmmatch_paper.corruption.labels import SymmetricNoise
from gmmatch_paper.training.probe import fit_linear_probe

STRENGTH = 0.03
OTHERS = ("random", "herding", "gm-matching")


def cleanlab_keeps(rows: NDArray[np.float32], labels: NDArray[np.int64], seed: int) -> NDArray[np.bool_]:
    """Return the rows in which confident learning sees no label issue."""
    from cleanlab.filter import find_label_issues
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.preprocessing import StandardScaler

    width = min(128, *rows.shape)
    reduced = StandardScaler().fit_transform(PCA(width, random_state=0).fit_transform(rows))
    folds = StratifiedKFold(3, shuffle=True, random_state=seed)
    model = LogisticRegression(max_iter=200)
    guesses = cross_val_predict(model, reduced, labels, cv=folds, method="predict_proba")
    issues: NDArray[np.bool_] = find_label_issues(labels, guesses, n_jobs=1)
    return ~issues


def noisy_labels(
    clean: NDArray[np.int64], noise: str, people: NDArray[np.int64] | None, seed: int
) -> NDArray[np.int64]:
    """Return the labels to learn from: "0.4" is symmetric noise at that rate, "people" are those of people."""
    if noise == "people":
        if people is None:
            raise SystemExit("--noise people needs --people, a file with the labels that people gave.")
        return people
    rate = float(noise)
    if rate == 0.0:
        return clean
    return np.asarray(SymmetricNoise(rate=rate, seed=seed).apply(clean).data)


class Trial:
    """One data set with one draw of noise, from which every method picks."""

    def __init__(self, data: dict[str, Any], noise: str, seed: int) -> None:
        self.data, self.seed = data, seed
        self.labels = noisy_labels(data["labels"], noise, data["people"], seed)
        self.wrong = self.labels != data["labels"]

    @cached_property
    def kept(self) -> NDArray[np.int64]:
        """The rows that cleanlab keeps."""
        return np.flatnonzero(cleanlab_keeps(self.data["rows"], self.labels, self.seed))

    def picks(self, name: str, k: int) -> tuple[NDArray[np.int64], float]:
        """Return the rows that a method picks, and the processor seconds it took."""
        rows, labels = self.data["rows"], self.labels
        start = time.process_time()
        if name.startswith("cleanlab"):
            method = name.removeprefix("cleanlab + ")
            chosen = gm.select(
                rows[self.kept], y=labels[self.kept], k=k, method=method, random_state=self.seed
            )
            return self.kept[chosen.indices], time.process_time() - start
        chosen = gm.select(rows, y=labels, k=k, method=name, random_state=self.seed)
        return chosen.indices, time.process_time() - start

    def measure(self, name: str, share: float) -> dict[str, Any]:
        """Return what there is to say about a method's picks."""
        rows = self.data["rows"]
        picked, seconds = self.picks(name, round(share * len(rows)))
        probe = fit_linear_probe(rows[picked], self.labels[picked], strengths=[STRENGTH], max_iter=100)
        accuracy = probe.accuracy(self.data["test_rows"], self.data["test_labels"])
        wrong = float(self.wrong[picked].mean())
        return {"wrong_labels": wrong, "accuracy": accuracy, "processor_seconds": seconds}


def load(options: argparse.Namespace) -> dict[str, Any]:
    """Read the files that the command line names."""
    rows = np.concatenate([np.load(path).astype(np.float32) for path in options.train])
    labels = np.load(options.labels)
    chosen = slice(0, options.rows)
    people = None
    if options.people is not None:
        people = np.load(options.people)[options.people_key].astype(np.int64)[: len(rows)][chosen]
    return {
        "rows": rows[chosen],
        "labels": labels["train"].astype(np.int64)[: len(rows)][chosen],
        "people": people,
        "test_rows": np.load(options.test).astype(np.float32),
        "test_labels": labels["test"].astype(np.int64),
    }


def paired(runs: list[dict[str, Any]], noise: str, share: float, peer: str) -> dict[str, float] | None:
    """Return the mean advantage of ``robust`` over a peer, in points, and its 95% interval over the seeds."""
    from scipy.stats import t

    by_seed: dict[int, dict[str, float]] = {}
    for run in runs:
        if (run["noise"], run["share"]) == (noise, share):
            by_seed.setdefault(run["seed"], {})[run["method"]] = 100.0 * run["accuracy"]
    gains = np.array([one["robust"] - one[peer] for one in by_seed.values() if {"robust", peer} <= set(one)])
    if len(gains) < 2:
        return None
    half = float(t.ppf(0.975, len(gains) - 1) * gains.std(ddof=1) / np.sqrt(len(gains)))
    mean = float(gains.mean())
    return {"gain": mean, "low": mean - half, "high": mean + half, "seeds": len(gains)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print as it goes, and keep the JSON file up to date."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.screening_labels", description=__doc__)
    parser.add_argument(
        "--train", type=Path, nargs="+", required=True, help=".npy files of embeddings, in order"
    )
    parser.add_argument("--test", type=Path, required=True, help=".npy file of the test set's embeddings")
    parser.add_argument("--labels", type=Path, required=True, help=".npz file with labels, train and test")
    parser.add_argument("--people", type=Path, help=".npz file with labels that people gave")
    parser.add_argument("--people-key", default="worse_label")
    parser.add_argument("--noise", nargs="+", default=["0.4", "people", "0.2", "0"])
    parser.add_argument("--shares", type=float, nargs="+", default=[0.02, 0.1, 0.2])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rows", type=int, help="use the first rows only")
    parser.add_argument("--json", type=Path, help="file to write")
    parser.add_argument(
        "--renew", metavar="METHOD", help="run this method again, and keep what --json has of the others"
    )
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", gm.errors.GMMatchWarning)
    surroundings, data = machine.describe(), load(options)
    if options.renew is not None:
        renew(options, data, surroundings)
        return
    runs: list[dict[str, Any]] = []
    kept: list[dict[str, Any]] = []
    for seed in range(options.seeds):
        for noise in options.noise:
            trial = Trial(data, noise, seed)
            kept.append({
                "noise": noise, "seed": seed, "share_kept": len(trial.kept) / len(data["rows"]),
                "wrong_labels": float(trial.wrong[trial.kept].mean()),
            })  # fmt: skip
            # Methods that screen nothing are there to compare with, for which one seed does.
            names = ["robust", "cleanlab + random", "cleanlab + herding", *(OTHERS if seed == 0 else ())]
            for share in options.shares:
                for name in names:
                    found = {"noise": noise, "share": share, "method": name, "seed": seed}
                    runs.append({**found, **trial.measure(name, share)})
                    print(json.dumps(runs[-1]), flush=True)
            if options.json is not None:
                _write(options, data, surroundings, runs, kept)


def renew(options: argparse.Namespace, data: dict[str, Any], surroundings: Any) -> None:
    """Measure one method again in every case of the file; the others pick what they picked."""
    content = json.loads(options.json.read_text(encoding="utf-8"))
    trials: dict[tuple[str, int], Trial] = {}
    for run in content["runs"]:
        if run["method"] != options.renew:
            continue
        case = run["noise"], run["seed"]
        if case not in trials:
            trials = {case: Trial(data, *case)}
        run.update(trials[case].measure(options.renew, run["share"]))
        print(json.dumps(run), flush=True)
    renewed(content, options.renew, surroundings)
    options.json.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def renewed(content: dict[str, Any], method: str, surroundings: Any) -> None:
    """Bring the comparisons up to date with the runs, and say which method's are newer than the rest."""
    for gain in content["gains"]:
        gain.update(paired(content["runs"], gain["noise"], gain["share"], gain["peer"]) or {})
    content["renewed"] = {
        "method": method, "machine": surroundings,
        "command": "python -m benchmarks.screening_labels --train TRAIN.npy --test TEST.npy --labels LABELS.npz "
        f"--people PEOPLE.npz --json benchmarks/results/screening-labels.json --renew {method}",
    }  # fmt: skip


def _write(
    options: argparse.Namespace, data: dict[str, Any], surroundings: Any, runs: list[Any], kept: list[Any]
) -> None:
    gains = [
        {"noise": noise, "share": share, "peer": peer, **found}
        for noise in options.noise
        for share in options.shares
        for peer in ("cleanlab + random", "cleanlab + herding")
        if (found := paired(runs, noise, share, peer)) is not None
    ]
    content = {
        "command": "python -m benchmarks.screening_labels --train TRAIN.npy --test TEST.npy --labels LABELS.npz "
        f"--people PEOPLE.npz --seeds {options.seeds} --json benchmarks/results/screening-labels.json",
        "settings": {
            "rows": list(data["rows"].shape), "probe_strength": STRENGTH,
            "embeddings": "ResNet-50 (ImageNet), the mean of its third stage, CIFAR-10 at 96 pixels",
        },
        "gains": gains, "cleanlab_kept": kept, "runs": runs, "machine": surroundings,
    }  # fmt: skip
    options.json.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
