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

from gmmatch.data.images import BrokenImageError, ImageBytes, ImageFolder, load_image, open_image
from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.report.names import shown
from gmmatch.rows.taking import count_rows, take_rows
from gmmatch.types import Indices

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 128
_LONGEST_TEXT = 240
_SMALL = 48
# Drawings and digits take fewer bytes than this without loss. A photograph of 32 pixels takes 1,800, and 740 at a
# quality of 95, which looks the same.
_MOST_LOSSLESS = 1_000
# Where a file cannot be entered in its middle without reading on from a row group's start.
_WORTH_A_NEW_START = 2_000


@dataclass(frozen=True)
class Content:
    """What a row is."""

    kind: Literal["image", "text", "broken"]
    value: str  # a ``data:`` address, the text, or why there is nothing to see
    small: bool = False  # a picture of so few pixels that they are shown as squares


def contents_of(source: Any, n: int, positions: Indices | None = None) -> Contents | None:
    """Return access to what the n rows are, or None if there is nothing to show.

    A source is what :func:`gmmatch.report.write_report` takes; ``positions`` says where each row is in it, if it has
    more rows than were embedded.

    Examples
    --------
    >>> contents_of(["a", "b", "c"], 3).fetch(np.array([2]))
    {2: Content(kind='text', value='c', small=False)}
    """
    if source is None or isinstance(source, Contents):
        return source
    package = type(source).__module__.partition(".")[0]
    named = isinstance(source, (str, os.PathLike))
    if named or package == "datasets" or hasattr(type(source), "batches"):
        from gmmatch.data import open_source

        source = open_source(source)
        if source.kind == "embedding":
            return None
        _check_length(source.n_rows, n, positions, source.location)
        return Contents(source, positions)
    try:
        found = count_rows(source)
    except InvalidTypeError:
        raise InvalidTypeError(
            f"source has type {type(source).__name__}: give a path, what open_source returns, or a list of "
            "images or texts, one for each row."
        ) from None
    _check_length(found, n, positions, "source")
    return Contents(source, positions)


def _check_length(found: int | None, n: int, positions: Indices | None, name: str) -> None:
    if found is None:
        raise InvalidInputError(f"{name} is a stream, whose rows cannot be looked up: give a file or a list.")
    needed = n if positions is None else int(positions.max(initial=-1)) + 1
    if (found != n) if positions is None else (found < needed):
        raise InvalidInputError(
            f"{name} has {found:,} rows, but the selection was made from {needed:,}: give the pictures or texts of "
            "the same rows, in the same order."
        )


class Contents:
    """Pictures or texts by row number; made by :func:`contents_of`."""

    def __init__(self, source: Any, positions: Indices | None) -> None:
        self._source = source
        self._positions = positions

    def fetch(self, rows: Indices) -> dict[int, Content]:
        """Return what these rows are, by row number."""
        wanted = np.unique(rows)
        if not len(wanted):
            return {}
        places = wanted if self._positions is None else self._positions[wanted]
        order = np.argsort(places, kind="stable")
        if hasattr(type(self._source), "batches"):
            items = _from_source(self._source, places[order])
        else:
            taken = take_rows(self._source, places[order])
            items = (_at(taken, i) for i in range(len(wanted)))
        found = zip(wanted[order].tolist(), items, strict=True)
        return {row: _content(item) for row, item in found}


def _at(taken: Any, i: int) -> Any:
    try:
        item = taken.iloc[i] if hasattr(taken, "iloc") else taken[i]
    except Exception as error:  # a dataset of someone else's may raise anything for one bad row
        return error
    return item[0] if isinstance(item, tuple) and item else item


def _from_source(source: Any, places: Indices) -> Iterator[Any]:
    from gmmatch.data.hugging_face import HuggingFaceSource
    from gmmatch.data.tables import ParquetSource

    if isinstance(source, (ImageFolder, HuggingFaceSource)):  # which go to any row at once
        for place in places.tolist():
            yield next(source.batches(1, start=place)).rows[0]
        return
    stream: Iterator[Any] = iter(())
    first, rows = 0, list[Any]()
    for place in places.tolist():
        far = isinstance(source, ParquetSource) and place - (first + len(rows)) > _WORTH_A_NEW_START
        if place == int(places[0]) or far:
            stream = source.batches(64, start=place)
            first, rows = place, []
        while place >= first + len(rows):
            batch = next(stream)
            first, rows = batch.start, batch.rows
        yield rows[place - first]


def _content(item: Any) -> Content:
    if isinstance(item, Exception):
        return Content("broken", shown(item, _LONGEST_TEXT))
    if isinstance(item, str):
        return Content("text", shown(item, _LONGEST_TEXT))
    try:
        return _thumbnail(_picture(item))
    except (BrokenImageError, InvalidTypeError) as error:
        return Content("broken", shown(getattr(error, "reason", error), _LONGEST_TEXT))


def _picture(item: Any) -> Image:
    if hasattr(item, "detach"):  # a torch tensor
        from gmmatch.data.arrays import tensor_to_numpy

        item = tensor_to_numpy(item)
    if isinstance(item, np.ndarray):
        from PIL import Image

        return Image.fromarray(_pixels(item))
    return load_image(_drafted(item))


def _drafted(item: Any) -> Any:
    """A JPEG opened at a fraction of its size, which is many times faster for photographs."""
    if not isinstance(item, (ImageBytes, Path)):
        return item
    try:
        data = io.BytesIO(item.data) if isinstance(item, ImageBytes) else io.BytesIO(item.read_bytes())
        picture = open_image(data)
        picture.draft("RGB", (2 * SIDE, 2 * SIDE))
    except Exception:  # `load_image` says what is wrong
        return item
    return picture


def _pixels(array: NDArray[Any]) -> NDArray[np.uint8]:
    """An array as 8-bit gray or RGB: height by width, with the channels last or first."""
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
    if array.dtype.kind in "bf" and low >= 0.0 and high <= 1.0:
        low, high = 0.0, 1.0
    elif array.dtype.kind in "iu" and low >= 0.0 and high <= 255.0:
        low, high = 0.0, 255.0
    values = (values - low) / ((high - low) or 1.0)
    return np.ascontiguousarray((255.0 * values).round().astype(np.uint8))


def _thumbnail(picture: Image) -> Content:
    from PIL import features

    small = max(picture.size) < _SMALL
    if not small:
        picture.thumbnail((SIDE, SIDE))
    # Pillow can be built without WebP, which is half as large.
    kind = "WEBP" if features.check("webp") else "PNG" if small else "JPEG"
    picture = picture.convert("RGB")
    data = _saved(picture, kind, lossless=True) if small else _saved(picture, kind, quality=72)
    if small and kind == "WEBP" and len(data) > _MOST_LOSSLESS:
        data = _saved(picture, kind, quality=95)
    address = f"data:image/{kind.lower()};base64,{base64.b64encode(data).decode('ascii')}"
    return Content("image", address, small)


def _saved(picture: Image, kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def describe(contents: dict[int, Content]) -> str:
    """Say how many pictures and texts a page holds, in words; empty if there are none.

    Examples
    --------
    >>> describe({3: Content("text", "a"), 5: Content("broken", "the file is empty")})
    '1 text; 1 could not be read'
    """
    counts = {
        kind: sum(one.kind == kind for one in contents.values()) for kind in ("image", "text", "broken")
    }
    parts = [
        f"{counts[kind]:,} {what}{'' if counts[kind] == 1 else 's'}"
        for kind, what in (("image", "picture"), ("text", "text"))
        if counts[kind]
    ]
    said = [" and ".join(parts), f"{counts['broken']:,} could not be read" if counts["broken"] else ""]
    return "; ".join(part for part in said if part)
