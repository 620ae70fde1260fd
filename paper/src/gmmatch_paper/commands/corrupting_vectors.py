"""Copies of vectors in which an adversary replaced some rows."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmmatch.cli.io.files import written
from gmmatch.errors import InvalidInputError
from gmmatch_paper.commands.corrupting import Advance, Touched

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gmmatch.types import Indices
    from gmmatch_paper.corruption.gross import GrossCorruption, MeanAttack

_AT_A_TIME = 1 << 22  # numbers


def replace_vectors(
    source: Any, corruption: GrossCorruption | MeanAttack, output: Path, advance: Advance
) -> Touched:
    """Write a copy of a ``.npy``, ``.npz`` or Parquet file of vectors with other rows in some places."""
    import numpy as np

    from gmmatch.data.arrays import ArraySource
    from gmmatch.data.tables import ParquetSource
    from gmmatch_paper.corruption.gross import replaced
    from gmmatch_paper.corruption.result import one_kind

    if isinstance(source, ArraySource):
        places, bad = corruption.replacements(source.array)
        _write_npy(source.array, places, bad, output, advance)
    else:
        array = np.concatenate([batch.rows for batch in source.batches(4096)])
        places, bad = corruption.replacements(array)
        if isinstance(source, ParquetSource):
            _write_parquet(source, places, bad, output, advance)
        else:
            changed = replaced(array, places, bad)
            rewrite_npz(source.path, output, {source.member: lambda _: changed})
            advance(len(array))
    mask = np.zeros(len(source), dtype=np.bool_)
    mask[places] = True
    return Touched(list(source.ids), mask, one_kind(corruption.name, mask))


def _write_npy(
    array: NDArray[Any], places: Indices, bad: NDArray[np.float64], output: Path, advance: Advance
) -> None:
    import numpy as np

    from gmmatch_paper.corruption.gross import replaced

    n, s = array.shape
    dtype = array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)
    step = max(1, _AT_A_TIME // s)
    with written(output) as temporary:
        copy = np.lib.format.open_memmap(temporary, mode="w+", dtype=dtype, shape=(n, s))
        for start in range(0, n, step):
            stop = min(n, start + step)
            low, high = np.searchsorted(places, [start, stop])
            copy[start:stop] = replaced(array[start:stop], places[low:high] - start, bad[low:high])
            advance(stop)
        copy.flush()
        del copy


def _write_parquet(
    source: Any, places: Indices, bad: NDArray[np.float64], output: Path, advance: Advance
) -> None:
    import numpy as np
    import pyarrow as pa

    from gmmatch_paper.commands.corrupting_parquet import rewrite_parquet
    from gmmatch_paper.corruption.gross import replaced

    name = source.columns.data

    def change(batch: Any, first: int, folder: Path) -> Any:
        low, high = np.searchsorted(places, [first, first + len(batch)])
        if low == high:
            return None
        kind = batch.schema.field(name).type
        if not pa.types.is_floating(kind.value_type):
            raise InvalidInputError(
                f"{source.location} holds integers in column {name!r}: an adversary's rows need floats."
            )
        rows = replaced(
            source.table_batch(batch, first, folder).rows, places[low:high] - first, bad[low:high]
        )
        flat = pa.array(np.ascontiguousarray(rows).reshape(-1), kind.value_type)
        return pa.FixedSizeListArray.from_arrays(flat, rows.shape[1]).cast(kind)

    rewrite_parquet(source, output, name, change, advance)


def rewrite_npz(
    path: Path, output: Path, changes: Mapping[str, Callable[[NDArray[Any]], NDArray[Any]]]
) -> None:
    """Write all members of an ``.npz`` archive, some of them changed, compressed if they were.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/a.npz", x=np.zeros(2), y=np.ones(2))
    ...     rewrite_npz(Path(folder, "a.npz"), Path(folder, "b.npz"), {"y": lambda y: y + 1})
    ...     {name: array.tolist() for name, array in np.load(f"{folder}/b.npz").items()}
    {'x': [0.0, 0.0], 'y': [2.0, 2.0]}
    """
    import numpy as np

    with written(output) as temporary, zipfile.ZipFile(path) as archive:
        packing = max(entry.compress_type for entry in archive.infolist())
        with zipfile.ZipFile(temporary, "w", packing) as copy:
            for entry in archive.infolist():
                name = entry.filename.removesuffix(".npy")
                with archive.open(entry) as before, copy.open(entry.filename, "w", force_zip64=True) as after:
                    if name in changes:
                        array = np.lib.format.read_array(before, allow_pickle=False)
                        np.lib.format.write_array(after, changes[name](array), allow_pickle=False)
                    else:
                        shutil.copyfileobj(before, after)
