"""Timing several ways to do the same thing so that they can be compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

# Threads that wait by spinning (OpenBLAS's do, for about a tenth of a second) must not slow the next side down.
_PAUSE_SECONDS = 0.15
_clock = [time.perf_counter]


@dataclass(frozen=True)
class Timing:
    """The seconds of every repetition of one side."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def least(self) -> float:
        return min(self.seconds)

    def divided_by(self, count: float) -> Timing:
        """Return the time per item of a run over ``count`` items."""
        return Timing(tuple(second / count for second in self.seconds))


def timed(work: Callable[[], object]) -> float:
    """Return the seconds one call takes, or the CPU seconds after :func:`count_cpu_time`."""
    start = _clock[0]()
    work()
    return _clock[0]() - start


def count_cpu_time() -> None:
    """Count what the processor worked from now on: it tells more where others use the machine as well."""
    _clock[0] = time.process_time


def side_by_side(
    sides: Mapping[str, Callable[[], object]],
    repetitions: int,
    *,
    warm_up: bool = True,
) -> dict[str, Timing]:
    """Time all sides in turn, A B A B ..., so that a disturbance meets all of them alike."""
    if warm_up:
        for work in sides.values():
            work()
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repetitions):
        for name, work in sides.items():
            time.sleep(_PAUSE_SECONDS)
            seconds[name].append(timed(work))
    return {name: Timing(tuple(values)) for name, values in seconds.items()}


def ratio_of_medians(slower: Timing, faster: Timing) -> float:
    """Return how many times as long the first side takes."""
    return slower.median / faster.median
