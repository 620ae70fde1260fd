"""What stands around the picks: weights, a reference, a budget curve, updates. ``python -m benchmarks.around_picks``.

Each part writes ``benchmarks/results/picks-PART.json``: ``python -m benchmarks.around_picks weights --json``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gmmatch as gm
from benchmarks import machine
from gmmatch import RBF
from gmmatch.metrics import SubsetMetrics, mmd

RESULTS = Path(__file__).parent / "results"
SEEDS = 10


def weights(options: argparse.Namespace) -> list[dict[str, Any]]:
    """100 of 1,000 Gaussian rows by kernel herding: MMD with weights, with swaps, with both, as shares of its own."""
    runs = []
    for size in (2, 8, 64, 512):
        shares = []
        for seed in range(SEEDS):
            rows = np.random.default_rng(seed).standard_normal((1000, size))
            kernel = RBF().fit([rows])

            def error(selection: gm.Selection, rows: Any = rows, kernel: Any = kernel) -> float:
                return mmd(rows[selection.indices], rows, weights=selection.weights, kernel=kernel)

            picks = gm.KernelHerding(k=100).select(rows)
            refined = gm.refine(picks, rows)
            plain, heavy, swapped, both = map(
                error, (picks, gm.weigh(picks, rows), refined, gm.weigh(refined, rows))
            )
            shares.append((heavy / plain, swapped / plain, both / plain))
        means = np.mean(shares, axis=0)
        run = {"dimensions": size, "seeds": SEEDS, "weights": means[0], "swaps": means[1], "both": means[2]}
        run["weights_each"] = [one[0] for one in shares]
        runs.append(run)
        print(json.dumps(run), flush=True)
    return runs


# CIFAR-10's classes as four domains: vehicles; cats and dogs; deer and horses; birds and frogs.
DOMAINS = np.array([0, 0, 3, 1, 2, 1, 3, 2, 0, 0])


def reference(options: argparse.Namespace) -> list[dict[str, Any]]:
    """500 of 10,000 rows of four domains, 300 reference rows of one: whose rows are picked, and how they match."""
    runs = []
    random = np.random.default_rng(0)
    for wanted in range(4):
        # Each domain has five modes, tight ones and wide ones.
        centres = random.standard_normal((4, 1, 32)) + random.standard_normal((4, 5, 32)) / np.sqrt(2.0)
        domain = np.arange(10_000) % 4
        spreads, modes, others = np.linspace(0.4, 0.8, 5), *(random.integers(0, 5, n) for n in (10_000, 300))
        X = centres[domain, modes] + spreads[modes, None] * random.standard_normal((10_000, 32))
        Z = centres[wanted, others] + spreads[others, None] * random.standard_normal((300, 32))
        runs += _follow("Gaussian domains", X.astype(np.float32), domain, Z.astype(np.float32), wanted)
    for path in options.data:
        with np.load(path) as data:
            rows, domains = data["rows"], DOMAINS[data["labels"]]
            others, other_domains = data["test_rows"], DOMAINS[data["test_labels"]]
        parts = [random.choice(np.flatnonzero(domains == one), 2500, replace=False) for one in range(4)]
        pool = np.sort(np.concatenate(parts))
        X = rows[pool].astype(np.float32)
        for wanted in range(4):
            chosen = random.choice(np.flatnonzero(other_domains == wanted), 300, replace=False)
            Z = others[chosen].astype(np.float32)
            runs += _follow("CIFAR-10 classes as domains", X, domains[pool], Z, wanted)
    return runs


def _follow(data: str, X: Any, domain: Any, Z: Any, wanted: int) -> list[dict[str, Any]]:
    kernel, own = RBF().fit([Z]), np.flatnonzero(domain == wanted)
    herding = gm.KernelHerding(k=500, kernel=gm.RandomFeatures(), random_state=0)
    best = gm.refine(herding.select(X[own], reference=Z), X[own], reference=Z)
    least = mmd(X[own[best.indices]], Z, kernel=kernel)
    found = {"nearest neighbors": np.argsort(_distances_to_nearest(X, Z), kind="stable")[:500]}
    picks = herding.select(X, reference=Z)
    found["kernel-herding"] = picks.indices
    found["kernel-herding, refined"] = gm.refine(picks, X, reference=Z).indices
    for method in ("robust", "gm-matching"):
        found[method] = gm.select(X, k=500, method=method, reference=Z, random_state=0).indices
    runs = []
    for name, picks in found.items():
        covered = _distances_to_nearest(X[own], X[picks])
        run = {
            "data": data, "domain": wanted, "method": name,
            "from_domain": float((domain[picks] == wanted).mean()),
            "mmd": mmd(X[picks], Z, kernel=kernel), "best_mmd": least,
            "coverage_mean": float(covered.mean()), "coverage_max": float(covered.max()),
        }  # fmt: skip
        runs.append({**run, "ratio": run["mmd"] / least})
        print(json.dumps(runs[-1]), flush=True)
    return runs


def _distances_to_nearest(rows: Any, others: Any) -> Any:
    from sklearn.metrics import pairwise_distances_argmin_min

    return pairwise_distances_argmin_min(rows, others)[1]


def curve(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Accuracy predicted from rows of the data and measured on test rows at five sizes, and what the curve costs."""
    runs = []
    for path in options.data:
        with np.load(path) as data:
            X, y = data["rows"], data["labels"]
            test = (data["test_rows"], data["test_labels"])
        for method in ("gm-matching", "robust", "random"):
            asked: dict[str, Any] = {"sizes": ["1%", "2%", "5%", "10%", "20%"]}
            selection = gm.select(X, y, k="20%", method=method, random_state=0)
            predicted = gm.budget_curve(selection, X, y, **asked)
            measured = gm.budget_curve(selection, X, y, **asked, test=test)
            run = {
                "data": path.stem.removesuffix("_data"), "rows": len(X), "method": method,
                "sizes": [point.k for point in predicted.of(method)],
                "predicted": [point.accuracy for point in predicted.of(method)],
                "low": [point.low for point in predicted.of(method)],
                "high": [point.high for point in predicted.of(method)],
                "measured": [point.accuracy for point in measured.of(method)],
                "selection_cpu_s": _cpu(lambda: gm.select(X, y=y, k="20%", method=method, random_state=0)),  # noqa: B023
            }  # fmt: skip
            run["curve_cpu_s"] = _cpu(lambda: gm.budget_curve(selection, X, y, **asked))  # noqa: B023
            run["sentence"] = predicted.sentence
            runs.append(run)
            print(json.dumps(run), flush=True)
    return runs


def _cpu(call: Callable[[], Any]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


def update(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Ten updates of a tenth each, beside a selection from all rows; and the time that a million rows take."""
    runs = []
    for path in options.data:
        with np.load(path) as data:
            X, truth = data["rows"], data["labels"]
            human = data["human"] if "human" in data.files else None
        order = np.random.default_rng(0).permutation(len(X))
        X, truth = X[order], truth[order]
        random = np.random.default_rng(1)
        labels = {"none": truth}
        flipped = random.random(len(truth)) < 0.4
        labels["symmetric 40%"] = np.where(flipped, random.integers(0, truth.max() + 1, len(truth)), truth)
        if human is not None:
            labels["human"] = human[order]
        for noise, y in labels.items():
            for method in ("robust", "gm-matching"):
                runs.append({"data": path.stem.removesuffix("_data"), "noise": noise, "method": method})
                runs[-1] |= _ten_updates(X, y, truth, method)
                print(json.dumps(runs[-1]), flush=True)
    for method in ("gm-matching", "robust") if options.rows else ():
        runs.append(_many_rows(method, options.rows))
        print(json.dumps(runs[-1]), flush=True)
    return runs


def _ten_updates(X: Any, y: Any, truth: Any, method: str) -> dict[str, Any]:
    start, step, k = len(X) // 2, len(X) // 20, len(X) // 20
    asked: dict[str, Any] = {"k": k, "method": method, "random_state": 0}
    found = gm.select(X[:start], y=y[:start], **asked)
    for first in range(start, len(X), step):
        found = gm.update(found, X[found.indices], X[first : first + step], y[first : first + step])
    scratch = gm.select(X, y=y, **asked)
    run: dict[str, Any] = {"rows": len(X), "start": start, "step": step, "k": k}
    # To the rows whose label is right, which is what picks should follow.
    with gm.open_rows(X) as rows:
        measure = SubsetMetrics(
            rows, truth.astype(np.int64), reference=y == truth, mmd_rows=len(X), coverage_rows=100
        )
        for name, selection in (("updated", found), ("scratch", scratch)):
            right = selection.indices[(y == truth)[selection.indices]]
            run[name] = {
                "mmd": measure.measure(right).mmd,
                "wrong": float((y != truth)[selection.indices].mean()),
            }
    return run


def _many_rows(method: str, n: int) -> dict[str, Any]:
    """Seconds for ``n`` new rows of 512 numbers in ten classes, a tenth of them mislabeled; 10,000 picks."""
    random = np.random.default_rng(0)
    centres = 0.35 * random.standard_normal((10, 512), dtype=np.float32)
    y = random.integers(0, 10, n + 100_000)
    X = random.standard_normal((n + 100_000, 512), dtype=np.float32)
    X += centres[y]
    y = np.where(random.random(len(y)) < 0.1, random.integers(0, 10, len(y)), y)
    selection = gm.select(X[:100_000], y=y[:100_000], k=10_000, method=method, random_state=0)
    begin, began = time.perf_counter(), time.process_time()
    gm.update(selection, X[selection.indices], X[100_000:], y[100_000:])
    return {
        "method": method, "new_rows": n, "columns": 512, "picks": 10_000,
        "seconds": time.perf_counter() - begin, "cpu_s": time.process_time() - began,
    }  # fmt: skip


PARTS: dict[str, Callable[[argparse.Namespace], list[dict[str, Any]]]] = {
    "weights": weights,
    "reference": reference,
    "curve": curve,
    "update": update,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure one part, and write its JSON file if that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.around_picks", description=__doc__)
    parser.add_argument("part", choices=sorted(PARTS))
    parser.add_argument("--data", type=Path, nargs="*", default=[], help=".npz files with rows and labels")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the timed update; 0 for none")
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
