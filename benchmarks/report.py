"""What a benchmark found: timings, other quantities, and ratios next to their bars."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from benchmarks.timing import Timing


@dataclass(frozen=True)
class Ratio:
    """One comparison; ``bar`` is the value it is meant to reach (or to stay under), where there is one."""

    name: str
    value: float
    bar: float | None = None
    wanted: Literal["at least", "at most"] = "at least"

    @property
    def met(self) -> bool | None:
        """Whether the bar is reached; None without a bar."""
        if self.bar is None:
            return None
        return self.value >= self.bar if self.wanted == "at least" else self.value <= self.bar


@dataclass
class Report:
    """The outcome of one benchmark."""

    name: str
    title: str
    settings: dict[str, Any]
    timings: dict[str, Timing] = field(default_factory=dict)
    quantities: dict[str, float] = field(default_factory=dict)
    ratios: list[Ratio] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return plain data for a JSON file."""
        return {
            "name": self.name,
            "title": self.title,
            "settings": self.settings,
            "timings": {
                side: {
                    "median_s": timing.median,
                    "min_s": timing.least,
                    "all_s": [round(second, 9) for second in timing.seconds],
                }
                for side, timing in self.timings.items()
            },
            "quantities": self.quantities,
            "ratios": [
                {
                    "name": ratio.name,
                    "value": ratio.value,
                    "bar": ratio.bar,
                    "wanted": ratio.wanted,
                    "met": ratio.met,
                }
                for ratio in self.ratios
            ],
            "notes": self.notes,
        }

    def as_text(self) -> str:
        """Return plain-text tables."""
        parts = [f"{self.name}: {self.title}", ", ".join(f"{k} {v}" for k, v in self.settings.items()), ""]
        if self.timings:
            times = [(side, seconds(t.median), seconds(t.least)) for side, t in self.timings.items()]
            parts += [table(("side", "median", "min"), times), ""]
        if self.quantities:
            values = [(name, f"{value:.5g}") for name, value in self.quantities.items()]
            parts += [table(("quantity", "value"), values), ""]
        if self.ratios:
            rows = [
                (r.name, f"{r.value:.3g}", bar_text(r.bar, r.wanted), met_text(r.met)) for r in self.ratios
            ]
            parts += [table(("ratio", "measured", "bar", ""), rows), ""]
        return "\n".join(parts + [f"* {note}" for note in self.notes])


def seconds(value: float) -> str:
    """Return a time in the unit that suits it."""
    if not math.isfinite(value):
        return str(value)
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def bar_text(bar: float | None, wanted: str) -> str:
    """Return a bar in words."""
    return "" if bar is None else f"{wanted} {bar:g}"


def met_text(met: bool | None) -> str:
    """Return whether a bar was met, in words."""
    return "" if met is None else ("met" if met else "missed")


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return aligned columns."""
    body = list(rows)
    widths = [max(len(line[column]) for line in [header, *body]) for column in range(len(header))]

    def aligned(line: tuple[str, ...]) -> str:
        return "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([aligned(header), rule, *map(aligned, body)])
