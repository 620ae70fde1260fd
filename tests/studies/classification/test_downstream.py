"""What studies train on the picks, and how."""

from __future__ import annotations

import numpy as np
import pytest

from gmmatch.studies.classification.downstream import train_network

pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("setting", "compiled"), [(None, False), ("0", False), ("1", False), ("eager", True)]
)
def test_a_variable_says_whether_networks_are_compiled(monkeypatch, setting, compiled):
    monkeypatch.delenv("GMMATCH_COMPILE", raising=False)
    if setting is not None:
        monkeypatch.setenv("GMMATCH_COMPILE", setting)
    images = np.random.default_rng(0).integers(0, 255, (32, 8, 8, 1), dtype=np.uint8)
    arguments = {"n_classes": 2, "recipe": "quick", "seed": 0, "device": "cpu"}
    trained = train_network("tiny", images, np.arange(32) % 2, **arguments)
    assert trained.compiled == compiled  # 1 stands for torch's own compiler, which is for CUDA
