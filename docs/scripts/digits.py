"""``python -m docs.scripts.digits``: what each method picks from digits of which 35% are mislabeled."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import gmmatch as gm
from docs.scripts.results import ROOT, cite, load, table

RESULTS = "docs/results/digits.json"
COMMAND = "python -m docs.scripts.digits"
ALL_ROWS, CLEAN_ROWS = "all noisy rows", "as many clean rows, at random"
# What the code of the paper's authors does, which is not what the paper's text says.
UNIT_LENGTH = "gm-matching (unit length)"
NAMES = (
    "robust",
    "gm-matching",
    UNIT_LENGTH,
    "kernel-herding",
    "herding",
    "moderate",
    "easy",
    "random",
    "hard",
)
MISLABELED, SHARE, N_TEST, SEEDS = 0.35, 0.1, 540, 5
FIGURES = ("contamination", "moment_error", "mmd", "accuracy")


def measure(seed: int) -> dict[str, list[float]]:
    """Return the figures of every method on one version of the labels; the test rows are always the same."""
    images, labels = load_digits(return_X_y=True)
    test = gm.select(images, labels, k=N_TEST, method="random", random_state=0).mask
    X, y, X_test = images[~test] / 16.0, labels[~test], images[test] / 16.0
    random, wrong = np.random.default_rng(seed), np.zeros(len(y), dtype=bool)
    wrong[random.choice(len(y), size=round(MISLABELED * len(y)), replace=False)] = True
    y[wrong] = (y[wrong] + random.integers(1, 10, size=wrong.sum())) % 10

    def pick(name: str) -> Any:
        options: dict[str, Any] = {"random_state": seed, "method": name}
        if name == UNIT_LENGTH:
            options |= {
                "method": "gm-matching",
                "target": gm.GeometricMedian(unit=True),
                "preprocess": "unit",
            }
        if name in (ALL_ROWS, CLEAN_ROWS):
            options |= {"method": "random", "exclude": wrong if name == CLEAN_ROWS else None}
        return gm.select(X, y, k=1.0 if name == ALL_ROWS else round(SHARE * len(y)), **options).indices

    figures = {}
    for name in (*NAMES, ALL_ROWS, CLEAN_ROWS):
        picks = pick(name)
        pairs = [(X[picks[y[picks] == label]], X[~wrong & (y == label)]) for label in range(10)]
        errors = np.mean([[gm.metrics.moment_error(*pair), gm.metrics.mmd(*pair)] for pair in pairs], axis=0)
        model = LogisticRegression(max_iter=2000).fit(X[picks], y[picks])
        figures[name] = [wrong[picks].mean(), *errors, model.score(X_test, labels[test])]
    return figures


def digits_row(label: str) -> dict[str, Any]:
    """Return the figures of a method."""
    (row,) = (one for one in load(RESULTS)["rows"] if one["label"] == label)
    return dict(row)


def tables() -> str:
    """Return mislabeled picks, MMD and test accuracy of each method, the best classifier first."""

    def format_share(figure: dict[str, float]) -> str:
        return f"{100 * figure['mean']:.1f} ± {100 * figure['deviation']:.1f}%"

    rows = [
        [
            row["label"],
            format_share(row["contamination"]),
            f"{row['mmd']['mean']:.3f}",
            format_share(row["accuracy"]),
        ]
        for row in sorted(load(RESULTS)["rows"], key=lambda row: -row["accuracy"]["mean"])
    ]
    heads = ["kept by", "mislabeled", "MMD", "test accuracy"]
    return f"{table(heads, rows)}\n\n`{COMMAND}`, kept in {cite(RESULTS)}."


def main() -> None:
    """Measure all versions, and write their means and deviations."""
    versions, rows = [measure(seed) for seed in range(SEEDS)], []
    for name in versions[0]:
        values = np.array([figures[name] for figures in versions])
        summary = zip(FIGURES, values.mean(axis=0).tolist(), values.std(axis=0, ddof=1).tolist(), strict=True)
        cells = {
            key: {"mean": round(mean, 6), "deviation": round(deviation, 6)}
            for key, mean, deviation in summary
        }
        rows.append({"label": name, **cells})
    content = {"command": COMMAND, "seeds": SEEDS, "gmmatch": version("gmmatch"), "rows": rows}
    (ROOT / RESULTS).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
