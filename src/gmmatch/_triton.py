"""Whether Triton's kernels run on a tensor, and how the rows of a tensor fit a program of them."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from gmmatch._checks import warn_caller
from gmmatch.errors import GMMatchWarning, first_line

# Rows of more columns do not fit the registers of a program.
MOST_COLUMNS = 4096


class TritonWarning(GMMatchWarning):
    """Triton's kernels do not run on a device; plain torch operations do their work, more slowly."""


def has_kernels(tensor: Any) -> bool:
    """Return whether Triton's kernels run on the rows of a tensor, shape (n, s).

    On CUDA, or for tests on the CPU by Triton's interpreter: ``TRITON_INTERPRET=1``, set before Triton is imported.
    """
    on_device = tensor.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"
    return on_device and tensor.shape[1] <= MOST_COLUMNS and triton_runs(tensor.device)


@cache
def triton_runs(device: Any) -> bool:
    """Return whether kernels of Triton compile and run on a device; warn where they do not.

    Triton compiles when a kernel is first used, its launcher with a C compiler: that it is installed says little.
    """
    import torch

    # Outside of the trial: an earlier error of the device is not Triton's.
    numbers = torch.arange(16.0, device=device)
    expected = (2.0 * numbers).tolist()
    try:
        from gmmatch._triton_trial import double

        with torch.cuda.device_of(numbers):
            double[(1,)](numbers, COUNT=16)
        reason = None if numbers.tolist() == expected else "a kernel that doubles numbers did not"
    except Exception as error:  # compilers, drivers and caches on disk fail in many ways
        reason = f"{type(error).__name__}: {first_line(error)}"
    if reason is not None:
        warn_caller(
            TritonWarning(
                f"Triton's kernels do not run on {device} ({reason}): plain torch operations take their place, "
                "more slowly. Install Triton in the version that your torch was made for, a C compiler such as gcc, "
                "and Python's headers."
            )
        )
    return reason is None


def column_block(n_features: int) -> int:
    """Return the power of two that holds a row.

    Examples
    --------
    >>> column_block(3), column_block(512)
    (16, 512)
    """
    return max(16, 1 << (n_features - 1).bit_length())


def tile_shape(n_features: int) -> tuple[int, int, int]:
    """Return how many rows and columns a program holds in registers at a time, and its warps.

    A program of one warp needs no barrier in its sums, which makes a pass over float64 three times as fast as with
    eight.
    """
    columns = column_block(n_features)
    return max(1, min(32, 1024 // columns)), columns, max(1, columns // 2048)
