"""The guide to training can be followed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

GUIDE = Path(__file__).parents[2] / "docs/guides/training.md"


def test_the_blocks_of_the_guide_run_in_their_order(stripes, monkeypatch, capsys):
    from dataclasses import replace

    from gmmatch.training import recipes

    monkeypatch.setattr(recipes, "FAST", replace(recipes.FAST, epochs=2, min_steps=0, learning_rate=0.05))
    images, labels = stripes(32)
    test_images, test_labels = stripes(16, seed=1)
    names = {"images": images, "labels": labels, "test_images": test_images, "test_labels": test_labels}
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), names)
    first, second = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"[\d.]+% after 2 epochs", first)
    assert second == "100.0%"
    assert names["embeddings"].shape == (32, 512)
    assert len(names["done"].history) == 2
