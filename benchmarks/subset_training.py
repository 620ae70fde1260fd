"""What a network learns from scratch on given subsets: test accuracy by subset and seed, on a GPU.

python -m benchmarks.subset_training cifar10.npz subsets.npz --output results.json

``subsets.npz`` holds, for every subset NAME, its row numbers as ``rows/NAME`` and the labels to train with as
``labels/NAME``.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from benchmarks import machine
from gmmatch_paper.training.images import put_images
from gmmatch_paper.training.loop import train
from gmmatch_paper.training.recipes import FAST


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.subset_training", description=__doc__)
    parser.add_argument("data", type=Path, help="x_train, x_test, y_test in one .npz file")
    parser.add_argument("subsets", type=Path)
    parser.add_argument("--name", default="", help="of the data, for the JSON file")
    parser.add_argument("--network", default="resnet18")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each subset")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    arrays, subsets = np.load(options.data), np.load(options.subsets)
    images = arrays["x_train"]
    names = sorted(key.removeprefix("rows/") for key in subsets.files if key.startswith("rows/"))
    whole = put_images(images, np.zeros(len(images), dtype=np.int64), device="cuda")
    test = put_images(
        arrays["x_test"], arrays["y_test"], device="cuda", mean=whole.mean, deviation=whole.deviation
    )
    runs = []
    begin = time.perf_counter()
    for name in names:
        for seed in range(options.seeds):
            chosen = put_images(
                images[subsets[f"rows/{name}"]],
                subsets[f"labels/{name}"],
                device="cuda",
                mean=whole.mean,
                deviation=whole.deviation,
            )
            done = train(
                options.network,
                chosen,
                None,
                test_images=test,
                recipe=FAST,
                seed=seed,
                n_classes=int(arrays["y_test"].max()) + 1,
            )
            runs.append(
                {
                    "data": options.name,
                    "subset": name,
                    "seed": seed,
                    "rows": len(chosen),
                    "epochs": len(done.history),
                    "test_accuracy": done.accuracy,
                    "seconds": done.seconds,
                }
            )
            print(runs[-1], flush=True)
            results = {
                "network": options.network,
                "recipe": asdict(FAST),
                "device": torch.cuda.get_device_name(),
                "torch": torch.__version__,
                "machine": machine.describe(),
                "trainings_per_minute": 60 * len(runs) / (time.perf_counter() - begin),
                "runs": runs,
            }
            if options.output:
                options.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
