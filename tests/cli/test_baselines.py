"""The methods that learn from the rows first, through the command line and the guide that explains them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import gmmatch as gm

GUIDE = Path(__file__).parents[2] / "docs/guides/training-dynamics.md"
# The paper's list.
PAPER = (
    "random", "easy", "hard", "moderate", "kernel-herding", "forgetting", "grand", "el2n", "optimization",
    "self-supervised", "gm-matching",
)  # fmt: skip


def needs_torch():
    return pytest.importorskip("torch", reason="needs the extra gmmatch[torch]")


def test_every_method_of_the_paper_compares_on_noisy_digits(tmp_path, succeeds):
    needs_torch()
    from sklearn.datasets import load_digits

    X, true = load_digits(return_X_y=True)
    X, true = X[:300], true[:300]
    random = np.random.default_rng(0)
    given = np.where(random.random(300) < 0.2, (true + random.integers(1, 10, 300)) % 10, true)
    np.savez(tmp_path / "digits.npz", x=X, label=given)
    np.save(tmp_path / "true.npy", true)
    found = succeeds(
        "compare", tmp_path / "digits.npz", "-k", "20%", "--methods", ",".join(PAPER),
        "--truth", tmp_path / "true.npy", "--json",
    )  # fmt: skip
    assert [row["method"] for row in found["rows"]] == list(PAPER)
    assert {row["k"] for row in found["rows"]} == {60}
    wrong = {row["method"]: row["contamination"] for row in found["rows"]}
    for method in ("forgetting", "grand", "el2n"):
        assert wrong[method] > 2 * found["wrong_labels"]
    assert wrong["easy"] < 0.5 * found["wrong_labels"]
    again = gm.select(X, y=given, k="20%", method="el2n", random_state=0)
    assert wrong["el2n"] == pytest.approx(np.mean((given != true)[again.indices]))


def test_compare_says_that_labels_are_missing(vectors, refused):
    for name in ("el2n", "optimization"):
        line = refused("compare", vectors, "-k", 5, "--methods", f"random,{name}")
        assert f"{name!r} learns from labels" in line and "--labels" in line


def test_scores_of_ones_own_from_a_file(vectors, tmp_path, succeeds):
    scores = np.random.default_rng(1).permutation(40).astype(float)
    np.save(tmp_path / "scores.npy", scores)
    picks = tmp_path / "picks.json"
    succeeds(
        "select",
        vectors,
        "-k",
        5,
        "-o",
        picks,
        "--method",
        "el2n",
        "--set",
        f"scores={tmp_path / 'scores.npy'}",
    )
    assert gm.Selection.load(picks).order.tolist() == np.argsort(-scores)[:5].tolist()


def test_the_guide_lists_every_method_that_learns_from_the_rows():
    text = GUIDE.read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([a-z0-9-]+)` \|", text, flags=re.MULTILINE)
    assert set(listed) == {"forgetting", "grand", "el2n", "optimization", "self-supervised"}
    assert set(listed) < set(gm.methods())
