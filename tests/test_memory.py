"""Memory stays linear in the rows, and nothing of the input's size is made beside it.

Each case runs in a process of its own, whose peak of resident memory the kernel keeps; the peak is reset
once the input exists, so what is measured is what the call itself added.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).resolve().parent.parent
_MIB = 2**20
# Stacks, allocator slack, chunks in the making: independent of the number of rows.
_FIXED = 64 * _MIB

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="only Linux keeps a peak of memory that can be reset"
)


def growth(case: str, rows: int, columns: int, *options: object) -> tuple[int, int]:
    """Return the bytes of the input and the bytes by which the call raised the peak."""
    command = [sys.executable, "-m", "benchmarks.one_memory_case", case, rows, columns, *options]
    done = subprocess.run(
        [str(part) for part in command], cwd=_REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    if "not_measurable" in found:
        pytest.skip("this process may not reset its peak of memory")
    return found["input_bytes"], found["growth_bytes"]


@pytest.mark.slow
@pytest.mark.parametrize("case", ["gm-matching", "herding", "easy", "moderate", "geometric-median"])
def test_memory_is_linear_in_the_rows(case: str) -> None:
    # A matrix of all pairs of these rows would take 149 GiB in float32; their input is 49 MiB.
    size, grown = growth(case, 200_000, 64)
    assert grown < 0.25 * size + _FIXED


@pytest.mark.slow
def test_classes_are_read_where_they_lie() -> None:
    size, grown = growth("gm-matching", 200_000, 256, "--classes", 4)
    assert grown < 0.25 * size + _FIXED


@pytest.mark.slow
@pytest.mark.parametrize("case", ["easy", "geometric-median"])  # a matching converts one class at a time
@pytest.mark.parametrize("layout", [("--dtype", "float16"), ("--order", "F")], ids=["float16", "Fortran"])
def test_converted_input_is_not_converted_wholesale(case: str, layout: tuple[str, str]) -> None:
    # Converted as a whole, float16 rows would take 195 MiB more, Fortran-ordered ones as much.
    size, grown = growth(case, 200_000, 256, *layout, "--k", 10)
    assert size >= 97 * _MIB
    assert grown < 0.5 * size + _FIXED


@pytest.mark.slow
def test_the_full_size_stays_within_half_of_the_input() -> None:
    size, grown = growth("gm-matching", 200_000, 512, "--k", 300)
    assert grown < 0.5 * size


def test_coverage_holds_no_matrix_of_rows_by_picks() -> None:
    # 40,000 rows by 2,000 picks in float64 would be 610 MiB.
    size, grown = growth("coverage", 40_000, 32, "--k", 2_000)
    assert grown < 0.25 * size + _FIXED


def test_mmd_holds_no_matrix_of_all_pairs() -> None:
    # All pairs of 12,000 rows in float64 would be 1,098 MiB.
    size, grown = growth("mmd", 12_000, 32, "--k", 500)
    assert grown < 0.25 * size + _FIXED
