"""A kernel that shows whether Triton works."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def double(numbers, COUNT: tl.constexpr):
    """Double COUNT numbers in place."""
    at = numbers + tl.arange(0, COUNT)
    tl.store(at, 2.0 * tl.load(at))
