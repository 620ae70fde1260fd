"""``python -m benchmarks.screening_images``: how many spoilt images of each kind are among the picks?

Some images of a labelled set are spoilt, each in one of five ways, and their embeddings take the place of the
clean ones; then a subset is picked. Making the files: ``gmmatch.corruption.ImageCorruption`` spoils the images (a
higher rate spoils the same ones and more), and any encoder embeds them.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gmmatch as gm
from benchmarks import machine
from benchmarks.screening_labels import noisy_labels

METHODS = ("robust", "random", "easy", "moderate", "herding", "kernel-herding", "gm-matching")
CASES = ((0.0, 0.0), (0.2, 0.0), (0.4, 0.0), (0.2, 0.2))


def measure(options: argparse.Namespace, rate: float, noise: float, share: float) -> dict[str, Any]:
    """Return the share of each kind in the data and among every method's picks, and what was screened out."""
    rows = np.load(options.train).astype(np.float32)[: options.rows]
    labels = np.load(options.labels)["train"].astype(np.int64)[: options.rows]
    spoilt = np.load(options.spoilt)
    chosen = spoilt["rates"] <= rate
    rows[spoilt["rows"][chosen]] = spoilt["embeddings"][chosen].astype(np.float32)
    kinds = np.full(len(rows), "", dtype=object)
    kinds[spoilt["rows"][chosen]] = spoilt["kinds"][chosen].astype(object)
    # Another seed than the images' own, which would make the labels of the spoilt images wrong and no others.
    given = noisy_labels(labels, str(noise), None, options.seed + 1)
    names = sorted(set(kinds) - {""})
    found: dict[str, Any] = {"spoilt": rate, "label_noise": noise, "share": share}
    found["in_the_data"] = {name: float(np.mean(kinds == name)) for name in names}
    found["picks"] = {}
    for method in METHODS:
        selection = gm.select(rows, y=given, k=share, method=method, random_state=options.seed)
        picked = kinds[selection.indices]
        found["picks"][method] = {name: float(np.mean(picked == name)) for name in names}
        found["picks"][method]["wrong labels"] = float(np.mean((given != labels)[selection.indices]))
        if selection.screening is not None:
            kept, clean = selection.screening.kept, (kinds == "") & (given == labels)
            found["clean_dropped"] = float(1.0 - kept[clean].mean())
            found["kept"] = {name: float(np.mean(kinds[kept] == name)) for name in names}
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write the JSON file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.screening_images", description=__doc__)
    parser.add_argument("--train", type=Path, required=True, help=".npy file of the clean images' embeddings")
    parser.add_argument("--labels", type=Path, required=True, help=".npz file with labels, train")
    parser.add_argument(
        "--spoilt", type=Path, required=True,
        help=".npz file: embeddings, rows (which image), kinds, rates (the least rate at which it is spoilt)",
    )  # fmt: skip
    parser.add_argument("--rows", type=int, default=16_000)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.1])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="file to write")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", gm.errors.GMMatchWarning)
    surroundings = machine.describe()
    cases = []
    for rate, noise in CASES:
        for share in options.shares:
            cases.append(measure(options, rate, noise, share))
            print(json.dumps(cases[-1], indent=1), flush=True)
    if options.json is not None:
        content = {
            "command": "python -m benchmarks.screening_images --train TRAIN.npy --labels LABELS.npz "
            f"--spoilt SPOILT.npz --json {options.json.as_posix()}",
            "settings": {
                "rows": options.rows, "seed": options.seed, "severity": 3,
                "embeddings": "ResNet-50 (ImageNet), the mean of its third stage, CIFAR-10 at 96 pixels",
            },
            "cases": cases, "machine": surroundings,
        }  # fmt: skip
        options.json.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
