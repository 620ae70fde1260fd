"""WebDataset shards: tar files in which the members of a sample share a key.

``0001.jpg`` and ``0001.cls`` are the image and the label of the sample ``0001``. Members are read in
place and nothing is ever unpacked to the disk.
"""

# Not by `datasets`, which copies all shards into a cache, wants the same members of every sample, and takes a damaged
# header for the end of the file.

from __future__ import annotations

import re
import tarfile
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from gmmatch._threads import cached_property
from gmmatch.data.columns import ColumnRequest, ColumnType
from gmmatch.data.files import damaged
from gmmatch.data.images import IMAGE_SUFFIXES
from gmmatch.data.source import Id
from gmmatch.data.tables import Records, TableSource
from gmmatch.errors import InvalidInputError
from gmmatch.groups import Label

# WebDataset's own rule: the key ends at the first dot of the file name.
_KEY = re.compile(r"^((?:.*/|)[^./]+)[.]([^/]*)$", re.DOTALL)
_TEXT_MEMBERS = ("txt", "text", "caption")
_EXAMINED = 20
_LARGEST_MEMBER = 1 << 28
"""Bytes: what the largest picture that is decoded by default takes in memory."""
_LARGEST_NAME = 1 << 16
_DAMAGE = (tarfile.TarError, EOFError, zlib.error, OSError, ValueError)


@dataclass
class _Sample:
    key: str
    shard: Path
    members: dict[str, bytes | None] = field(default_factory=dict)


class WebShards(TableSource):
    """The samples of one or several tar files.

    The rows are the image members, or the ``.txt`` members if there are no images; a ``.cls`` member is
    the label, an integer if it reads as one. Keys are the ids. Columns are named by the members'
    suffixes, without the first dot: ``image_column="jpg"``.
    """

    format = "WebDataset"

    def __init__(self, files: Sequence[Path], request: ColumnRequest, location: str) -> None:
        self.files, self.location = list(files), location
        if request.id is not None:
            raise InvalidInputError(f"id_column={request.id!r}: the ids of {self.location} are its keys.")
        available: dict[str, ColumnType] = {}
        for sample in islice(self._samples(read=()), _EXAMINED):
            available |= {suffix: _member_type(suffix) for suffix in sample.members}
        if not available:
            raise InvalidInputError(f"{self.location} holds no samples: no member is named like 0001.jpg.")
        images = [suffix for suffix, kind in available.items() if kind == "image"]
        if request.data() is None and images:
            # One data set may mix .jpg and .png; these are one column, not several.
            images = [suffix for suffix in images if "." not in suffix] or images[:1]
            available = {name: kind for name, kind in available.items() if kind != "image"} | {
                images[0]: "image"
            }
        if request.label in available:
            available[request.label] = "number"
        self._choose(available, request)
        self._same = {self.columns.data: images} if request.data() is None and images else {}
        self.how = f"tar files in WebDataset's layout: {self.how}"

    def _samples(self, read: Collection[str], start: int = 0) -> Iterator[_Sample]:
        """Yield the samples from number ``start`` on, with the contents of the members in ``read``."""
        number = -1
        for path in self.files:
            sample: _Sample | None = None
            for key, suffix, content in _members(path):
                if sample is None or key != sample.key:
                    if sample is not None and number >= start:
                        yield sample
                    sample = _Sample(key, path)
                    number += 1
                if suffix in sample.members:
                    raise InvalidInputError(f"{path} has two members {key}.{suffix} in one sample.")
                sample.members[suffix] = content() if suffix in read and number >= start else None
            if sample is not None and number >= start:
                yield sample

    @cached_property
    def n_rows(self) -> int:
        """How many samples there are; found in one pass over the members' headers."""
        return len(self._ids_and_labels[0])

    @property
    def ids(self) -> Sequence[Id]:
        """The keys."""
        return self._ids_and_labels[0]

    def _ids_of(self, records: Records) -> list[Id]:
        return list(records.columns["__key__"])

    def _records(self, names: list[str], start: int, size: int) -> Iterator[Records]:
        members = {name: self._same.get(name, [name]) for name in names}
        samples = self._samples({suffix for same in members.values() for suffix in same}, start)
        while piece := list(islice(samples, size)):
            columns: dict[str, list[Any]] = {"__key__": [sample.key for sample in piece]}
            for name, same in members.items():
                values = [
                    next((sample.members[suffix] for suffix in same if suffix in sample.members), None)
                    for sample in piece
                ]
                columns[name] = [self._decoded(name, value) for value in values]
            yield Records(columns, len(piece), start, partial(_sample_name, piece))
            start += len(piece)

    def _decoded(self, name: str, value: bytes | None) -> Any:
        if value is None or (self.kind == "image" and name == self.columns.data):
            return value
        return _label(value) if name == self.columns.label else value.decode("utf-8", "surrogateescape")


def _sample_name(samples: Sequence[_Sample], i: int) -> str:
    return f"{samples[i].key} of {samples[i].shard}"


def _label(value: bytes) -> Label:
    text = value.decode("utf-8", "replace").strip()
    try:
        return int(text)
    except ValueError:
        return text or None


class _Header(tarfile.TarInfo):
    """The header of a member; a damaged one is an error, where Python takes it for the end of the file."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Header:
        if len(buf) < tarfile.BLOCKSIZE:
            raise tarfile.ReadError("its end is missing")
        if not any(buf):
            return super().frombuf(buf, encoding, errors)  # which says that it is the end
        try:
            header = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"{error} of a member") from None
        if not header.isreg() and header.size > _LARGEST_NAME:  # Python reads a long name whole
            raise tarfile.ReadError(f"a header of {header.size:,} bytes")
        return header


def _members(path: Path) -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    """Yield the key and the suffix of each member, and a function that reads its content."""
    position = 0
    compressed = path.suffix.lower() in (".gz", ".tgz")
    try:
        with tarfile.open(path, "r:gz" if compressed else "r:", tarinfo=_Header) as tar:
            while (member := tar.next()) is not None:
                position = tar.offset
                tar.members = []  # type: ignore[attr-defined]  # or it would grow without end
                match = _KEY.match(member.name)
                hidden = any(folder.startswith(".") for folder in member.name.split("/") if folder != ".")
                if match is None or hidden or member.isdir():
                    continue
                if not member.isfile():
                    raise tarfile.ReadError(
                        f"its member {member.name} is a link or a device: write it as a file"
                    )
                yield match[1].removeprefix("./"), match[2].lower(), partial(_content, path, tar, member)
            _check_rest(tar)
    except _DAMAGE as error:
        if isinstance(error, InvalidInputError):
            raise
        raise damaged(path, "tar file", f"after byte {position:,}: {error}") from None


def _check_rest(tar: tarfile.TarFile) -> None:
    """Raise unless nothing but zeros follows the first block of them, which ends the members."""
    file, n_zeros = tar.fileobj, 0
    assert file is not None
    while block := file.read(1 << 16):
        if any(block):
            raise tarfile.ReadError("more follows its end, maybe another tar file")
        n_zeros += len(block)
    if n_zeros < tarfile.BLOCKSIZE:
        raise tarfile.ReadError("its end is missing")


def _content(path: Path, tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    if member.size > _LARGEST_MEMBER:
        raise InvalidInputError(
            f"{path}: {member.name} has {member.size:,} bytes, and {_LARGEST_MEMBER:,} are the most that a member "
            "may have: leave it out."
        )
    try:
        file = tar.extractfile(member)
        return b"" if file is None else file.read()
    except _DAMAGE as error:
        raise damaged(path, "tar file", error) from None


def _member_type(suffix: str) -> ColumnType:
    last = suffix.rpartition(".")[2]
    if f".{last}" in IMAGE_SUFFIXES:
        return "image"
    if suffix == "cls":
        return "number"
    return "text" if last in _TEXT_MEMBERS else "other"
