"""Which strategy to use: the cheapest by a measured cost model among those that fit the memory limit.

Every strategy makes the same picks, so the choice affects time and memory alone. The constants are
nanoseconds per element, measured on a 2-core machine by ``python -m benchmarks calibrate``; only their
ratios matter.
"""

from __future__ import annotations

from typing import Literal

from gmmatch.errors import InvalidInputError

Strategy = Literal["direct", "coded"]

_SCAN_NUMBER, _SCAN_ROW = 0.12, 2.5
_CODED_NUMBER, _CODED_ROW, _CODED_PICK = 0.009, 0.4, 2_500.0
_ENCODE, _CODED_START = 1.35, 500_000.0

# Codes above this need the user's word, or an input twice their size.
DEFAULT_LIMIT = 64 << 20
# Gram matrices of a kernel.
GRAM_LIMIT = 512 << 20
# Beside rows that stay on disk there is room; a part of them has to be held.
DISK_LIMIT = 1 << 30
# Bytes of a row's codes beside one for each number: bounds, padding, its number.
_BYTES_PER_CODED_ROW = 56


def working_memory(memory_limit: int | None, input_bytes: int, *, on_disk: bool = False) -> int:
    """Return how many bytes of working memory a linear matching may take."""
    if memory_limit is not None:
        return memory_limit
    if on_disk:
        return DISK_LIMIT
    return max(DEFAULT_LIMIT, input_bytes // 2)


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
    direct = k * (elements * _SCAN_NUMBER + n * _SCAN_ROW)
    coded = elements * _ENCODE + _CODED_START
    coded += k * (elements * _CODED_NUMBER + n * _CODED_ROW + _CODED_PICK)
    fits = elements + _BYTES_PER_CODED_ROW * n <= memory
    return "coded" if fits and coded < direct else "direct"


def check_strategy(strategy: str) -> None:
    """Raise unless ``strategy`` is a known one."""
    if strategy not in ("auto", "direct", "coded"):
        raise InvalidInputError(
            f'strategy={strategy!r}: expected "auto", "direct" (a pass over the rows per pick) or "coded" '
            "(a pass over one-byte codes of them). Both make the same picks."
        )
