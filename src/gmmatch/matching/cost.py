"""Which strategy to use: the cheapest by a measured cost model among those that fit the memory limit.

Every strategy makes the same picks, so the choice affects time and memory alone. The constants are
nanoseconds per element, measured on a 2-core machine by ``python -m benchmarks calibrate``; only their
ratios matter.
"""

from __future__ import annotations

from typing import Literal

from gmmatch.errors import InvalidInputError

Strategy = Literal["direct", "coded", "gram"]

_SCAN_ROWS = 0.091
_SCAN_CODES = 0.035
_ENCODE = 1.9
_CODED_ROW = 2.8
_CODED_START = 150_000.0
_GRAM_PRODUCT = 0.013
_GRAM_PICK = 2.5

# Codes and Gram matrices above this need the user's word, or an input five times their size.
DEFAULT_LIMIT = 64 << 20
GRAM_LIMIT = 512 << 20
# Beside rows that stay on disk there is room; a part of them has to be held.
DISK_LIMIT = 1 << 30


def working_memory(memory_limit: int | None, input_bytes: int, *, on_disk: bool = False) -> int:
    """Return how many bytes of working memory a linear matching may take."""
    if memory_limit is not None:
        return memory_limit
    if on_disk:
        return DISK_LIMIT
    return max(DEFAULT_LIMIT, input_bytes // 5)


def choose_strategy(n: int, s: int, k: int, *, memory: int) -> Strategy:
    """Return the strategy with the least predicted time that fits in ``memory`` bytes.

    Examples
    --------
    >>> choose_strategy(5_000, 512, 500, memory=64 << 20)
    'coded'
    >>> choose_strategy(10_000_000, 512, 500, memory=64 << 20)
    'direct'
    """
    elements = float(n) * s
    times: dict[Strategy, float] = {"direct": k * elements * _SCAN_ROWS}
    if elements + 64.0 * n <= memory:
        times["coded"] = _CODED_START + elements * _ENCODE + k * (elements * _SCAN_CODES + n * _CODED_ROW)
    if 8.0 * n * n + 8.0 * elements <= memory:
        times["gram"] = elements * n * _GRAM_PRODUCT + k * n * _GRAM_PICK
    return min(times, key=lambda name: times[name])


def check_strategy(strategy: str) -> None:
    """Raise unless ``strategy`` is a known one."""
    if strategy not in ("auto", "direct", "coded", "gram"):
        raise InvalidInputError(
            f'strategy={strategy!r}: expected "auto", "direct" (a pass over the rows per pick), "coded" (a pass '
            'over one-byte codes per pick) or "gram" (the Gram matrix once). All make the same picks.'
        )
