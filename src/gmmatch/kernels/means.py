"""Means over the rows of a kernel matrix that is never held as a whole."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch.kernels.distances import typical_row
from gmmatch.rows.checks import check_pair, check_rows, check_sample_weight, check_whole_number
from gmmatch.rows.parallel import map_in_order, one_blas_thread, resolve_jobs
from gmmatch.rows.rows import Rows
from gmmatch.types import Matrix, Vector

if TYPE_CHECKING:
    from gmmatch.kernels.kernels import Kernel

# Blocks whose partial sums wait for their turn; enough to keep many cores busy, small in memory.
_BLOCKS_AT_ONCE = 128
# Bytes of rows that are held as a kernel compares them; of more, each block prepares its own again.
_HELD_BYTES = 1 << 26


def row_means(
    kernel: Kernel,
    A: Any,
    B: Any = None,
    weights: Any = None,
    *,
    block: int = 512,
    n_jobs: int | None = -1,
) -> Vector:
    """Return Σⱼ wⱼ k(aᵢ, bⱼ) for every row of ``A``, with the weights scaled to sum to 1.

    This is ⟨φ(aᵢ), μ⟩ for the mean μ of ``B`` in the kernel's space: what kernel herding starts from
    (Chen, Welling and Smola, Super-samples from kernel herding, UAI 2010). Memory is linear in the
    number of rows.

    Parameters
    ----------
    kernel : Kernel
        With its bandwidth fitted.
    A : array of shape (n, s)
    B : array of shape (m, s), optional
        The rows to average over; ``A`` itself by default, and then each pair is evaluated once.
    weights : array of shape (m,), optional
        Non-negative weight of each row averaged over; equal by default.
    block : int
        Rows on each side of a block of the kernel matrix; each thread holds ``block²`` float64 numbers.
    n_jobs : int, optional
        Threads, in joblib's convention; every core by default. The result does not depend on it.

    Returns
    -------
    float64 array of shape (n,)

    Examples
    --------
    >>> from gmmatch.kernels.kernels import RBF
    >>> row_means(RBF(bandwidth=1.0), [[0.0], [1.0]]).round(4)
    array([0.8033, 0.8033])
    """
    check_whole_number(block, "block")
    threads = resolve_jobs(n_jobs)
    left = check_rows(A, name="A", threads=threads)
    _, right = check_pair(left, left if B is None else B, threads=threads)
    shares = check_sample_weight(weights, len(right), name="weights")
    shares = shares / shares.sum()
    means = np.zeros(len(left))
    if kernel.is_linear:
        _add_linear_means(means, left, right, shares, block)
    else:
        _add_block_means(means, kernel, left, None if B is None else right, shares, block, threads)
    if not np.all(np.isfinite(means)):
        raise InvalidInputError(
            f"The {kernel.name} kernel overflows on these rows; scale the data down, or lower the degree."
        )
    return means


def _add_linear_means(means: Vector, left: Rows, right: Rows, shares: Vector, block: int) -> None:
    # Σ wⱼ⟨a, bⱼ⟩ = ⟨a, Σ wⱼ bⱼ⟩: no pairs at all.
    centre = np.zeros(right.n_features)
    for start in range(0, len(right), block):
        centre += shares[start : start + block] @ _read(right, start, block)
    for start in range(0, len(left), block):
        means[start : start + block] = _read(left, start, block) @ centre


def _add_block_means(
    means: Vector,
    kernel: Kernel,
    left: Rows,
    right: Rows | None,
    shares: Vector,
    block: int,
    threads: int,
) -> None:
    """Add every block's part; with no right side, blocks above the diagonal serve both of their sides."""
    corners = _corners(len(left), None if right is None else len(right), block)
    own = threading.local()  # of each thread
    others = left if right is None else right
    centre = typical_row(others)

    @lru_cache(maxsize=max(2 * threads, _HELD_BYTES // (16 * block * left.n_features)))
    def side(rows: Rows, start: int) -> Any:
        return prepared(kernel, _read(rows, start, block), centre)

    def evaluate(corner: tuple[int, int]) -> tuple[Vector, Vector | None]:
        i, j = corner
        rows, columns = side(left, i), side(others, j)
        # A block is 2 MB: allocated anew, the memory would cost several times as much as the arithmetic.
        if not hasattr(own, "room"):
            own.room = np.empty(min(block, len(left)) * min(block, len(shares)))
        values = own.room[: len(rows) * len(columns)].reshape(len(rows), len(columns))
        values = kernel(rows, columns, values)
        across = values @ shares[j : j + block]
        return across, shares[i : i + block] @ values if right is None and i != j else None

    # Threads over blocks also share the exponentials, which BLAS's own threads do not: measured, 1.5
    # times as fast on two cores. And it keeps BLAS's way to split a product out of the result.
    with one_blas_thread():
        while batch := list(islice(corners, _BLOCKS_AT_ONCE)):
            # Partial sums are added in the order of the blocks, so the threads cannot change a bit.
            found = map_in_order(lambda number, batch=batch: evaluate(batch[number]), len(batch), threads)  # type: ignore[misc]
            for (i, j), (across, down) in zip(batch, found, strict=True):
                means[i : i + block] += across
                if down is not None:
                    means[j : j + block] += down


def _corners(n: int, m: int | None, block: int) -> Iterator[tuple[int, int]]:
    for i in range(0, n, block):
        for j in range(i if m is None else 0, n if m is None else m, block):
            yield i, j


def prepared(kernel: Kernel, rows: Matrix, centre: Vector) -> Any:
    """Return rows in the form in which a kernel compares them fastest, if it has one."""
    return kernel.prepared(rows, centre) if hasattr(kernel, "prepared") else rows


def _read(rows: Rows, start: int, block: int) -> NDArray[np.float64]:
    return rows.gather(np.arange(start, min(len(rows), start + block)))
