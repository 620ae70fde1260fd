"""WebDataset shards: tar files in which the members of a sample share a key.

``0001.jpg`` and ``0001.cls`` are the image and the label of the sample ``0001``. Members are read in
place and nothing is ever unpacked to the disk.
"""

from __future__ import annotations

import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from gmmatch.data.columns import ColumnRequest, Columns, ColumnType, choose_columns
from gmmatch.data.files import damaged, files_fingerprint
from gmmatch.data.images import IMAGE_SUFFIXES, ImageBytes
from gmmatch.data.source import BaseSource, Batch, Id
from gmmatch.errors import InvalidInputError
from gmmatch.groups import Label

# WebDataset's own rule: the key ends at the first dot of the file name.
_KEY = re.compile(r"^((?:.*/|)[^./]+)[.]([^/]*)$", re.DOTALL)
_TEXT_MEMBERS = ("txt", "text", "caption")
_EXAMINED = 20
_DAMAGE = (tarfile.TarError, EOFError, zlib.error, OSError)


@dataclass
class _Sample:
    key: str
    shard: Path
    members: dict[str, bytes | None] = field(default_factory=dict)


class WebShards(BaseSource):
    """The samples of one or several tar files.

    The rows are the image members, or the ``.txt`` members if there are no images; a ``.cls`` member is
    the label, an integer if it reads as one. Keys are the ids. Columns are named by the members'
    suffixes, without the first dot: ``image_column="jpg"``.
    """

    format = "WebDataset"

    def __init__(self, files: Sequence[Path], request: ColumnRequest, location: str) -> None:
        self.files, self.location = list(files), location
        for path in self.files:
            _check_whole(path)
        self._images: tuple[str, ...] = ()
        self.columns = self._choose(request)
        self.kind = self.columns.kind
        self.how = f"tar files in WebDataset's layout: {self.columns.how}"

    def _choose(self, request: ColumnRequest) -> Columns:
        if request.id is not None:
            raise InvalidInputError(f"id_column={request.id!r}: the ids of {self.location} are its keys.")
        available: dict[str, ColumnType] = {}
        for number, sample in enumerate(self._samples(read=())):
            available |= {suffix: _member_type(suffix) for suffix in sample.members}
            if number == _EXAMINED:
                break
        if not available:
            raise InvalidInputError(f"{self.location} holds no samples: no member is named like 0001.jpg.")
        images = [suffix for suffix, kind in available.items() if kind == "image"]
        if request.data() is None and images:
            # One data set may mix .jpg and .png; these are one column, not several.
            self._images = tuple(suffix for suffix in images if "." not in suffix) or tuple(images[:1])
            available = {name: kind for name, kind in available.items() if kind != "image"} | {
                self._images[0]: "image"
            }
        if request.label in available:
            available[request.label] = "number"
        columns = choose_columns(available, request, self.location)
        if columns.kind == "embedding":
            raise InvalidInputError(f"{self.location}: tar files are read for images and text.")
        self._images = self._images or ((columns.data,) if columns.kind == "image" else ())
        return columns

    def _samples(self, read: tuple[str | None, ...], start: int = 0) -> Iterator[_Sample]:
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
    def _index(self) -> list[tuple[Id, Label]]:
        """The keys and labels; found in one pass over the members' headers."""
        return [(sample.key, self._label(sample)) for sample in self._samples(read=(self.columns.label,))]

    @cached_property
    def n_rows(self) -> int:
        """How many samples there are."""
        return len(self._index)

    @property
    def has_labels(self) -> bool:
        """Whether there are label members."""
        return self.columns.label is not None

    @cached_property
    def ids(self) -> Sequence[Id]:
        """The keys."""
        return [key for key, _ in self._index]

    @cached_property
    def labels(self) -> Sequence[Label] | None:
        """The contents of the label members."""
        return [label for _, label in self._index] if self.has_labels else None

    def _label(self, sample: _Sample) -> Label:
        data = sample.members.get(self.columns.label or "")
        if data is None:
            return None
        text = data.decode("utf-8", "replace").strip()
        try:
            return int(text)
        except ValueError:
            return text or None

    def fingerprint(self) -> str:
        """Hash the sizes and ends of all shards, and the choice of members."""
        return files_fingerprint(self.files, "webdataset", *self.columns.settings())

    def _pieces(self, start: int, size_hint: int) -> Iterator[Batch]:
        wanted = (*self._images, self.columns.data, self.columns.label)
        for row, sample in enumerate(self._samples(wanted, start), start):
            labels = [self._label(sample)] if self.has_labels else None
            yield Batch([self._row(sample)], [sample.key], labels, row)

    def _row(self, sample: _Sample) -> ImageBytes | str:
        name = f"{sample.key} of {sample.shard}"
        if self.kind == "image":
            data = next((sample.members[suffix] for suffix in self._images if suffix in sample.members), None)
            return ImageBytes(data or b"", name)
        text = sample.members.get(self.columns.data)
        try:
            return (text or b"").decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidInputError(f"{name} is not UTF-8 text ({error.reason}).") from None


def _members(path: Path) -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    """Yield the key and the suffix of each member, and a function that reads its content."""
    try:
        with tarfile.open(path) as tar:
            while (member := tar.next()) is not None:
                tar.members = []  # type: ignore[attr-defined]  # or it would grow without end
                match = _KEY.match(member.name)
                hidden = any(folder.startswith(".") for folder in member.name.split("/") if folder != ".")
                if match is None or hidden or not member.isfile():
                    continue
                yield match[1].removeprefix("./"), match[2].lower(), partial(_content, path, tar, member)
    except _DAMAGE as error:
        raise damaged(path, "tar file", error) from None


def _content(path: Path, tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    try:
        file = tar.extractfile(member)
        return b"" if file is None else file.read()
    except _DAMAGE as error:
        raise damaged(path, "tar file", error) from None


def _check_whole(path: Path) -> None:
    """Raise unless a file ends as a tar file must.

    Python's tarfile takes a file that is cut between two members, or within a header, for a whole one.
    """
    if path.suffix.lower() != ".tar":
        return
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1024))
        if size < 1024 or file.read().strip(b"\0"):
            raise damaged(path, "tar file", "its end is missing")


def _member_type(suffix: str) -> ColumnType:
    last = suffix.rpartition(".")[2]
    if f".{last}" in IMAGE_SUFFIXES:
        return "image"
    if suffix == "cls":
        return "number"
    return "text" if last in _TEXT_MEMBERS else "other"
