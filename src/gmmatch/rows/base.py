"""The protocol of rows: what a backend offers, and what every backend gets for it.

Methods never ask where rows are. They pass functions of a block to :meth:`Rows.map_blocks` and
:meth:`Rows.reduce_blocks`, and per-row values (groups, weights, masks) as flat arrays. Rows are never cut down to
a subset: a row of no group, without weight or not available takes no part.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import (
    Indices,
    Mask,
    Matrix,
    Vector,
    array_namespace,
    read_only,
    sample_indices,
    to_numpy,
)
from gmmatch._threads import one_blas_thread
from gmmatch.matching.compiled import write_residuals
from gmmatch.matching.scan import best_rows, better_rows, row_norms
from gmmatch.median.compiled import OBJECTIVE
from gmmatch.median.search import Medians, MedianSearch
from gmmatch.median.terms import combine_terms, weighted_sums, weiszfeld_terms
from gmmatch.rows.tree import TreeFold, block_edges

PerRow: TypeAlias = tuple[Any, ...]
"""Values of each row: arrays of shape (n, ...), or what ``scatter`` made of them."""

BlockFunction: TypeAlias = Callable[..., Any]
"""``function(block, *per_row, *args)``, a function of a module, so that it can be sent to workers."""

Combine: TypeAlias = Callable[[Any, Any], Any]
"""Makes one result of the results of two neighboring runs of rows; associative."""

RowMap: TypeAlias = Callable[[Any], Any]
"""Makes a new row of each row of a block, of which it knows nothing else; picklable."""

# Send at most this many picked rows with each call; then scatter the mask of available rows again.
_MAX_TAKEN = 4096
# The search for medians starts at the medians of a sample, computed to this gap: of one row in 32, and no more than
# cost less than the passes that a better start saves. Several groups need up to four times as many.
_START_SHARE, _LEAST_START_ROWS, _MOST_START_ROWS, _START_GAP = 32, 256, 2048, 1e-4
# Groups of fewer rows in the sample start at their means.
_MIN_GROUP_ROWS = 16
# Picks whose rows are read at a time.
_READ_ROWS = 1024
# From this many numbers on, a second thread saves more than its start costs.
_THREADED_ELEMENTS = 1 << 23


@dataclass(frozen=True, eq=False)
class GreedyTask:
    """What greedy matching picks from, in flat arrays over all groups.

    Attributes
    ----------
    codes : int64 array of shape (n,)
        The group of each row, -1 for none.
    quotas : int64 array of shape (G,)
        Picks of each group; at most its available rows.
    targets, thetas : arrays of shape (G, s)
        μ, and θ before the first pick.
    available : boolean array of shape (n,)
        Which rows may be picked.
    replacement : bool
        Whether a row may be picked again.
    """

    codes: Indices
    quotas: Indices
    targets: Matrix
    thetas: Matrix
    available: Mask
    replacement: bool = False


class Rows(ABC):
    """Rows of a matrix of shape (n, s).

    A block is a matrix of float32 or float64: NumPy or torch, as the backend has it. Results are NumPy arrays.
    A backend implements the abstract methods; it overrides others only where it can do better.
    """

    n_features: int
    memory_limit: int | None = None
    """Bytes of rows that may be held at a time; None where the rows are in memory anyway."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, index: Indices) -> Matrix:
        """Return the rows with these numbers in float64, shape (len(index), s)."""

    @abstractmethod
    def map(self, row_map: RowMap) -> Rows:
        """Return the rows that ``row_map`` makes of these."""

    @abstractmethod
    def scatter(self, values: NDArray[Any]) -> Any:
        """Move per-row values to where the rows are, once, for many calls with ``per_row``."""

    @abstractmethod
    def run_blocks(
        self, function: BlockFunction, args: tuple[Any, ...], per_row: PerRow, combine: Combine | None
    ) -> NDArray[Any]:
        """Run ``function(block, *per_row, *args)`` on all blocks; combine the results, or join them without one."""

    def map_blocks(self, function: BlockFunction, *args: Any, per_row: PerRow = ()) -> NDArray[Any]:
        """Return ``function(block, *per_row, *args)`` of all blocks, joined: a value for each row.

        Parameters
        ----------
        function : callable
            Arrays among its arguments arrive in the namespace and on the device of the block.
        args : arrays and plain values
            The same for every block.
        per_row : arrays of shape (n, ...), or what :meth:`scatter` made of them
            Each block gets the entries of its rows.
        """
        return self.run_blocks(function, args, per_row, None)

    def map_array(self, row_map: RowMap) -> NDArray[Any]:
        """Return the rows that ``row_map`` makes of these as one array; of rows in files, it is in a file itself."""
        return self.map_blocks(row_map)

    def reduce_blocks(
        self, function: BlockFunction, *args: Any, per_row: PerRow = (), combine: Combine = operator.add
    ) -> NDArray[Any]:
        """Return the results of all blocks, combined along a tree that depends on the shape of the data alone.

        Parameters are those of :meth:`map_blocks`; ``combine`` makes one result of two neighbors.
        """
        return self.run_blocks(function, args, per_row, combine)

    def provenance(self) -> dict[str, Any]:
        """Return what is recorded about the rows."""
        return {"n_rows": len(self), "n_features": self.n_features, "backend": type(self).__name__}

    def close(self) -> None:  # noqa: B027 (most backends hold nothing)
        """Give back what the rows hold outside of this process."""

    def group_means(self, codes: Indices, weights: Vector, n_groups: int) -> Matrix:
        """Return the weighted mean of each group, shape (G, s); 0 for groups without weight.

        Parameters
        ----------
        codes : int64 array of shape (n,)
            The group of each row, -1 for none.
        weights : float64 array of shape (n,)
        n_groups : int
        """
        sums = self.reduce_blocks(weighted_sums, n_groups, per_row=(codes, weights))
        means: Matrix = sums[:, :-1] / np.where(sums[:, -1:] > 0.0, sums[:, -1:], 1.0)
        return means

    def group_medians(
        self, codes: Indices, weights: Vector, n_groups: int, *, eps: float, max_iter: int, delta: float
    ) -> Medians:
        """Return the geometric median of each group, with certificates; one pass over the rows per iteration.

        Parameters
        ----------
        codes, weights, n_groups
            As in :meth:`group_means`.
        eps, max_iter, delta
            As in :class:`~gmmatch.median.search.MedianSearch`.
        """
        per_row = tuple(map(self.scatter, (np.arange(len(self)), codes, weights)))

        def evaluate(points: Matrix, active: Indices) -> Matrix:
            slots = _slots(active, n_groups)
            return self.reduce_blocks(
                weiszfeld_terms, points, slots, delta, per_row=per_row, combine=combine_terms
            )

        start = self.start_medians(codes, weights, n_groups, eps=eps, max_iter=max_iter, delta=delta)
        return search_medians(start, evaluate, eps=eps, max_iter=max_iter, delta=delta)

    def start_medians(
        self, codes: Indices, weights: Vector, n_groups: int, *, eps: float, max_iter: int, delta: float
    ) -> Matrix:
        """Return where the search starts: at the medians of a sample where there are many rows, else at the means."""
        n_rows = min(len(self) // _START_SHARE, _MOST_START_ROWS * min(n_groups, 4))
        positions = sample_indices(len(self), n_rows)
        sampled = codes[positions]
        counts = np.bincount(sampled[(sampled >= 0) & (weights[positions] > 0.0)], minlength=n_groups)
        if n_rows < _LEAST_START_ROWS or counts.min() < _MIN_GROUP_ROWS:
            return self.group_means(codes, weights, n_groups)
        values = self.take(positions), np.arange(len(positions)), sampled, weights[positions]
        block, numbers, sampled, drawn = map(read_only, values)
        sums = weighted_sums(block, sampled, drawn, n_groups)
        means = sums[:, :-1] / sums[:, -1:]

        def evaluate(points: Matrix, active: Indices) -> Matrix:
            slots = read_only(_slots(active, n_groups))
            return weiszfeld_terms(block, numbers, sampled, drawn, read_only(points), slots, delta)

        medians = search_medians(means, evaluate, eps=max(eps, _START_GAP), max_iter=max_iter, delta=delta)
        return medians.points

    def greedy_picks(self, task: GreedyTask) -> tuple[Indices, Matrix]:
        """Pick rows: x = argmax ⟨θ, x⟩ over the available rows of a group, then θ ← θ + μ − x.

        Exact ties go to the lowest row. Here all groups make their next pick together, in one pass over the rows.

        Returns
        -------
        order : int64 array of shape (sum(quotas),)
            Row numbers in the order of the picks, group after group.
        thetas : array of shape (G, s)
            θ after the last pick.
        """
        thetas, available, quotas = task.thetas.copy(), task.available.copy(), task.quotas
        numbers, codes, norms, mask = (
            self.scatter(values)
            for values in (np.arange(len(self)), task.codes, self.map_blocks(row_norms), available)
        )
        order = np.full((len(quotas), int(quotas.max(initial=0))), -1)
        taken = np.empty(0, dtype=np.int64)
        for t in range(order.shape[1]):
            active = np.flatnonzero(quotas > t)
            best = self.reduce_blocks(
                best_rows, thetas[active], _slots(active, len(quotas)), taken,
                per_row=(numbers, codes, mask, norms), combine=better_rows,
            )  # fmt: skip
            order[active, t] = best[:, 1]
            thetas[active] += task.targets[active] - best[:, 2:]
            if not task.replacement:
                available[order[active, t]] = False
                taken = np.sort(np.append(taken, order[active, t]))
            if len(taken) > _MAX_TAKEN:
                taken, mask = taken[:0], self.scatter(available)
        return order[order >= 0], thetas

    def measure_residuals(self, points: Matrix, picks: Indices, owners: Indices) -> Vector:
        """Return ‖point − mean of the picks so far‖ after each pick.

        Parameters
        ----------
        points : array of shape (G, s)
        picks, owners : int64 arrays of shape (k,)
            Row numbers and their groups, group after group.
        """
        residuals = np.empty(len(picks))
        errors, counts = np.zeros(points.shape), np.zeros(len(points), dtype=np.int64)
        for first in range(0, len(picks), _READ_ROWS):
            span = slice(first, first + _READ_ROWS)
            write_residuals(self.take(picks[span]), points, owners[span], errors, counts, residuals[span])
        return residuals


def search_medians(start: Any, evaluate: Callable[[Any, Any], Any], **options: Any) -> Medians:
    """Search from ``start`` with the options of :class:`~gmmatch.median.search.MedianSearch`.

    ``evaluate(points, active)`` returns the terms of the points of the active groups, in the namespace of ``start``.
    """
    search = MedianSearch(start, **options)
    terms = evaluate(search.ask(), search.active)
    search.tell(terms)
    # A row that holds NaN, infinity or a number too large to square: there is no median.
    finite = bool(array_namespace(terms).isfinite(terms[:, OBJECTIVE]).all())
    while finite and len(search.active):
        search.tell(evaluate(search.ask(), search.active))
    return search.result()


def _slots(active: Indices, n_groups: int) -> Indices:
    """Return where each group stands among the active ones, -1 for the others."""
    slots = np.full(n_groups, -1)
    slots[active] = np.arange(len(active))
    return slots


class LocalRows(Rows):
    """Rows that this process reads itself, block by block. A backend of this kind gives :meth:`block`.

    Attributes
    ----------
    n_jobs : int
        Threads that work on blocks side by side; functions of blocks release the interpreter.
    """

    n_jobs: int = 1

    @abstractmethod
    def block(self, first: int, stop: int) -> Any:
        """Return a run of rows as a matrix of float32 or float64, shape (stop - first, s)."""

    def edges(self) -> Indices:
        """Return where the blocks begin, and the end of the last one."""
        return block_edges(len(self), self.n_features)

    def scatter(self, values: NDArray[Any]) -> Any:
        """Return an array in the namespace and on the device of the blocks."""
        return read_only(values)

    def run_blocks(
        self, function: BlockFunction, args: tuple[Any, ...], per_row: PerRow, combine: Combine | None
    ) -> NDArray[Any]:
        """Run a function on all blocks; combine or join the results."""
        results = self.iterate_blocks(function, args, per_row, self.edges())
        if combine is None:
            return np.concatenate([to_numpy(result) for result in results])
        return to_numpy(TreeFold.of(results, combine).result())

    def iterate_blocks(
        self, function: BlockFunction, args: tuple[Any, ...], per_row: PerRow, edges: Indices
    ) -> Iterator[Any]:
        """Yield the results of the blocks between ``edges``, in order."""
        args, per_row = (
            tuple(self.scatter(value) if isinstance(value, np.ndarray) else value for value in values)
            for values in (args, per_row)
        )

        def run(number: int) -> Any:
            first, stop = int(edges[number]), int(edges[number + 1])
            span = slice(first, stop)
            return function(self.block(first, stop), *map(operator.itemgetter(span), per_row), *args)

        numbers = range(len(edges) - 1)
        if self.n_jobs == 1 or len(self) * self.n_features < _THREADED_ELEMENTS:
            yield from map(run, numbers)
            return
        # Threads of BLAS would wait for the same cores by spinning.
        with one_blas_thread(), ThreadPoolExecutor(self.n_jobs) as threads:
            # A few at a time: the results of many groups are large.
            for first in range(0, len(numbers), 4 * self.n_jobs):
                yield from threads.map(run, numbers[first : first + 4 * self.n_jobs])
