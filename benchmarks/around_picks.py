"""What stands around the picks: weights. ``python -m benchmarks.around_picks``.

Each part writes ``benchmarks/results/picks-PART.json``: ``python -m benchmarks.around_picks weights --json``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gmmatch as gm
from benchmarks import machine
from gmmatch.kernels.kernels import RBF
from gmmatch.metrics import mmd

RESULTS = Path(__file__).parent / "results"
SEEDS = 10


def weights(options: argparse.Namespace) -> list[dict[str, Any]]:
    """100 of 1,000 Gaussian rows by kernel herding: MMD with weights, with swaps, with both, as shares of its own."""
    runs = []
    for size in (2, 8, 64, 512):
        shares = []
        for seed in range(SEEDS):
            rows = np.random.default_rng(seed).standard_normal((1000, size))
            kernel = RBF().fit(rows)

            def error(selection: gm.Selection, rows: Any = rows, kernel: Any = kernel) -> float:
                return mmd(rows[selection.indices], rows, weights=selection.weights, kernel=kernel)

            plain, heavy, swapped, both = (
                error(gm.KernelHerding(k=100, weights=weighted, refine=sweeps).select(rows))
                for weighted, sweeps in ((False, 0), (True, 0), (False, 10), (True, 10))
            )
            shares.append((heavy / plain, swapped / plain, both / plain))
        means = np.mean(shares, axis=0)
        run = {"dimensions": size, "seeds": SEEDS, "weights": means[0], "swaps": means[1], "both": means[2]}
        run["weights_each"] = [one[0] for one in shares]
        runs.append(run)
        print(json.dumps(run), flush=True)
    return runs


PARTS: dict[str, Callable[[argparse.Namespace], list[dict[str, Any]]]] = {"weights": weights}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure one part, and write its JSON file if that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.around_picks", description=__doc__)
    parser.add_argument("part", choices=sorted(PARTS))
    parser.add_argument("--data", type=Path, nargs="*", default=[], help=".npz files with rows and labels")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    runs = PARTS[options.part](options)
    if options.json:
        data = " --data DATA.npz ..." if options.data else ""
        command = f"python -m benchmarks.around_picks {options.part}{data} --json"
        document = {"command": command, "machine": machine.describe(), "runs": runs}
        path = RESULTS / f"picks-{options.part}.json"
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
