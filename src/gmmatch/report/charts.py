"""Line charts in SVG, which prints, scales and follows the page's colors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.types import Indices, evenly_spaced

WIDTH, HEIGHT = 460, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 12, 44
# From such a ratio on, a linear axis would hide the small values.
_WIDE = 20.0
_TABLE_ROWS = 12


@dataclass(frozen=True, eq=False)
class Series:
    """A curve, with a band around it if it has low and high."""

    name: str
    style: str  # the name of its colour
    x: NDArray[Any]  # ascending
    y: NDArray[Any]  # points that are no number are left away
    low: NDArray[Any] | None = None
    high: NDArray[Any] | None = None
    dashed: bool = False  # where another curve has the same colour
    band_name: str = ""


@dataclass(frozen=True)
class Curve:
    """A curve in the chart's own coordinates."""

    name: str
    style: str
    line: str
    band: str
    dashed: bool
    band_name: str


@dataclass(frozen=True)
class Chart:
    """Everything that the template needs to draw a chart and its table."""

    title: str
    x_label: str
    y_label: str
    curves: list[Curve]
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    columns: list[str]
    table: list[list[str]] = field(default_factory=list)
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    top: int = _TOP
    bottom: int = HEIGHT - _BOTTOM


class _Axis:
    """From values to places; logarithmic where values of several sizes occur."""

    def __init__(self, values: NDArray[np.float64], first: float, last: float) -> None:
        positive = values[values > 0.0]
        low, high = float(values.min()), float(values.max())
        self.log = bool(len(positive)) and low >= 0.0 and high / float(positive.min()) >= _WIDE
        # An exact 0 is drawn at the bottom.
        low = float(positive.min()) if self.log else min(0.0, low)
        self.low, self.high = low, high if high > low else low + 1.0
        self._first, self._last = first, last

    def place(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        low, high = self.low, self.high
        if self.log:
            values, low, high = np.log(np.maximum(values, low)), math.log(low), math.log(high)
        return self._first + (values - low) / (high - low) * (self._last - self._first)

    def ticks(self, percent: bool = False) -> list[tuple[float, str]]:
        values = _log_ticks(self.low, self.high) if self.log else _linear_ticks(self.low, self.high)
        places = self.place(np.array(values))
        written = [f"{100 * value:.3g}%" if percent else short(value) for value in values]
        return [(round(float(place), 1), text) for place, text in zip(places, written, strict=True)]


def line_chart(
    title: str, x_label: str, y_label: str, series: Sequence[Series], *, percent: bool = False
) -> Chart | None:
    """Lay out a chart; None if there is nothing to draw. Shares are written as percentages if ``percent``.

    Examples
    --------
    >>> curve = Series("one", "kept", np.array([1.0, 2.0]), np.array([4.0, 2.0]))
    >>> line_chart("A title", "k", "error", [curve]).table
    [['1', '4'], ['2', '2']]
    """
    usable = [_finite(one) for one in series]
    usable = [one for one in usable if len(one.x)]
    if not usable:
        return None
    bands = [band for one in usable for band in (one.low, one.high) if band is not None]
    across = _Axis(np.concatenate([one.x for one in usable]), _LEFT, WIDTH - _RIGHT)
    up = _Axis(np.concatenate([*(one.y for one in usable), *bands]), HEIGHT - _BOTTOM, _TOP)
    return Chart(
        title=title,
        x_label=x_label,
        y_label=y_label,
        curves=[_curve(one, across, up) for one in usable],
        x_ticks=across.ticks(),
        y_ticks=up.ticks(percent),
        columns=[x_label, *(one.name for one in usable)],
        table=_table(usable, percent),
    )


def short(value: float) -> str:
    """Return a number as people write it.

    Examples
    --------
    >>> short(50000.0), short(0.25), short(1e-7)
    ('50,000', '0.25', '1e-07')
    """
    if value == int(value) and abs(value) < 1e7:
        return f"{int(value):,}"
    return f"{value:.3g}"


def _finite(one: Series) -> Series:
    x, y = np.asarray(one.x, dtype=np.float64), np.asarray(one.y, dtype=np.float64)
    good = np.isfinite(y)
    low = high = None
    if one.low is not None and one.high is not None:
        low, high = np.asarray(one.low, np.float64)[good], np.asarray(one.high, np.float64)[good]
    return replace(one, x=x[good], y=y[good], low=low, high=high)


def _curve(one: Series, across: _Axis, up: _Axis) -> Curve:
    x = across.place(one.x)
    band = ""
    if one.low is not None and one.high is not None:
        band = _points(
            np.concatenate([x, x[::-1]]), np.concatenate([up.place(one.high), up.place(one.low)[::-1]])
        )
    return Curve(one.name, one.style, _points(x, up.place(one.y)), band, one.dashed, one.band_name)


def _points(x: NDArray[np.float64], y: NDArray[np.float64]) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))


def _table(named: list[Series], percent: bool) -> list[list[str]]:
    """The values of all curves at some x that they share."""
    shared = named[0].x
    for one in named[1:]:
        shared = np.intersect1d(shared, one.x)
    lines = []
    for x in shared[evenly_spaced(len(shared), _TABLE_ROWS)].tolist():
        values = [float(one.y[np.searchsorted(one.x, x)]) for one in named]
        lines.append([short(x), *(f"{value:.1%}" if percent else f"{value:.4g}" for value in values)])
    return lines


def _linear_ticks(low: float, high: float) -> list[float]:
    rough = (high - low) / 4.0
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * size for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * size >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [float(f"{number * step:.12g}") for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1.0,) if last - first > 4 else (1.0, 3.0) if last - first > 2 else (1.0, 2.0, 5.0)
    every = max(1, round((last - first) / 6))
    values = [factor * 10.0**power for power in range(first, last + 1, every) for factor in factors]
    return [float(f"{value:.6g}") for value in values if low * 0.999 <= value <= high * 1.001]


def growing_steps(k: int, most: int) -> Indices:
    """Return numbers of picks at which to look: every one from 1 to k, or up to ``most`` that grow by a factor.

    Examples
    --------
    >>> growing_steps(4, 10), growing_steps(1000, 4)
    (array([1, 2, 3, 4]), array([   1,   10,  100, 1000]))
    """
    if k <= most:
        return np.arange(1, k + 1, dtype=np.int64)
    return np.unique(np.geomspace(1, k, most).round().astype(np.int64))
