"""WebDataset shards: tar files in which the members of a sample share a key.

``0001.jpg`` and ``0001.cls`` are the image and the label of the sample ``0001``. Members are read in
place and nothing is ever unpacked to the disk.
"""

# Not by `datasets`, which copies all shards into a cache, wants the same members of every sample, and takes a damaged
# header for the end of the file.

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from gmmatch.data.columns import ColumnRequest, ColumnType
from gmmatch.data.images import IMAGE_SUFFIXES
from gmmatch.data.tables import FileTable
from gmmatch.errors import InvalidInputError
from gmmatch.files import explain_damage
from gmmatch.groups import Label

# WebDataset's own rule: the key ends at the first dot of the file name.
_KEY = re.compile(r"^((?:.*/|)[^./]+)[.]([^/]*)$", re.DOTALL)
_TEXT_MEMBERS = ("txt", "text", "caption")
_KEYS = "__key__"  # the column of ids
_EXAMINED = 20
_LARGEST_MEMBER = 1 << 28
"""Bytes: what the largest picture that is decoded by default takes in memory."""
_LARGEST_NAME = 1 << 16


class WebShards(FileTable):
    """The samples of one or several tar files.

    The rows are the image members, or the ``.txt`` members if there are no images; a ``.cls`` member is
    the label, an integer if it reads as one. Keys are the ids. Columns are named by the members'
    suffixes, without the first dot: ``image_column="jpg"``.
    """

    format = "WebDataset"
    _images: Sequence[str] = ()

    def __init__(self, files: Sequence[Path], request: ColumnRequest, location: str) -> None:
        if request.id is not None:
            raise InvalidInputError(f"id_column={request.id!r}: the ids of {location} are its keys.")
        super().__init__(files, request, location)
        self.columns = replace(self.columns, id=_KEYS)
        self.how = f"tar files in WebDataset's layout: {self.how}"

    def _available(self, request: ColumnRequest) -> dict[str, ColumnType]:
        samples = islice(chain.from_iterable(map(_read_samples, self.files)), _EXAMINED)
        suffixes = dict.fromkeys(suffix for _, members in samples for suffix in members)
        if not suffixes:
            raise InvalidInputError(f"{self.location} holds no samples: no member is named like 0001.jpg.")
        available = {suffix: _member_type(suffix) for suffix in suffixes}
        images = [suffix for suffix, kind in available.items() if kind == "image"]
        if request.data() is None and images:
            # One data set may mix .jpg and .png; these are one column, not several.
            self._images = [suffix for suffix in images if "." not in suffix] or images[:1]
            available = {name: kind for name, kind in available.items() if kind != "image"}
            available[self._images[0]] = "image"
        if request.label in available:
            available[request.label] = "number"
        return available

    def _entries(
        self, path: Path, names: Sequence[str], skipped: int
    ) -> Iterator[tuple[str, list[Any] | str]]:
        suffixes = {name: self._images if name in self._images else [name] for name in names}
        wanted = set(chain.from_iterable(suffixes.values()))
        for key, members in _read_samples(path, wanted, skipped):
            present = ([members[suffix] for suffix in suffixes[name] if suffix in members] for name in names)
            cells = (self._decode(name, *same[:1]) for name, same in zip(names, present, strict=True))
            yield key, [key if name == _KEYS else cell for name, cell in zip(names, cells, strict=True)]

    def _decode(self, name: str, value: bytes | None = None) -> Any:
        if value is None or (self.kind == "image" and name == self.columns.data):
            return value
        return _label(value) if name == self.columns.label else value.decode("utf-8", "surrogateescape")


def _read_samples(
    path: Path, wanted: Collection[str] = (), skipped: int = 0
) -> Iterator[tuple[str, dict[str, bytes | None]]]:
    """Yield the key of each sample and its members by suffix; only the wanted are read, after some samples."""
    for number, (key, group) in enumerate(groupby(_members(path), key=itemgetter(0))):
        members: dict[str, bytes | None] = {}
        for _, suffix, content in group:
            if suffix in members:
                raise InvalidInputError(f"{path} has two members {key}.{suffix} in one sample.")
            members[suffix] = content() if suffix in wanted and number >= skipped else None
        yield key, members


def _label(value: bytes) -> Label:
    text = value.decode("utf-8", "replace").strip()
    return int(text) if text.removeprefix("-").isdecimal() else text or None


class _Header(tarfile.TarInfo):
    """The header of a member; a damaged one is an error, where Python takes it for the end of the file."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Header:
        try:
            header = super().frombuf(buf, encoding, errors)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]  # nothing but zeros
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"{error} of a member") from None
        if not header.isreg() and header.size > _LARGEST_NAME:  # Python reads a long name whole
            raise tarfile.ReadError(f"a header of {header.size:,} bytes")
        return header


def _members(path: Path) -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    """Yield the key and the suffix of each member, and a function that reads its content."""
    position, compressed = 0, path.suffix.lower() in (".gz", ".tgz")
    with (
        explain_damage(path, "tar file", position=lambda: f"after byte {position:,}: "),
        tarfile.open(path, "r:gz" if compressed else "r:", tarinfo=_Header) as tar,
    ):
        while (member := tar.next()) is not None:
            position = tar.offset
            tar.members = []  # type: ignore[attr-defined]  # or it would grow without end
            match = _KEY.match(member.name)
            hidden = any(folder.startswith(".") for folder in member.name.split("/") if folder != ".")
            if match is None or hidden or member.isdir():
                continue
            if not member.isfile():
                raise tarfile.ReadError(f"its member {member.name} is a link or a device: write it as a file")
            yield match[1].removeprefix("./"), match[2].lower(), partial(_content, path, tar, member)
        _check_rest(tar)


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
    with explain_damage(path, "tar file"):
        file = tar.extractfile(member)
        return b"" if file is None else file.read()


def _member_type(suffix: str) -> ColumnType:
    last = suffix.rpartition(".")[2]
    if f".{last}" in IMAGE_SUFFIXES:
        return "image"
    if suffix == "cls":
        return "number"
    return "text" if last in _TEXT_MEMBERS else "other"
