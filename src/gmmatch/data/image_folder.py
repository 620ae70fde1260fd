"""A folder of image files; the sub-folders, if there are any, are the classes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from gmmatch.data.files import list_files, pick_split
from gmmatch.data.fingerprints import evenly_spaced, file_ends, fingerprint_of
from gmmatch.data.images import IMAGE_SUFFIXES
from gmmatch.data.source import BaseSource, Batch, Id
from gmmatch.errors import DataFileNotFoundError, InvalidInputError
from gmmatch.selection.labels import Label

_SAMPLED_FILES = 256


class ImageFolder(BaseSource):
    """The image files below a folder, in natural order (``img2`` before ``img10``).

    An image's id is its path relative to the folder. Its label is the name of the top sub-folder it
    lies in, as in torchvision; images directly in the folder have no label, and if all are there, the
    source has none. If all top sub-folders are named like splits (``train``, ``test``, ...), the classes
    are the folders below. Hidden files and files that are no images by their suffix are passed over.

    Parameters
    ----------
    folder
        Where the images are, at any depth.
    split
        Take the images below the sub-folder of this name only.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("dog/10.jpg", "dog/9.jpg", "cat/1.png"):
    ...         path = Path(folder, name)
    ...         path.parent.mkdir(exist_ok=True)
    ...         path.touch()
    ...     images = ImageFolder(folder)
    ...     images.ids, images.labels
    (['cat/1.png', 'dog/9.jpg', 'dog/10.jpg'], ['cat', 'dog', 'dog'])
    """

    kind = "image"
    format = "image folder"

    def __init__(self, folder: str | os.PathLike[str], *, split: str | None = None) -> None:
        self.folder = Path(folder)
        self.location = str(folder)
        if not self.folder.exists():
            raise DataFileNotFoundError(f"{self.location}: there is no such folder.")
        if not self.folder.is_dir():
            raise InvalidInputError(f"{self.location} is a file: give a folder of images.")
        others: Counter[str] = Counter()
        names = list_files(self.folder, lambda name: _is_image(name, others))
        if not names:
            raise InvalidInputError(_nothing_found(self.location, others))
        self._names, found = pick_split(names, split, self.location, by_name=False)
        self._skip = len(found) + 1 if found else 0
        self._has_labels = any("/" in name[self._skip :] for name in self._names)
        self.how = self._explain(found, others)

    def _explain(self, split: str | None, others: Counter[str]) -> str:
        parts = ["a folder with image files"]
        if split:
            parts.append(f"the split {split!r}")
        if self._has_labels:
            labels = self.labels or []
            bare = sum(label is None for label in labels)
            parts.append(f"the sub-folders are the classes ({len(set(labels)) - bool(bare)})")
            if bare:
                parts.append(f"images in none of them have no label ({bare})")
        if others:
            parts.append(f"other files passed over ({sum(others.values())})")
        return ", ".join(parts)

    @property
    def n_rows(self) -> int:
        """How many images there are."""
        return len(self._names)

    @property
    def has_labels(self) -> bool:
        """Whether there are sub-folders."""
        return self._has_labels

    @property
    def ids(self) -> Sequence[Id]:
        """The paths relative to the folder."""
        return self._names

    @property
    def labels(self) -> Sequence[Label] | None:
        """The names of the sub-folders; None if there are none."""
        return [self._label(name) for name in self._names] if self._has_labels else None

    def _label(self, name: str) -> Label:
        top, slash, _ = name[self._skip :].partition("/")
        return top if slash else None

    def fingerprint(self) -> str:
        """Hash all paths and sizes, and the ends of up to 256 files spread over the folder."""
        parts: list[str | int | bytes | None] = ["image folder"]
        for name in self._names:
            path = os.path.join(self.folder, name)  # noqa: PTH118 (strings are faster, and there are many)
            parts.extend((name, os.path.getsize(path) if os.path.exists(path) else -1))  # noqa: PTH110, PTH202
        for position in evenly_spaced(len(self._names), _SAMPLED_FILES):
            path = os.path.join(self.folder, self._names[position])  # noqa: PTH118
            parts.append(file_ends(path)[1] if os.path.isfile(path) else None)  # noqa: PTH113
        return fingerprint_of(parts)

    def _pieces(self, start: int, size_hint: int) -> Iterator[Batch]:
        for first in range(start, len(self._names), size_hint):
            names = self._names[first : first + size_hint]
            labels = [self._label(name) for name in names] if self._has_labels else None
            yield Batch([self.folder / name for name in names], list(names), labels, first)


def _is_image(name: str, others: Counter[str]) -> bool:
    suffix = os.path.splitext(name)[1].lower()  # noqa: PTH122
    if suffix in IMAGE_SUFFIXES:
        return True
    others[suffix] += 1
    return False


def _nothing_found(location: str, others: Counter[str]) -> str:
    if not others:
        return f"{location} is empty: give a folder with images in it."
    seen = ", ".join(f"{count:,} {suffix or 'without a suffix'}" for suffix, count in others.most_common(3))
    return f"{location} holds no images, only other files ({seen})."
