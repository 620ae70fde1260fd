"""What ``gmmatch select --method robust`` says about the rows."""

from __future__ import annotations

import numpy as np


def test_reasons_and_the_estimated_noise_are_printed(tmp_path, gmmatch):
    random = np.random.default_rng(0)
    truth = np.arange(900) % 3
    rows = random.normal(size=(900, 6)) + 5.0 * np.eye(6)[truth]
    labels = np.where(random.random(900) < 0.2, (truth + 1) % 3, truth)
    rows[:3] = 1e4
    np.savez(tmp_path / "noisy.npz", embeddings=rows, labels=labels)
    result = gmmatch(
        "select", tmp_path / "noisy.npz", "-k", 60, "--method", "robust", "-o", tmp_path / "p.json"
    )
    assert result.exit_code == 0
    assert "likely mislabeled" in result.stdout and "far out" in result.stdout
    noise = float(result.stdout.split("Estimated label noise: ")[1].split("%")[0])
    assert 15.0 < noise < 25.0
