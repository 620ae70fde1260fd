"""The pictures and texts behind the rows, as a page can hold them."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, to_numpy
from gmmatch.data.images import BrokenImageError, ImageFolder, load_image
from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.frames import count_rows, take_rows
from gmmatch.report.subject import count_of, shorten

if TYPE_CHECKING:
    from PIL.Image import Image

THUMBNAIL_SIDE = 128
_TEXT_LENGTH = 240
# Pictures below this side are shown pixel by pixel.
_SMALL_SIDE = 48
# Drawings and digits take fewer bytes than this without loss. A photograph of 32 pixels takes 1,800, and 740 at a
# quality of 95, which looks the same.
_LOSSLESS_BYTES = 1_000
# Where a file cannot be entered in its middle, going on is cheaper than starting again below this many rows.
_RESTART_ROWS = 2_000


@dataclass(frozen=True)
class Content:
    """What a row is.

    Attributes
    ----------
    kind : "image", "text" or "broken"
    value : str
        A ``data:`` address, the text, or why there is nothing to see.
    is_small : bool
        Whether a picture has so few pixels that they are shown as squares.
    """

    kind: Literal["image", "text", "broken"]
    value: str
    is_small: bool = False


def open_contents(source: Any, n: int, positions: Indices | None = None) -> Contents | None:
    """Return access to what the n rows are, or None if there is nothing to show.

    Parameters
    ----------
    source
        What :func:`gmmatch.write_report` takes.
    n : int
        How many rows there are.
    positions : array of shape (n,), optional
        Where each row is in the source, if that has more rows than were embedded.

    Examples
    --------
    >>> open_contents(["a", "b", "c"], 3).fetch(np.array([2]))
    {2: Content(kind='text', value='c', is_small=False)}
    """
    if source is None or isinstance(source, Contents):
        return source
    package = type(source).__module__.partition(".")[0]
    if isinstance(source, (str, os.PathLike)) or package == "datasets" or hasattr(type(source), "batches"):
        from gmmatch.data import open_source

        source = open_source(source)
        if source.kind == "embedding":
            return None
        n_items, name = source.n_rows, source.location
    else:
        n_items, name = count_rows(source, "source"), "source"
    needed = n if positions is None else int(positions.max(initial=-1)) + 1
    if (n_items != n) if positions is None else (n_items < needed):
        raise InvalidInputError(
            f"{name} has {n_items:,} rows, but there are {needed:,} to show: give the pictures or texts of the same "
            "rows, in the same order."
        )
    return Contents(source, positions)


class Contents:
    """Pictures or texts by row number; made by :func:`open_contents`."""

    def __init__(self, source: Any, positions: Indices | None) -> None:
        self._source = source
        self._positions = positions

    @property
    def folder(self) -> Path | None:
        """The folder of image files whose names in it are the ids of the rows, if that is what the rows are."""
        return self._source.folder.resolve() if isinstance(self._source, ImageFolder) else None

    def fetch(
        self, rows: Indices, *, side: int = THUMBNAIL_SIDE, length: int = _TEXT_LENGTH
    ) -> dict[int, Content]:
        """Return what these rows are, by row number: pictures of at most ``side`` pixels, texts of ``length``."""
        wanted = np.unique(rows)
        if not len(wanted):
            return {}
        positions = wanted if self._positions is None else self._positions[wanted]
        order = np.argsort(positions, kind="stable")
        if hasattr(type(self._source), "batches"):
            items = _read_source(self._source, positions[order])
        else:
            taken = take_rows(self._source, positions[order])
            items = (_item(taken, i) for i in range(len(wanted)))
        return {
            row: _content(item, side, length) for row, item in zip(wanted[order].tolist(), items, strict=True)
        }


def _item(taken: Any, i: int) -> Any:
    try:
        item = taken.iloc[i] if hasattr(taken, "iloc") else taken[i]
    except Exception as error:  # a dataset of someone else's may raise anything for one bad row
        return error
    return item[0] if isinstance(item, tuple) and item else item


def _read_source(source: Any, positions: Indices) -> Iterator[Any]:
    """Yield the rows at ascending positions."""
    from gmmatch.data.arrow_tables import HuggingFaceSource, ParquetSource

    if isinstance(source, (ImageFolder, HuggingFaceSource)):  # which go to any row at once
        for position in positions.tolist():
            yield next(source.batches(1, start=position)).rows[0]
        return
    stream: Iterator[Any] = iter(())
    first, rows = 0, list[Any]()
    for position in positions.tolist():
        is_far = isinstance(source, ParquetSource) and position - (first + len(rows)) > _RESTART_ROWS
        if position == int(positions[0]) or is_far:
            stream = source.batches(64, start=position)
            first, rows = position, []
        while position >= first + len(rows):
            batch = next(stream)
            first, rows = batch.start, batch.rows
        yield rows[position - first]


def _content(item: Any, side: int, length: int) -> Content:
    if isinstance(item, Exception):
        return Content("broken", shorten(item, length))
    if isinstance(item, str):
        return Content("text", shorten(item, length))
    try:
        return _thumbnail(_picture(item, side), side)
    except (BrokenImageError, InvalidTypeError) as error:
        return Content("broken", shorten(getattr(error, "reason", error), length))


def _picture(item: Any, side: int) -> Image:
    if isinstance(item, np.ndarray) or hasattr(item, "detach"):
        from PIL import Image

        return Image.fromarray(_pixels(to_numpy(item)))
    return load_image(item, side)


def _pixels(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return an array as 8-bit gray or RGB: height by width, with the channels last or first."""
    if array.ndim == 3 and array.shape[0] in (1, 3, 4) and array.shape[2] not in (1, 3, 4):
        array = np.moveaxis(array, 0, 2)
    if array.ndim == 3 and array.shape[2] in (1, 3, 4):
        array = array[:, :, 0] if array.shape[2] == 1 else array[:, :, :3]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] != 3) or 0 in array.shape:
        raise BrokenImageError("the array", f"an array of shape {array.shape} is no picture")
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    if array.dtype.kind not in "biuf":
        raise BrokenImageError("the array", f"an array of {array.dtype} is no picture")
    values = np.nan_to_num(np.asarray(array, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(values.min()), float(values.max())
    usual = 255.0 if array.dtype.kind in "iu" else 1.0
    if low >= 0.0 and high <= usual:
        low, high = 0.0, usual
    values = (values - low) / ((high - low) or 1.0)
    return np.ascontiguousarray((255.0 * values).round().astype(np.uint8))


def _thumbnail(picture: Image, side: int) -> Content:
    from PIL import features

    is_small = max(picture.size) < _SMALL_SIDE
    if not is_small:
        picture.thumbnail((side, side))
    # Pillow can be built without WebP, which is half as large.
    kind = "WEBP" if features.check("webp") else "PNG" if is_small else "JPEG"
    picture = picture.convert("RGB")
    data = _encode(picture, kind, lossless=True) if is_small else _encode(picture, kind, quality=72)
    if is_small and kind == "WEBP" and len(data) > _LOSSLESS_BYTES:
        data = _encode(picture, kind, quality=95)
    address = f"data:image/{kind.lower()};base64,{base64.b64encode(data).decode('ascii')}"
    return Content("image", address, is_small)


def _encode(picture: Image, kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def describe_contents(contents: dict[int, Content]) -> str:
    """Say how many pictures and texts a page holds; empty if there are none.

    Examples
    --------
    >>> describe_contents({3: Content("text", "a"), 5: Content("broken", "the file is empty")})
    '1 text; 1 could not be read'
    """
    kinds = [content.kind for content in contents.values()]
    shown = [
        count_of(kinds.count(kind), noun)
        for kind, noun in (("image", "picture"), ("text", "text"))
        if kind in kinds
    ]
    failed = [f"{kinds.count('broken'):,} could not be read"] if "broken" in kinds else []
    return "; ".join([" and ".join(shown), *failed] if shown else failed)
