"""``python -m benchmarks.corrupted_rows``: are corrupted rows found, and are the others left alone?

A share of the rows is replaced by something else, with labels at random where there are labels: hidden shapes without
labels, embeddings that are negated, shrunk, copied or of other classes, and digits that are shuffled, blank, rotated
or inverted. Clean data and label noise stand beside them: nothing of those should be dropped as rows.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gmmatch as gm
from benchmarks import machine
from benchmarks.noise_cells import corrupt_labels, load_table, tables_are_installed

Matrix, Labels, Mask = NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]

SHAPES = (
    "cluster", "moon", "line", "copies", "three clusters", "wide noise", "shell", "negated", "shrunk", "equal norm",
)  # fmt: skip
SHARES = (0.05, 0.2, 0.4)
EMBEDDING_FAULTS = ("negated", "shrunk", "copies", "other classes")
DIGIT_FAULTS = ("shuffled", "blank", "rotated", "inverted")
CLEAN_TABLES = ("digits", "breast cancer", "wine", "satimage", "segment", "texture", "vowel")
LABEL_NOISES = ("sym=0.2", "sym=0.4", "pair=0.4", "idn=0.2")


@dataclass(frozen=True, eq=False)
class Case:
    """Rows, which of them are corrupted, and labels or None."""

    name: str
    rows: Matrix
    bad: Mask
    labels: Labels | None = None


def draw_shape(shape: str, n: int, clean: Matrix, random: np.random.Generator) -> Matrix:
    """Return corrupted rows: something else in the space of the clean ones."""
    d, center, spread = clean.shape[1], clean.mean(axis=0), clean.std(axis=0)
    some = clean[random.integers(0, len(clean), n)]
    noise, first, second = random.standard_normal((n, d)), *np.eye(d)[:2]
    far = 2.5 * np.sqrt(d) * spread.mean()
    if shape == "cluster":
        return center + far * first + 0.5 * spread * noise
    if shape == "moon":
        angle = random.uniform(0.0, np.pi, n)[:, None]
        return center + far * (np.cos(angle) * first + np.sin(angle) * second) + 0.2 * spread * noise
    if shape == "line":
        return center + random.uniform(1.0, 3.0, (n, 1)) * far * first + 0.1 * spread * noise
    if shape == "copies":
        return clean[0] + 0.5 * spread + 1e-3 * noise
    if shape == "three clusters":
        return center + far * np.eye(d)[random.integers(0, 3, n)] + 0.4 * spread * noise
    if shape == "wide noise":
        return center + 3.0 * spread * noise
    if shape == "negated":
        return -some
    if shape == "shrunk":
        return center + 0.1 * (some - center)
    radius = np.linalg.norm(spread) if shape == "equal norm" else 3.0 * np.linalg.norm(spread)
    if shape == "equal norm":
        noise *= 1.0 + 9.0 * (np.arange(d) < 3)
    return center + radius * noise / np.linalg.norm(noise, axis=1, keepdims=True)


def unlabeled_cases(n: int, seed: int) -> Iterator[Case]:
    """Yield hidden shapes in correlated rows with a mean, and clean rows of several laws."""
    random = np.random.default_rng(seed)
    mixing = random.standard_normal((32, 32)) / np.sqrt(32) + np.eye(32)
    normal = (2.0 + random.standard_normal((n, 32))) @ mixing
    for share in SHARES:
        for shape in SHAPES:
            rows, bad = normal.copy(), random.permutation(n) < round(share * n)
            rows[bad] = draw_shape(shape, int(bad.sum()), normal[~bad], random)
            yield Case(f"{shape}, {share:.0%}", rows, bad)
    laws = {
        "normal": normal,
        "heavy tails": random.standard_t(3, (n, 32)),
        "cube": random.uniform(-1.0, 1.0, (n, 32)),
        "skewed": np.exp(random.standard_normal((n, 32))),
    }
    for name, rows in laws.items():
        yield Case(f"clean: {name}", rows, np.zeros(n, dtype=bool))


def labeled_cases(n: int, seed: int) -> Iterator[Case]:
    """Yield embeddings of ten classes with a fault in 30% of the rows, and classes of two kinds without one."""
    random = np.random.default_rng([seed, 1])
    centers = random.standard_normal((20, 32))
    for fault in EMBEDDING_FAULTS:
        labels, bad = random.integers(0, 10, n), random.random(n) < 0.3
        rows = 1.0 + centers[labels] + random.standard_normal((n, 32))
        if fault == "other classes":
            others = 10 + random.integers(0, 10, n)
            rows[bad] = (1.0 + centers[others] + random.standard_normal((n, 32)))[bad]
        else:
            rows[bad] = draw_shape(fault, int(bad.sum()), rows[~bad], random)
        labels[bad] = random.integers(0, 10, int(bad.sum()))
        yield Case(f"{fault}, 30%", rows, bad, labels)
    labels = random.integers(0, 10, n)
    rows = centers[labels + 10 * (random.random(n) < 0.4)] + random.standard_normal((n, 32))
    yield Case("clean: classes of two kinds", rows, np.zeros(n, dtype=bool), labels)


def digit_cases(seed: int) -> Iterator[Case]:
    """Yield digits with a fault in 30% of them, and labels of those at random or as they were."""
    pixels, labels = load_table("digits", 1797, seed)
    images = pixels.reshape(-1, 8, 8).astype(np.float64)
    random = np.random.default_rng([seed, 2])
    for fault in DIGIT_FAULTS:
        bad, faulty = random.random(len(images)) < 0.3, images.copy()
        if fault == "shuffled":
            faulty = random.permuted(faulty.reshape(-1, 64), axis=1).reshape(-1, 8, 8)
        elif fault == "blank":
            faulty = random.integers(0, 3, faulty.shape).astype(np.float64)
        elif fault == "rotated":
            faulty = np.rot90(faulty, axes=(1, 2))
        else:
            faulty = 16.0 - faulty
        given = np.where(bad, random.integers(0, 10, len(images)), labels)
        rows = np.where(bad[:, None, None], faulty, images).reshape(-1, 64)
        yield Case(f"digits {fault}, 30%", rows, bad, given)
        yield Case(f"digits {fault}, 30%, right labels", rows, bad, labels)


def clean_cases(seed: int) -> Iterator[Case]:
    """Yield tables with right labels, and with wrong ones: no row is corrupted."""
    for table in CLEAN_TABLES:
        if table not in ("digits", "breast cancer", "wine") and not tables_are_installed():
            continue
        rows, labels = load_table(table, 2000, seed)
        rows = rows.astype(np.float64)
        bad = np.zeros(len(rows), dtype=bool)
        yield Case(f"clean: {table}", rows, bad, labels)
        yield Case(f"clean: {table}, no labels", rows, bad)
        for noise in LABEL_NOISES:
            kind, _, rate = noise.partition("=")
            if kind == "pair" and labels.max() == 1:
                continue
            given = corrupt_labels(rows.astype(np.float32), labels, kind, float(rate), seed)
            yield Case(f"label noise {noise}: {table}", rows, bad, given)


def measure(case: Case, seed: int) -> dict[str, Any]:
    """Return what was found, what was lost, and how many of 10% picks are corrupted."""
    start = time.process_time()
    selection = gm.select(case.rows, case.labels, k="10%", random_state=seed)
    seconds = time.process_time() - start
    assert selection.screening is not None
    # Mislabeled rows are the business of the label part.
    reasons = ("outlier", "out of distribution")
    lost = np.isin(selection.screening.reason, reasons) & (selection.screening.verdict == "wrong")
    apart = selection.screening.reason == "group"
    result = {
        "clean_lost": float(lost[~case.bad].mean()),
        "clean_apart": float(apart[~case.bad].mean()),
        "seconds": round(seconds, 2),
    }
    if case.bad.any():
        found = (lost | apart | (selection.screening.verdict != "trusted"))[case.bad]
        result |= {
            "recall": float(lost[case.bad].mean()),
            "not_trusted": float(found.mean()),
            "bad_picks": float(case.bad[selection.indices].mean()),
        }
    return {key: round(value, 4) for key, value in result.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print each case, and write the JSON file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.corrupted_rows", description=__doc__)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    runs = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(options.seeds):
            for kind, cases in (
                ("hidden shapes", unlabeled_cases(options.rows, seed)),
                ("faults of embeddings", labeled_cases(options.rows, seed)),
                ("faults of images", digit_cases(seed)),
                ("clean", clean_cases(seed)),
            ):
                for case in cases:
                    runs.append({"kind": kind, "case": case.name, "seed": seed, **measure(case, seed)})
                    print(" ".join(f"{key} {value}" for key, value in runs[-1].items()), flush=True)
    if options.json is not None:
        head = json.dumps({"machine": machine.describe(), "rows": options.rows, "seeds": options.seeds})
        lines = ",\n".join(f"  {json.dumps(run)}" for run in runs)
        options.json.write_text(f'{head[:-1]},\n "runs": [\n{lines}\n ]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
