"""Does `gm.screen(None, y, pred_probs=P)` find wrong labels by the probabilities of somebody else's model?

``python -m benchmarks.pred_probs REPOSITORY`` reads a clone of github.com/cleanlab/label-error-detection-benchmarks:
out-of-fold probabilities of five networks for CIFAR-10 with simulated noise, CIFAR-10N (aggregate and worst) and
roman-numeral; those for Food-101N are not in it. Next to it: a label is wrong where the network predicts another
(disagreement), and cleanlab's default, if it is installed.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import gmmatch as gm
from benchmarks import machine

COMMAND = "python -m benchmarks.pred_probs label-error-detection-benchmarks --json benchmarks/results/pred-probs.json"


def f1(named: Any, wrong: Any) -> float:
    """Return the F1 of the rows that were named."""
    return float(2.0 * (named & wrong).sum() / max(1, named.sum() + wrong.sum()))


def measure(folder: Path) -> dict[str, Any]:
    """Return the figures of one network on one data set."""
    p, mask = np.load(folder / "pred_probs.npy"), folder / "label_errors_mask.npy"
    given = np.load(folder / ("labels.npy" if mask.exists() else "noisy_labels.npy"))
    wrong = np.load(mask) if mask.exists() else given != np.load(folder / "true_labels.npy")
    result = gm.screen(None, given, pred_probs=p, random_state=0)
    named = np.isin(result.verdict, ("wrong", "doubtful"))
    assert result.noise_interval is not None and result.noise_rate is not None
    low, high = result.noise_interval
    found = {
        "data": folder.parent.name,
        "network": folder.name.partition("_cv_")[2],
        "rows": len(given),
        "noise": float(wrong.mean()),
        "noise_rate": result.noise_rate,
        "noise_interval": [low, high],
        "f1": f1(named, wrong),
        "f1_disagreement": f1(p.argmax(axis=1) != given, wrong),
    }
    if find_spec("cleanlab") is not None:
        from cleanlab.filter import find_label_issues

        found["f1_cleanlab"] = f1(find_label_issues(given, p, n_jobs=1), wrong)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all sets, print as it goes, and write the file that was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pred_probs", description=__doc__)
    parser.add_argument("repository", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", gm.errors.GMMatchWarning)
    surroundings, runs = machine.describe(), []
    for path in sorted(options.repository.rglob("pred_probs.npy")):
        runs.append(measure(path.parent))
        print(json.dumps(runs[-1]), flush=True)
    if options.json is not None:
        content = {"command": COMMAND, "machine": surroundings, "runs": runs}
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
