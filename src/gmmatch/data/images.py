"""Encoded images, how each of them becomes an RGB picture, and folders of image files.

Sources hand images on as they are stored (a path, or bytes with a name), so that decoding can happen
later and in parallel; :func:`load_image` is the one place where it does.
"""

from __future__ import annotations

import io
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import sample_indices
from gmmatch.data.columns import Columns
from gmmatch.data.files import file_ends, fingerprint_of, pick_split
from gmmatch.data.source import ImageBytes
from gmmatch.data.tables import BaseSource, Records
from gmmatch.errors import InvalidInputError, InvalidTypeError, imported
from gmmatch.groups import Label

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGE_SUFFIXES = frozenset(
    (
        *(".avif", ".bmp", ".dib", ".gif", ".j2k", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg"),
        *(".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"),
    )
)
"""The file types that count as images, in lower case."""

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "DIB", "TIFF", "PPM", "JPEG2000", "AVIF")
"""The formats behind these suffixes. No other is tried: for an EPS file Pillow would start Ghostscript."""

JPEG_SCALE = 2
"""How many times the size needed a large JPEG file is decoded at, at least. Vectors depend on it."""

_SAMPLED_FILES = 256
_ORIENTATION = 0x0112
_ALPHA_MODES = ("RGBA", "RGBa", "LA", "La", "PA")
_COLOR_KEY_MODES = ("1", "L", "RGB", "P")


class BrokenImageError(InvalidInputError):
    """An image cannot be read; the message says which one and why.

    Attributes
    ----------
    name
        The file or row.
    reason
        What was wrong with it.

    Examples
    --------
    >>> print(BrokenImageError("cat.jpg", "the file is empty"))
    cat.jpg is not a readable image: the file is empty.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)  # both, so that the error survives being pickled
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.name} is not a readable image: {self.reason}."


def load_image(item: Any, edge: int | None = None) -> Image:
    """Decode an image as 8-bit RGB.

    Parameters
    ----------
    item
        A path, :class:`ImageBytes`, the bytes of an image file, or a PIL image.
    edge
        The edge to which the picture will be resized: a JPEG file whose edges are at least four times as long is
        decoded at a half, a quarter or an eighth of its size, still twice the edge or more, in less time.

    Returns
    -------
    PIL.Image.Image
        Of mode RGB, upright, with all its pixels loaded.

    Raises
    ------
    BrokenImageError
        If it cannot be decoded; it names the file or row.

    Notes
    -----
    - The orientation that a camera recorded (EXIF) is applied.
    - Transparent pixels are put on white, as a web page would show them; a plain conversion would show
      whatever color lies hidden under them, often black.
    - 16-bit gray is scaled from 0–65535 to 0–255. Other gray pictures of wide range (32-bit integers,
      floating point) are stretched from their smallest to their largest value; floating point within
      0–1 is taken as it is. Pixels that are not numbers become 0.
    - An animation gives its first frame, CMYK is converted without a color profile.
    - A picture of more pixels than ``PIL.Image.MAX_IMAGE_PIXELS`` (89 million) is refused before it is decoded: a
      small file can unfold into more memory than there is. Set that number to allow more.

    Examples
    --------
    >>> from PIL import Image
    >>> load_image(Image.new("RGBA", (2, 1), (255, 0, 0, 0))).getpixel((0, 0))
    (255, 255, 255)
    """
    picture_type = pillow().Image
    if isinstance(item, bytes):
        item = ImageBytes(item, "an image given as bytes")
    if not isinstance(item, (picture_type, ImageBytes, str, os.PathLike)):
        raise InvalidTypeError(
            f"item has type {type(item).__name__}: give a path, the bytes of an image file, or a PIL image."
        )
    if isinstance(item, picture_type):
        with _name_broken("the image"):
            return _as_rgb(item)
    data, name = item if isinstance(item, ImageBytes) else (None, str(item))
    if data == b"":
        raise BrokenImageError(name, "there is no image")
    with (
        _name_broken(name),
        # From memory: an open file allocates as many bytes as a damaged one asks for, not as many as there are.
        io.BytesIO(Path(name).read_bytes() if data is None else data) as file,
        open_image(file) as picture,
    ):
        if edge is not None:
            picture.draft(None, (JPEG_SCALE * edge, JPEG_SCALE * edge))  # None: the mode stays
        return _as_rgb(picture)


@contextmanager
def _name_broken(name: str) -> Iterator[None]:
    """Say which image cannot be read; Pillow's decoders raise whatever a damaged file leads them to."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split()).rstrip(".")
        raise BrokenImageError(name, reason or type(error).__name__) from None


def pillow() -> Any:
    """Return the part of Pillow that opens images, or name the extra that brings it."""
    imported("PIL", "Reading images needs Pillow", "vision")
    from PIL import Image

    return Image


def open_image(file: Any) -> Image:
    """Let Pillow open a file, as one of the formats that it decodes by itself, if it is not too large."""
    from PIL import Image, UnidentifiedImageError

    Image.init()
    try:
        picture = Image.open(file, formats=[name for name in FORMATS if name in Image.OPEN])
        n_pixels = picture.width * picture.height
    except UnidentifiedImageError:
        empty = not file.seek(0, io.SEEK_END)
        reason = "the file is empty" if empty else "it is in no known image format, or damaged"
        raise InvalidInputError(reason) from None
    except Image.DecompressionBombError as error:  # by Pillow itself, only from twice that number on
        n_pixels = int(re.findall("[0-9]+", str(error))[0])
    limit: int | None = Image.MAX_IMAGE_PIXELS
    if limit is not None and n_pixels > limit:
        raise InvalidInputError(
            f"it has {n_pixels:,} pixels, and {limit:,} are allowed; if it can be trusted, allow more by "
            "--max-pixels (in Python, PIL.Image.MAX_IMAGE_PIXELS)"
        )
    return picture


def allow_pixels(limit: int | None) -> None:
    """Let pictures have so many pixels in this process, which must be one of our own."""
    pillow().MAX_IMAGE_PIXELS = limit


def _upright(picture: Image) -> Image:
    from PIL import ImageOps

    try:
        if picture.getexif().get(_ORIENTATION, 1) == 1:
            return picture  # `exif_transpose` would copy it
        return ImageOps.exif_transpose(picture)
    except Exception:  # damaged notes about a picture do not make it a damaged picture
        return picture


def _as_rgb(picture: Image) -> Image:
    from PIL import Image

    picture.load()
    picture = _upright(picture)
    mode = picture.mode
    if mode in _ALPHA_MODES or (mode in _COLOR_KEY_MODES and "transparency" in picture.info):
        rgba = picture.convert("RGBA")
        white = Image.new("RGBA", rgba.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, rgba).convert("RGB")
    if mode == "F" or mode.startswith("I"):
        return Image.fromarray(_as_bytes(picture)).convert("RGB")
    # `convert` copies even where there is nothing to do; a picture that shares an open file must be copied.
    return picture.convert("RGB")


def _as_bytes(picture: Image) -> NDArray[np.uint8]:
    """Gray values of more than eight bits as eight bits."""
    values = np.nan_to_num(np.asarray(picture, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(values.min()), float(values.max())
    # Pillow reads 16-bit PNG and PGM files as mode "I" in some versions.
    sixteen_bits = picture.mode.startswith("I;16") or (
        picture.mode == "I" and picture.format in ("PNG", "PPM") and low >= 0.0 and high <= 65535.0
    )
    if sixteen_bits:
        low, high = 0.0, 65535.0
    elif picture.mode == "F" and low >= 0.0 and high <= 1.0:
        low, high = 0.0, 1.0
    return np.rint((values - low) * (255.0 / max(high - low, 1e-300))).astype(np.uint8)


class ImageFolder(BaseSource):
    """The image files below a folder, in natural order (``img2`` before ``img10``).

    An image's id is its path relative to the folder. Its label is the name of the top sub-folder it
    lies in, as in torchvision; images directly in the folder have no label, and if all are there, the
    source has none. If all top sub-folders are named like splits (``train``, ``test``, ...), the classes
    are the folders below. Hidden files and files that are no images by their suffix are passed over.
    """

    format = "image folder"
    ids: list[str]

    def __init__(self, folder: Path, files: Sequence[str], split: str | None, location: str) -> None:
        self.folder, self.location = folder, location
        names = list(filter(is_image, files))
        if not files:
            raise InvalidInputError(f"{location} is empty: give a folder with images in it.")
        if not names:
            suffixes = Counter(Path(name).suffix.lower() for name in files).most_common(3)
            counts = (f"{count:,} {suffix or 'without a suffix'}" for suffix, count in suffixes)
            raise InvalidInputError(f"{location} holds no images, only other files ({', '.join(counts)}).")
        self.ids, chosen = pick_split(names, split, location, by_name=False)
        self.n_rows = len(self.ids)
        self._skip = len(chosen) + 1 if chosen else 0
        labels = list(map(self._label, self.ids))
        classes, bare = set(labels) - {None}, labels.count(None)
        self.labels = labels if classes else None
        remarks = {
            "a folder with image files": True,
            f"the split {chosen!r}": chosen,
            f"the sub-folders are the classes ({len(classes)})": classes,
            f"images in none of them have no label ({bare})": classes and bare,
            f"other files passed over ({len(files) - len(names)})": len(files) > len(names),
        }
        how = ", ".join(fact for fact, holds in remarks.items() if holds)
        self._take(Columns("image", "file", ("file",), "label" if classes else None, "id", how))

    def _label(self, name: str) -> Label:
        top, slash, _ = name[self._skip :].partition("/")
        return top if slash else None

    def relabeled(self, name: str, label: Label) -> str:
        """Return the path that an image would have with another label."""
        rest = name[self._skip :]
        return f"{name[: self._skip]}{label}/{rest.partition('/')[2] or rest}"

    def fingerprint(self) -> str:
        """Hash all paths and sizes, and the ends of up to 256 files spread over the folder."""
        paths = [os.path.join(self.folder, name) for name in self.ids]  # noqa: PTH118 (faster, and there are many)
        sizes = (os.stat(path).st_size if os.path.exists(path) else -1 for path in paths)  # noqa: PTH110, PTH116
        sampled = [paths[position] for position in sample_indices(len(paths), _SAMPLED_FILES)]
        ends = (file_ends(path)[1] if os.path.isfile(path) else None for path in sampled)  # noqa: PTH113
        parts: list[str | int | bytes | None] = ["image folder"]
        for name_and_size in zip(self.ids, sizes, strict=True):
            parts += name_and_size
        return fingerprint_of([*parts, *ends])

    def _records(self, names: list[str], start: int, size: int) -> Iterator[Records]:
        for first in range(start, len(self.ids), size):
            rows = slice(first, first + size)
            ids, labels = self.ids[rows], (self.labels or ())[rows]
            files = [self.folder / name for name in ids]
            yield Records({"file": files, "id": ids, "label": labels}, len(ids), first, self.location)


def is_image(name: str) -> bool:
    """Tell whether a file is an image by its suffix."""
    return os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES  # noqa: PTH122
