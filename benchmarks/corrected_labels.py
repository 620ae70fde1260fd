"""Are corrected labels right as often as they say, and does training on picks gain by them?

``python -m benchmarks.corrected_labels DATA.npz`` reads embeddings, labels and noisy labels as
:mod:`benchmarks.screening` does. For each kind of label noise: how often suggested labels are right, by their
probability; and the accuracy of a linear probe trained on the picks of ``robust`` with and without corrected labels.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gmmatch as gm
from benchmarks import machine
from benchmarks.screening import STRENGTH, Labels, load, noisy
from gmmatch_paper.training.probe import fit_linear_probe

COMMAND = "python -m benchmarks.corrected_labels DATA.npz --json benchmarks/results/corrected-labels.json"
EDGES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 1.0 + 1e-9)


def calibration(screening: gm.ScreeningResult, given: Labels, truth: Labels) -> dict[str, Any]:
    """Return how often labels other than the given ones are right, in bins of their probability and above 0.95."""
    chance, suggested = screening.confidence, screening.suggested
    bins = []
    for low, high in itertools.pairwise(EDGES):
        some = (suggested != given) & (chance >= low) & (chance < high)
        if some.any():
            right = float((suggested == truth)[some].mean())
            bins.append(
                {"from": low, "mean": float(chance[some].mean()), "right": right, "rows": int(some.sum())}
            )
    new = gm.corrected_labels(screening, given)
    changed = new != given
    right = float((new == truth)[changed].mean()) if changed.any() else None
    return {"bins": bins, "corrected": int(changed.sum()), "right": right}


def measure(
    data: dict[str, Any], given: Labels, share: float, seed: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the figures of one kind of noise, and the picks with the labels to train with."""
    began = time.perf_counter()
    screening = gm.screen(data["rows"], given, random_state=seed)
    found: dict[str, Any] = {"noise_rate": float((given != data["labels"]).mean())}
    found |= calibration(screening, given, data["labels"])
    subsets = {}
    for name, relabel in (("given", None), ("corrected", 0.95)):
        options = gm.Screening(relabel=relabel)
        chosen = gm.select(data["rows"], given, k=share, random_state=seed, screening=options)
        picks, labels = chosen.indices, given[chosen.indices]
        if relabel is not None:
            labels = gm.corrected_labels(screening, given, relabel)[picks]
        probe = fit_linear_probe(data["rows"][picks], labels, strengths=[STRENGTH], max_iter=100)
        found[f"picks_{name}"] = {
            "picks": len(picks),
            "wrong_picks": float((labels != data["labels"][picks]).mean()),
            "corrected_picks": int((labels != given[picks]).sum()),
            "probe": probe.accuracy(data["test_rows"], data["test_labels"]),
        }
        subsets[name] = (picks, labels)
    return {**found, "seconds": time.perf_counter() - began}, subsets


def keep(path: Path, runs: list[dict[str, Any]], trainings: Sequence[dict[str, Any]] = ()) -> None:
    """Write runs to a file, beside those of other sizes, noise and seeds, and what trainings on them gave."""
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"runs": []}
    found = {_key(run): run for run in [*before["runs"], *runs]}
    for training in trainings:
        for one in training["runs"]:
            noise, name, seed = one["subset"].rsplit("/", 2)
            for run in found.values():
                picks = run[f"picks_{name}"]
                if (run["noise"], run["seed"], picks["picks"]) == (noise, int(seed), one["rows"]):
                    picks |= {"from_scratch": one["test_accuracy"], "trained_on": training["device"]}
    content = {"command": COMMAND, "probe_strength": STRENGTH}
    content["machine"] = machine.describe() if runs else before["machine"]
    path.write_text(json.dumps({**content, "runs": [*found.values()]}, indent=1) + "\n", encoding="utf-8")


def _key(run: dict[str, Any]) -> tuple[Any, ...]:
    return run["data"], run["rows"], run["picks_given"]["picks"], run["noise"], run["seed"]


def figure(runs: list[dict[str, Any]], path: Path) -> None:
    """Draw how often suggested labels are right against how probable they are said to be."""
    import matplotlib.pyplot as plt

    picture, axes = plt.subplots(figsize=(4.6, 4.2), layout="constrained")
    axes.plot([0.5, 1.0], [0.5, 1.0], color="0.7", label="as said")
    for run in runs:
        if run["seed"] == 0:
            bins = [one for one in run["bins"] if one["rows"] >= 30]
            axes.plot([one["mean"] for one in bins], [one["right"] for one in bins], "o-", label=run["noise"])
    axes.set(xlabel="probability of the suggested label", ylabel="share that is right")
    axes.legend(frameon=False)
    picture.savefig(path, dpi=110)


def asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.corrected_labels", description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--name", default="", help="of the data, for the JSON file")
    parser.add_argument("--share", type=float, default=0.2, help="of the rows that is picked")
    parser.add_argument("--rows", type=int, help="use the first rows only")
    parser.add_argument("--noise", nargs="*", default=["human", "symmetric 40%"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--figure", type=Path, help="file for the calibration plot")
    parser.add_argument("--picks", type=Path, help=".npz file to write for benchmarks.subset_training")
    parser.add_argument(
        "--trained", type=Path, nargs="*", help="its results, to add to FILE; nothing is measured"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print as it goes, and write the files that were asked for."""
    options = asked(arguments)
    if options.trained:
        keep(options.json, [], [json.loads(path.read_text(encoding="utf-8")) for path in options.trained])
        return
    warnings.simplefilter("ignore", gm.errors.GMMatchWarning)
    data, runs, subsets = load(options.data, options.rows), [], {}
    for noise in options.noise:
        for seed in range(options.seeds):
            given = noisy(data["labels"], noise, data.get("human"), seed)
            if given is None:
                continue
            found, chosen = measure(data, given, options.share, seed)
            runs.append(
                {"data": options.name, "rows": len(data["rows"]), "noise": noise, "seed": seed, **found}
            )
            print(json.dumps(runs[-1]), flush=True)
            for name, (rows, labels) in chosen.items():
                subsets |= {f"rows/{noise}/{name}/{seed}": rows, f"labels/{noise}/{name}/{seed}": labels}
            if options.json is not None:
                keep(options.json, runs)
            if options.picks is not None:
                np.savez_compressed(options.picks, **subsets)
    if options.figure is not None:
        figure(runs, options.figure)


if __name__ == "__main__":
    main()
