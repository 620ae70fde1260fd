"""``python -m benchmarks.screening_gaussian``: does ``robust`` pick what the clean rows look like?

A clean Gaussian, and in place of a share ψ of its rows: one far cluster, two clusters, a shell, a single row at a
distance of 10⁶, heavy tails around the clean centre, a cluster three standard deviations away, rows shifted by √d, a
point mass, or copies of one clean row. In 2 dimensions the clean Gaussian and the far cluster are the paper's. Last
come ten clean clusters without labels, of which nothing should be dropped.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from scipy.special import gammaln

import gmmatch as gm
from benchmarks import machine
from gmmatch.metrics import mmd

KINDS = (
    "far cluster", "two clusters", "shell", "single row", "heavy tails", "overlap", "shift", "point mass",
    "copied row",
)  # fmt: skip
OVERLAPPING = ("heavy tails", "overlap")
SHARES = (0.0, 0.2, 0.4, 0.45)
_TAIL_FREEDOM, _TAIL_SCALE = 2.0, 3.0
_OVERLAP = 3.0


def shape_of(dimensions: int) -> NDArray[np.float64]:
    """Return a root of the clean covariance."""
    if dimensions == 2:
        return np.linalg.cholesky(np.array([[1.0, -0.5], [-0.5, 0.5]]))
    return np.eye(dimensions)


def draw(
    n: int, dimensions: int, share: float, kind: str, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return rows in random order, and which of them are corrupt."""
    random = np.random.default_rng(seed)
    bad = round(share * n)
    if kind == "single row":
        bad = min(bad, 1)
    root = shape_of(dimensions)
    clean = random.standard_normal((n - bad, dimensions)) @ root.T
    noise = random.standard_normal((bad, dimensions))
    first, second = np.eye(dimensions)[:2]
    far = 10.0 * np.sqrt(dimensions / 2.0)
    if kind == "far cluster":
        corrupt = noise @ root.T + (np.array([10.0, 6.0]) if dimensions == 2 else far * first)
    elif kind == "two clusters":
        corrupt = noise + np.where(random.random((bad, 1)) < 0.5, far * first, -far * second)
    elif kind == "shell":
        corrupt = far * noise / np.linalg.norm(noise, axis=1, keepdims=True)
    elif kind == "single row":
        corrupt = np.full((bad, dimensions), 1e6 / np.sqrt(dimensions))
    elif kind == "shift":
        corrupt = noise @ root.T + max(np.sqrt(dimensions), 6.0) * first
    elif kind == "point mass":
        corrupt = np.full((bad, dimensions), 3.0)
    elif kind == "copied row":
        corrupt = np.tile(clean[0], (bad, 1))
    elif kind == "heavy tails":
        shrink = np.sqrt(random.chisquare(_TAIL_FREEDOM, (bad, 1)) / _TAIL_FREEDOM)
        corrupt = _TAIL_SCALE * (noise @ root.T) / shrink
    else:
        corrupt = noise @ root.T + _OVERLAP * root @ first
    order = random.permutation(n)
    return np.vstack([clean, corrupt])[order], (np.arange(n) >= n - bad)[order]


def likelihood_ratio_keeps(rows: NDArray[np.float64], share: float, kind: str) -> NDArray[np.bool_]:
    """Return what a rule that knows both densities and ψ would let in: rows more likely clean than not."""
    width = rows.shape[1]
    white = np.linalg.solve(shape_of(width), rows.T).T
    squares = (white**2).sum(axis=1)
    clean = -0.5 * squares - 0.5 * width * np.log(2.0)
    if kind == "overlap":
        corrupt = -0.5 * ((white - _OVERLAP * np.eye(width)[0]) ** 2).sum(axis=1) - 0.5 * width * np.log(2.0)
    else:
        freedom = _TAIL_FREEDOM
        corrupt = (
            gammaln((freedom + width) / 2) - gammaln(freedom / 2) - width / 2 * np.log(freedom)
            - width * np.log(_TAIL_SCALE)
            - (freedom + width) / 2 * np.log1p(squares / _TAIL_SCALE**2 / freedom)
        )  # fmt: skip
    return np.log1p(-share) + clean > np.log(share) + corrupt


def one_case(n: int, k: int, dimensions: int, share: float, kind: str, seed: int) -> dict[str, float]:
    """Return contamination and distance to the clean rows for ``robust`` and for others."""
    rows, bad = draw(n, dimensions, share, kind, seed)
    clean = rows[~bad]
    kernel = (
        gm.RBF(bandwidth=1.0) if dimensions == 2 else gm.RBF(bandwidth=float(np.median(pdist(clean[:500]))))
    )
    start = time.process_time()
    robust = gm.Robust(k=k, random_state=seed).select(rows)
    seconds = time.process_time() - start
    oracle = gm.KernelHerding(k=k).select(clean)
    linear = gm.GMMatching(k=k).select(rows) if kind != "single row" else None
    assert robust.screening is not None
    dropped = robust.screening.verdict == "wrong"
    found = {
        "contamination": float(bad[robust.indices].mean()),
        "mmd": mmd(rows[robust.indices], clean, kernel=kernel),
        "oracle_mmd": mmd(clean[oracle.indices], clean, kernel=kernel),
        "let_in": int((bad & ~dropped).sum()),
        "clean_dropped": float(dropped[~bad].mean()),
        "seconds": seconds,
    }
    if linear is not None:
        found["gm_matching_contamination"] = float(bad[linear.indices].mean())
        found["gm_matching_mmd"] = mmd(rows[linear.indices], clean, kernel=kernel)
    if kind in OVERLAPPING and share > 0.0:
        found["ratio_rule_let_in"] = int((likelihood_ratio_keeps(rows, share, kind) & bad).sum())
    return found


def measure(n: int, k: int, dimensions: Sequence[int], seeds: int) -> list[dict[str, Any]]:
    """Return the means over the seeds for every case."""
    found = []
    for width in dimensions:
        for kind in KINDS:
            for share in SHARES:
                if share == 0.0 and kind != KINDS[0]:
                    continue
                runs = [one_case(n, k, width, share, kind, seed) for seed in range(seeds)]
                means = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
                case = {"dimensions": width, "kind": kind if share else "none", "share": share, **means}
                found.append(case)
                print(
                    f"{width:4d} {case['kind']:13s} ψ {share:4.2f}  contamination {means['contamination']:.4f}"
                    f"  MMD / oracle {means['mmd'] / means['oracle_mmd']:.2f}"
                    f"  clean dropped {means['clean_dropped']:.3f}"
                    + (f"  let in {means['let_in']:.0f} of {means['ratio_rule_let_in']:.0f}"
                       if "ratio_rule_let_in" in means else ""),
                    flush=True,
                )  # fmt: skip
    for width in dimensions:
        dropped = []
        for seed in range(seeds):
            random = np.random.default_rng(seed)
            centers = 12.0 * random.standard_normal((10, width))
            rows = random.standard_normal((n, width)) + centers[np.arange(n) % 10]
            dropped.append((gm.screen(rows).verdict == "wrong").mean())
        found.append(
            {
                "dimensions": width,
                "kind": "ten clusters",
                "share": 0.0,
                "clean_dropped": float(np.mean(dropped)),
            }
        )
        print(f"{width:4d} ten clusters  clean dropped {np.mean(dropped):.3f}", flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write the JSON file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.screening_gaussian", description=__doc__)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--picks", type=int, default=100)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[2, 64, 512, 1024])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="file to write")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", gm.errors.GMMatchWarning)
    surroundings = machine.describe()
    cases = measure(options.rows, options.picks, options.dimensions, options.seeds)
    if options.json is not None:
        settings = {"rows": options.rows, "picks": options.picks, "seeds": options.seeds}
        content = {
            "command": "python -m benchmarks.screening_gaussian --json benchmarks/results/screening-gaussian.json",
            "settings": settings, "cases": cases, "machine": surroundings,
        }  # fmt: skip
        options.json.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
