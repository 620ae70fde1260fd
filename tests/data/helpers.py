"""Small files of every kind, and what every source promises."""

from __future__ import annotations

import inspect
import io
import tarfile

import numpy as np

from gmmatch.data import BrokenRowError


def png(color=(10, 20, 30), size=(4, 3), mode="RGB"):
    """The bytes of a PNG file of one colour."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.new(mode, size, color).save(buffer, format="PNG")
    return buffer.getvalue()


def read_all(source, batch_size=3, start=0):
    """All rows, ids and labels of a source, after checking how they were cut into batches."""
    batches = list(source.batches(batch_size, start))
    assert all(len(batch) == batch_size for batch in batches[:-1])
    assert all(0 < len(batch) <= batch_size for batch in batches)
    assert [batch.start for batch in batches] == [start + i * batch_size for i in range(len(batches))]
    rows = [row for batch in batches for row in batch.rows]
    ids = [name for batch in batches for name in batch.ids]
    labels = None
    if batches and batches[0].labels is not None:
        labels = [label for batch in batches for label in batch.labels]
    return rows, ids, labels


def read_usable(source):
    """All rows of a source, whose first broken row is raised."""
    rows = read_all(source)[0]
    for row in rows:
        if isinstance(row, BrokenRowError):
            raise row
    return rows


def same(a, b):
    """Whether two lists of rows are equal, be they arrays, errors or neither."""

    def equal(x, y):
        return (
            np.array_equal(x, y)
            if isinstance(x, np.ndarray)
            else x == y or (str(x), type(x)) == (str(y), type(y))
        )

    return len(a) == len(b) and all(map(equal, a, b))


def check_protocol(source):
    """What every source promises; returns all rows."""
    for name in ("kind", "n_rows", "has_labels", "ids", "labels", "batches", "describe", "fingerprint"):
        inspect.getattr_static(source, name)
    rows, ids, labels = read_all(source, 3)
    assert same(rows, read_all(source, 3)[0])
    for size in (1, 2, 100):
        other = read_all(source, size)
        assert same(other[0], rows)
        assert other[1:] == (ids, labels)
    for start in range(len(rows) + 2):
        later = read_all(source, 2, start)
        assert same(later[0], rows[start:])
        assert later[1] == ids[start:]
        assert later[2] == (None if labels is None or not later[0] else labels[start:])
    if source.n_rows is not None:
        assert source.n_rows == len(source) == len(rows)
        assert list(source.ids) == ids
        assert (source.labels is None) == (not source.has_labels)
        if rows:
            assert (None if source.labels is None else list(source.labels)) == labels
    assert source.describe()["kind"] == source.kind
    assert source.fingerprint() == source.fingerprint()
    return rows, ids, labels


def write_tar(path, members, mode="w"):
    """A tar file with these (name, bytes) members."""
    with tarfile.open(path, mode) as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path
