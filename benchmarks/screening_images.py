"""``python -m benchmarks.screening_images``: how many spoilt images of each kind are among the picks?

Some images of a labelled set are spoilt, each in one of five ways, and their embeddings take the place of the
clean ones; then a subset is picked. Making the files: ``gmmatch_paper.corruption.ImageCorruption`` spoils the images
(a higher rate spoils the same ones and more), and any encoder embeds them. ``--alone`` puts all images of one kind
among so many clean ones that they make up a share of the data, a kind at a time.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Sequence
from functools import partial
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


def measure_alone(options: argparse.Namespace, kind: str, rate: float) -> dict[str, Any]:
    """Return how much of a kind that is the only one ``robust`` picks, for its share in the data, and screens out."""
    spoilt = np.load(options.spoilt)
    mine = np.flatnonzero(spoilt["kinds"] == kind)
    originals = spoilt["rows"][mine]
    random = np.random.default_rng(options.seed)
    clean = np.load(options.train, mmap_mode="r")
    others = random.permutation(np.setdiff1d(np.arange(len(clean)), originals))
    others = np.sort(others[: round(len(mine) / rate) - len(mine)])
    rows = np.concatenate([spoilt["embeddings"][mine], clean[others]]).astype(np.float32)
    labels = np.load(options.labels)["train"].astype(np.int64)[np.concatenate([originals, others])]
    order = random.permutation(len(rows))
    bad = order < len(mine)
    selection = gm.select(rows[order], y=labels[order], k=0.2, method="robust", random_state=options.seed)
    assert selection.screening is not None
    dropped = ~selection.screening.kept
    return {
        "kind": kind, "rate": rate, "rows": len(rows),
        "picked": float(bad[selection.indices].mean() / bad.mean()),
        "dropped": float(dropped[bad].mean()), "clean_dropped": float(dropped[~bad].mean()),
    }  # fmt: skip


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
    parser.add_argument(
        "--alone", type=float, nargs="+", help="shares of one kind at a time, in place of all of them"
    )
    parser.add_argument("--json", type=Path, help="file to write")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", gm.errors.GMMatchWarning)
    surroundings = machine.describe()
    cases = []
    if options.alone:
        work = [
            partial(measure_alone, options, kind, rate)
            for kind in np.unique(np.load(options.spoilt)["kinds"]).tolist()
            for rate in options.alone
        ]
    else:
        work = [
            partial(measure, options, rate, noise, share) for rate, noise in CASES for share in options.shares
        ]
    for one in work:
        cases.append(one())
        print(json.dumps(cases[-1], indent=1), flush=True)
    if options.json is not None:
        alone = f"--alone {' '.join(map(str, options.alone))} " if options.alone else ""
        content = {
            "command": "python -m benchmarks.screening_images --train TRAIN.npy --labels LABELS.npz "
            f"--spoilt SPOILT.npz {alone}--json {options.json.as_posix()}",
            "settings": {
                "rows": options.rows, "seed": options.seed, "severity": 3,
                "embeddings": "ResNet-50 (ImageNet), the mean of its third stage, CIFAR-10 at 96 pixels",
            },
            "cases": cases, "machine": surroundings,
        }  # fmt: skip
        options.json.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
