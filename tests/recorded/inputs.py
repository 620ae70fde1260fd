"""Rows and labels of the recorded cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def dense(dtype: Any = np.float64) -> tuple[Any, Any]:
    """400 rows around one centre, a quarter of them elsewhere."""
    random = np.random.default_rng(11)
    rows = random.standard_normal((400, 12)) * np.linspace(0.5, 2.0, 12) + 1.0
    rows[random.permutation(400)[:100]] += 4.0
    return rows.astype(dtype), None


def labelled(dtype: Any = np.float64) -> tuple[Any, Any]:
    """360 rows of five unbalanced classes and one class of a single row; a tenth of the labels are wrong."""
    random = np.random.default_rng(12)
    true = random.choice(5, 360, p=[0.45, 0.25, 0.15, 0.1, 0.05])
    rows = random.standard_normal((360, 10)) + 3.0 * np.eye(10)[true] + 0.5
    labels = np.where(random.random(360) < 0.1, random.integers(0, 5, 360), true)
    labels[17] = 9
    return rows.astype(dtype), labels


def two_classes() -> tuple[Any, Any]:
    random = np.random.default_rng(13)
    labels = random.integers(0, 2, 300)
    return random.standard_normal((300, 6)) + 2.0 * labels[:, None], labels


def lattice() -> tuple[Any, Any]:
    """300 rows of small whole numbers, many of them equal."""
    return np.random.default_rng(14).integers(-2, 3, (300, 3)), None


def lattice_labelled() -> tuple[Any, Any]:
    return lattice()[0].astype(np.int16), np.random.default_rng(15).integers(0, 3, 300)


def half_lattice() -> tuple[Any, Any]:
    return lattice()[0].astype(np.float16), None


def strided() -> tuple[Any, Any]:
    """Every second column of every second row, backwards, and read-only."""
    random = np.random.default_rng(16)
    rows = np.asfortranarray(random.standard_normal((500, 16)) + 0.5)[::-2, 1::2]
    rows.flags.writeable = False
    return rows, random.integers(0, 3, 250)


def strided_alone() -> tuple[Any, Any]:
    return strided()[0], None


def with_missing() -> tuple[Any, Any]:
    """Labels of which some are None."""
    rows, labels = labelled()
    found = labels.astype(object)
    found[::9] = None
    return rows, found


def with_minus_one() -> tuple[Any, Any]:
    rows, labels = labelled(np.float32)
    return rows, np.where(np.arange(len(labels)) % 7 == 0, -1, labels)


def named() -> tuple[Any, Any]:
    rows, labels = labelled(np.float32)
    names = np.array(["zebra", "cat", "dög", "ant", "bee", "", "", "", "", "lone wolf"])
    return rows, names[labels]


def far_from_zero() -> tuple[Any, Any]:
    rows, labels = labelled()
    return rows + 1000.0, labels


def wide() -> tuple[Any, Any]:
    """More columns than rows."""
    random = np.random.default_rng(17)
    return random.standard_normal((80, 200)).astype(np.float32), random.integers(0, 2, 80)


def many() -> tuple[Any, Any]:
    """600 rows for batches, the rarer ones first."""
    random = np.random.default_rng(18)
    rows = random.standard_normal((600, 6)) + 1.0
    rows[:150] += 3.0
    return rows, random.integers(0, 2, 600)


def many_alone() -> tuple[Any, Any]:
    return many()[0], None


def as_tensor(data: Callable[[], tuple[Any, Any]], dtype: str, device: str = "cpu") -> Callable[[], Any]:
    """Return the input with its rows as a torch tensor."""

    def made() -> tuple[Any, Any]:
        import torch

        rows, labels = data()
        # A copy: torch knows neither negative strides nor read-only memory.
        tensor = torch.from_numpy(np.array(rows, order="C"))
        return tensor.to(device=device, dtype=getattr(torch, dtype)), labels

    return made
