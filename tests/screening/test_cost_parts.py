"""What the benchmark of the cost adds up, part by part."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.backends.cuda.blocks import TensorSource
from gmmatch.selectors import _robust

torch = pytest.importorskip("torch")
_REPOSITORY = Path(__file__).parents[2]


class OfTensor:
    """Rows of a tensor, as a GPU would hold them."""

    def __init__(self, X: Any) -> None:
        self.tensor = torch.from_numpy(X)

    def row_source(self) -> TensorSource:
        return TensorSource(self.tensor)


@pytest.mark.parametrize("kind", [np.asarray, OfTensor])
def test_every_part_counts_on_the_host_and_on_a_device(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(_REPOSITORY)
    from benchmarks.screening_cost import PARTS, timed_parts

    rng = np.random.default_rng(0)
    y = np.arange(900) % 3
    X = (rng.standard_normal((900, 6)) + 5.0 * np.eye(6)[y]).astype(np.float32)
    match = _robust.match
    ticks = count()
    with timed_parts(lambda: float(next(ticks))) as parts:
        gm.select(kind(X), y=y, k=30, method="robust", random_state=0, n_jobs=1)
    assert set(parts) == set(PARTS)
    assert all(seconds >= 1.0 for seconds in parts.values()), parts
    assert _robust.match is match
