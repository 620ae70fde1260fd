"""Writing a store: it can be killed at any moment, and the next writer resumes."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._checks import check_array, check_whole_number
from gmmatch.data.values import plain_ids, plain_labels, plain_values
from gmmatch.errors import InvalidInputError
from gmmatch.files import as_path
from gmmatch.store.commits import Commits
from gmmatch.store.manifest import DTYPES, Manifest
from gmmatch.store.shard import RowTable, default_rows_per_shard, write_shard


class StoreWriter(Commits):
    """Appends rows to a store, new or interrupted.

    Rows are gathered in memory and written a shard at a time; every ``checkpoint_seconds`` the shard
    that is not full yet is written too. Each file is written under a temporary name and renamed, and
    the manifest is replaced last, so that the store is valid at every moment. If a writer is
    interrupted, the next one continues after the last row that is safe, and the finished store is the same,
    byte for byte, as without an interruption.

    Parameters
    ----------
    path
        The folder; made if it is missing. Also an address, such as ``s3://bucket/x.emb``: there nothing keeps two
        writers apart.
    dtype
        ``"float16"`` or ``"float32"``.
    checkpoint_seconds
        How much work may be lost, in seconds. The finished store does not depend on it.
    encoder, encoder_fingerprint
        The encoder's name, and a text that changes when its output would. A store that was begun with
        others is refused.
    encoder_details
        Facts about the encoder for people; anything that JSON can hold.
    source, source_fingerprint
        What a :class:`~gmmatch.data.Source` says of itself. A store that was begun on a source with
        another fingerprint is refused; None skips that check.
    n_features
        Numbers per row; by default those of the first rows.
    rows_per_shard
        By default the power of two that makes shards of up to 64 MiB and 262,144 rows.

    Attributes
    ----------
    path
        The folder.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with StoreWriter(f"{folder}/x.emb", encoder="my-encoder", encoder_fingerprint="1") as writer:
    ...         writer.append(np.eye(3), ids=["a", "b", "c"])  # interrupted before finish()
    ...     with StoreWriter(f"{folder}/x.emb", encoder="my-encoder", encoder_fingerprint="1") as writer:
    ...         writer.n_done, writer.complete
    (3, False)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        dtype: Any = "float16",
        checkpoint_seconds: float = 60.0,
        **about: Any,
    ) -> None:
        for name in {"n_features", "rows_per_shard"} & about.keys():
            if about[name] is not None:
                check_whole_number(about[name], name)
                about[name] = int(about[name])
        requested = Manifest(dtype=checked_dtype(dtype), **about)
        self._checkpoint_seconds = checkpoint_seconds
        self._last_write = time.monotonic()
        # The shard that is not full yet: where in the buffer the vectors of a table end, and the table.
        self._pending: list[tuple[int, RowTable]] = []
        self._buffer: NDArray[Any] | None = None
        super().__init__(as_path(path), requested)

    # ------------------------------------------------------------------------------------- where it stands

    @property
    def n_done(self) -> int:
        """How many rows are safe on disk."""
        return self.manifest.n_rows

    @property
    def n_rows(self) -> int:
        """How many rows there are, with those that wait in memory."""
        return sum(shard.n_rows for shard in self.manifest.shards[: self._number]) + self._n_pending

    @property
    def _n_pending(self) -> int:
        return self._pending[-1][0] if self._pending else 0

    @property
    def next_row(self) -> int:
        """The row of the source that comes next; before anything is appended, where to go on."""
        return self._pending[-1][1].source_rows[-1] + 1 if self._pending else self._next_row

    def resume_at(self, batch_size: int) -> int:
        """Return the row of the source at which batches of this size should go on.

        It is the last multiple of ``batch_size`` that is not after :attr:`next_row`, so that batches
        are made of the same rows as if there had been no interruption: an encoder's last bits can depend
        on what else is in a batch. Rows that come twice are dropped by :meth:`append`.
        """
        return self.next_row - self.next_row % batch_size

    # ----------------------------------------------------------------------------------------- writing

    def append(self, rows: Any, ids: Any, labels: Any = None, *, source_rows: Any = None) -> None:
        """Add rows.

        Parameters
        ----------
        rows : array of shape (b, s)
            The embeddings: finite, and within the range of the store's type.
        ids
            One per row, integers or strings.
        labels
            One per row, None where there is none; either always or never given.
        source_rows
            The number of each row in the source, ascending; by default the rows follow the last one.
            Rows that the store has already are dropped. Numbers may be left out (a broken image).
        """
        self._check_usable()
        block = _as_matrix(rows)
        positions = _checked_positions(source_rows, len(block), self.next_row)
        names = plain_ids(plain_values(ids), "ids", "row {}".format)
        tags = None if labels is None else plain_labels(plain_values(labels), "labels", "row {}".format)
        for what, values in (("ids", names), ("labels", tags)):
            if values is not None and len(values) != len(block):
                raise InvalidInputError(f"{what} has {len(values):,} entries for {len(block):,} rows.")
        new = int(np.searchsorted(positions, self.next_row))
        block, table = block[new:], RowTable(positions.tolist(), names, tags)[new:]
        if not len(table):
            return
        self._check_matches(block, tags is not None)
        vectors = _converted(block, self.manifest.dtype, table.ids)
        size = self.manifest.rows_per_shard or default_rows_per_shard(block.shape[1], self.manifest.dtype)
        self.manifest = replace(
            self.manifest, n_features=block.shape[1], rows_per_shard=size, has_labels=tags is not None
        )
        if self._buffer is None:
            self._buffer = np.empty((size, block.shape[1]), dtype=self.manifest.dtype)
        cuts = [0, *range(size - self._n_pending, len(table), size), len(table)]
        for first, stop in pairwise(cuts):
            fill = self._n_pending + stop - first
            self._buffer[self._n_pending : fill] = vectors[first:stop]
            self._pending.append((fill, table[first:stop]))  # last: only rows that count are ever written
            if fill == size:
                self._write_pending()
        if time.monotonic() - self._last_write > self._checkpoint_seconds:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Make all rows so far safe on disk."""
        self._check_usable()
        if self.n_rows > self.n_done:
            self._write_pending()

    def finish(self) -> None:
        """Write what is left, mark the store as complete, and close it."""
        self._check_usable()
        if self.n_rows > self.n_done:
            self._write_pending(complete=True)
        elif not self.complete:
            self.add(complete=True)
        super().close()

    def close(self) -> None:
        """Make all rows so far safe and end the writing, without marking the store as complete."""
        try:
            if self._lock.is_held and not self._failed:
                self.checkpoint()
        finally:
            super().close()

    # ----------------------------------------------------------------------------------------- details

    def _begin(self) -> None:
        """Go on after the shards that are there; what comes after one that is missing is made again."""
        super()._begin()
        manifest = self.manifest
        shards = manifest.shards[: manifest.n_unbroken]
        if len(shards) < len(manifest.shards):
            self._save(replace(manifest, shards=shards))
        with_rows = [shard for shard in shards if shard.n_rows]
        table = with_rows[-1].read_table(self.path) if with_rows else RowTable([], [])
        self._number, self._next_row = len(shards), table.source_rows[-1] + 1 if with_rows else 0
        if shards and shards[-1].n_rows < (manifest.rows_per_shard or 0):
            self._number -= 1  # its rows go back into memory, to fill it up
            if shards[-1].n_rows:
                self._next_row = table.source_rows[0]
                vectors = manifest.row_file(self.path, shards[-1]).load()
                self.append(vectors, table.ids, table.labels, source_rows=table.source_rows)

    def _check_matches(self, block: NDArray[Any], labeled: bool) -> None:
        """Raise unless these rows are like those that the store has."""
        n_features, has_labels = self.manifest.n_features, self.manifest.has_labels
        if n_features is not None and block.shape[1] != n_features:
            raise InvalidInputError(f"rows has {block.shape[1]} features, but {self.path} has {n_features}.")
        if has_labels is not None and has_labels != labeled:
            state = "has labels: give them" if has_labels else "has no labels: leave them out"
            raise InvalidInputError(f"{self.path} {state} for these rows, too.")

    def _write_pending(self, *, complete: bool = False) -> None:
        """Write the rows in memory as the last shard, in place of what is there of it."""
        assert self._buffer is not None
        table = RowTable.join([table for _, table in self._pending])
        self._pending = [(len(table), table)]
        with self._writing():
            shard = write_shard(self.path, self._number, table, self._buffer[: len(table)])
        self.add([shard], complete=complete)
        self._last_write = time.monotonic()
        if shard.n_rows == self.manifest.rows_per_shard:
            self._next_row, self._number, self._pending = self.next_row, self._number + 1, []


def _as_matrix(rows: Any) -> NDArray[Any]:
    block = check_array(rows, "rows", "a matrix of numbers")
    if block.ndim != 2 or block.shape[1] == 0 or block.dtype.kind not in "fiub":
        raise InvalidInputError(
            f"rows has shape {block.shape} and dtype {block.dtype}: give a matrix of numbers, rows by features."
        )
    return block


def _converted(block: NDArray[Any], dtype: str, names: list[Any]) -> NDArray[Any]:
    """Return rows in the type of the store, all of them finite, or say which is not."""
    with np.errstate(over="ignore"):
        values: NDArray[Any] = block.astype(dtype, copy=False)
    if np.isfinite(values).all():
        return values
    broken = ~np.isfinite(block).all(axis=1)
    if broken.any():
        raise InvalidInputError(
            f"rows contains NaN or infinity in {int(broken.sum())} of {len(block)} rows (the first has id "
            f"{names[int(np.argmax(broken))]!r}): the encoder gave no usable embedding; leave these rows out."
        )
    row = int(np.argmin(np.isfinite(values).all(axis=1)))
    raise InvalidInputError(
        f"rows holds {np.abs(block[row]).max():.6g} (id {names[row]!r}), which {dtype} cannot: "
        "use dtype='float32', or scale the embeddings."
    )


def _checked_positions(source_rows: Any, count: int, first: int) -> NDArray[np.int64]:
    """Return the source's row numbers of ``count`` rows, which follow ``first`` by default."""
    if source_rows is None:
        return np.arange(first, first + count)
    positions = check_array(source_rows, "source_rows", "row numbers")
    numbers = positions.dtype.kind in "iu" or positions.size == 0
    if positions.shape != (count,) or not numbers or np.any(positions < 0) or np.any(np.diff(positions) <= 0):
        raise InvalidInputError(f"source_rows must be {count} ascending row numbers, one for each row.")
    return positions.astype(np.int64)


def checked_dtype(dtype: Any) -> str:
    """Return the name of a type of numbers that a store can hold."""
    with suppress(TypeError):
        if np.dtype(dtype).name in DTYPES:
            return str(np.dtype(dtype).name)
    raise InvalidInputError(f"dtype={dtype!r}: give 'float16' or 'float32'.")
