"""A line chart in SVG, which prints, scales and follows the page's colors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Vector, sample_indices

_WIDTH, _HEIGHT = 460, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 12, 44
# From this ratio on, a linear axis would hide the small values.
_LOG_RATIO = 20.0
_TABLE_LINES = 12


@dataclass(frozen=True, eq=False)
class Curve:
    """Values against k; ``style`` is the name of a color, ``band`` the least and the greatest of several curves."""

    name: str
    style: str
    k: Indices
    values: Vector
    band: tuple[Vector, Vector] | None = None


@dataclass(frozen=True)
class DrawnCurve:
    """A curve and its band as points of SVG."""

    name: str
    style: str
    line: str
    band: str


@dataclass(frozen=True)
class Chart:
    """What the template needs to draw a chart and its table."""

    title: str
    curves: list[DrawnCurve]
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    table: list[tuple[int, list[float]]]
    width: int = _WIDTH
    height: int = _HEIGHT
    left: int = _LEFT
    right: int = _WIDTH - _RIGHT
    bottom: int = _HEIGHT - _BOTTOM


class _Axis:
    """From values to coordinates; logarithmic where values of several sizes occur."""

    def __init__(self, values: NDArray[np.float64], first: float, last: float) -> None:
        values = values[np.isfinite(values)] if np.isfinite(values).any() else np.zeros(1)
        positive = values[values > 0.0]
        self._is_log = len(positive) > 0 and values.max() / positive.min() >= _LOG_RATIO
        self._low = float(positive.min()) if self._is_log else 0.0
        self._high = max(float(values.max()), self._low + 1e-12)
        self._first, self._last = first, last

    def scale(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        low, high = self._low, self._high
        if self._is_log:
            # An exact 0 is drawn at the bottom.
            values, low, high = np.log(np.maximum(values, low)), math.log(low), math.log(high)
        return self._first + (values - low) / (high - low) * (self._last - self._first)

    def ticks(self) -> list[tuple[float, str]]:
        if self._is_log:
            powers = range(math.floor(math.log10(self._low)), math.ceil(math.log10(self._high)) + 1)
            factors = (1.0,) if len(powers) > 4 else (1.0, 2.0, 5.0)
            values = [factor * 10.0**power for power in powers for factor in factors]
        else:
            size = 10.0 ** math.floor(math.log10(self._high))
            values = [size * self._step(size) * i for i in range(6)]
        inside = np.array([value for value in values if self._low * 0.999 <= value <= self._high * 1.001])
        texts = [f"{value:,.0f}" if value == int(value) else f"{value:.3g}" for value in inside.tolist()]
        return list(zip(self.scale(inside).round(1).tolist(), texts, strict=True))

    def _step(self, size: float) -> float:
        return next(step for step in (0.25, 0.5, 1.0, 2.0, 2.5) if 5 * step * size >= self._high)


def line_chart(title: str, curves: Sequence[Curve]) -> Chart:
    """Lay out a chart.

    Examples
    --------
    >>> chart = line_chart("Error", [Curve("a", "picked", np.array([1, 2]), np.array([4.0, 2.0]))])
    >>> chart.table, chart.y_ticks[0]
    ([(1, [4.0]), (2, [2.0])], (226.0, '0'))
    """
    values = [curve.values for curve in curves] + [edge for curve in curves for edge in curve.band or ()]
    across = _Axis(np.concatenate([curve.k for curve in curves]).astype(np.float64), _LEFT, _WIDTH - _RIGHT)
    up = _Axis(np.concatenate(values), _HEIGHT - _BOTTOM, _TOP)
    drawn = []
    for curve in curves:
        x, band = across.scale(curve.k.astype(np.float64)), ""
        if curve.band is not None:
            low, high = (up.scale(edge) for edge in curve.band)
            band = _points(np.concatenate([x, x[::-1]]), np.concatenate([high, low[::-1]]))
        drawn.append(DrawnCurve(curve.name, curve.style, _points(x, up.scale(curve.values)), band))
    shared = curves[0].k[np.all([np.isin(curves[0].k, curve.k) for curve in curves], axis=0)]
    table = [
        (k, [float(curve.values[np.searchsorted(curve.k, k)]) for curve in curves])
        for k in shared[sample_indices(len(shared), _TABLE_LINES)].tolist()
    ]
    return Chart(title, drawn, across.ticks(), up.ticks(), table)


def _points(x: NDArray[np.float64], y: NDArray[np.float64]) -> str:
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in pairs if math.isfinite(a) and math.isfinite(b))
