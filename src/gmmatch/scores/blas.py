"""Matrix products on one thread each."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any


def one_blas_thread() -> AbstractContextManager[Any]:
    """Keep matrix products, and scikit-learn's loops, to a thread of their own while this lasts.

    Blocks of rows are spread over threads already. More threads within a block would compete with them
    for the same cores, and make sums depend on how many there are.

    Examples
    --------
    >>> with one_blas_thread():
    ...     pass
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    limits: AbstractContextManager[Any] = threadpool_limits(1)
    return limits
