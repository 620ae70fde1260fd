# mypy: ignore-errors
# Triton compiles these functions from their source; its types are not Python's.
"""A Triton kernel that does next to nothing, to see whether any runs."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def double(numbers, COUNT: tl.constexpr):
    """Double COUNT numbers, a power of two, in place."""
    at = numbers + tl.arange(0, COUNT)
    tl.store(at, 2.0 * tl.load(at))
