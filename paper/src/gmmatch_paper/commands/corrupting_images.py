"""Corrupted copies of folders of images."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gmmatch.data import load_image
from gmmatch.errors import InvalidInputError
from gmmatch_paper.arrays import Mask
from gmmatch_paper.commands.corrupting import Advance, Changes, Job
from gmmatch_paper.commands.outputs import copy_image, writing_folder
from gmmatch_paper.parallel import map_in_threads

if TYPE_CHECKING:
    from PIL.Image import Image

_AT_A_TIME = 256
# Formats that can be written without loss, and JPEG at a quality that adds next to none.
FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    **dict.fromkeys((".jpg", ".jpeg", ".jpe", ".jfif"), ("JPEG", {"quality": 95, "subsampling": 0})),
    **dict.fromkeys((".bmp", ".dib"), ("BMP", {})),
    **dict.fromkeys((".tif", ".tiff"), ("TIFF", {})),
    **dict.fromkeys((".ppm", ".pgm", ".pnm"), ("PPM", {})),
    ".png": ("PNG", {}),
    ".webp": ("WEBP", {"lossless": True}),
}


def corrupt_folder(job: Job, advance: Advance) -> Changes:
    """Write a copy of a folder of images; it appears under its name when it is complete.

    Corrupted images keep their names and formats (JPEG at quality 95), all others are copied or linked as they are.
    """
    names = [str(name) for name in job.source.ids]
    mask = job.corruption.choose(len(names))
    for row in np.flatnonzero(mask).tolist():
        if Path(names[row]).suffix.lower() not in FORMATS:
            raise InvalidInputError(
                f"{names[row]} would be corrupted, but its format cannot be written: convert it to .png first."
            )

    def write(row: int, target: Path) -> str:
        path = job.path / names[row]
        if not mask[row]:
            copy_image(path, target, link=job.link)
            return ""
        format, options = FORMATS[path.suffix.lower()]
        corrupted, kind = job.corruption.corrupt(open_picture(path), row)
        corrupted.save(target, format=format, **options)
        return str(kind)

    return Changes(names, mask, _fill_folder(job, names, write, advance))


def move_images(job: Job, advance: Advance) -> Changes:
    """Write a copy of a folder of images, some of them in the folder of another class."""
    names, labels = [str(name) for name in job.source.ids], list(job.source.labels)
    result = job.corruption.apply(np.array(labels, dtype=object))
    after = moved_names(names, labels, result.data.tolist(), result.mask)

    def write(row: int, target: Path) -> str:
        copy_image(job.path / names[row], target, link=job.link)
        return ""

    _fill_folder(job, after, write, advance)
    # In the order in which the copy will be read.
    order = sorted(range(len(after)), key=lambda row: natural_key(after[row]))
    return Changes(
        ids=[after[row] for row in order],
        mask=result.mask[order],
        kinds=result.kinds[order],
        labels=[result.data[row] for row in order],
        original_labels=[labels[row] for row in order],
        source_ids=[names[row] for row in order],
    )


def natural_key(name: str) -> tuple[Any, ...]:
    """Return a sort key that orders numbers in a name by their value, folder by folder.

    Examples
    --------
    >>> sorted(["cat/10.png", "cat/9.png"], key=natural_key)
    ['cat/9.png', 'cat/10.png']
    """
    parts = [re.split(r"(\d+)", part) for part in name.split("/")]
    return tuple(
        tuple((int(text), text) if text.isdigit() else (-1, text) for text in part) for part in parts
    )


def moved_names(names: list[str], before: list[Any], after: list[Any], mask: Mask) -> list[str]:
    """Return where images go whose labels change: to the same name below the folder of their new class.

    A name that the source has already gets its old class appended, so that no file of the copy has the name of
    another one of the source.

    Examples
    --------
    >>> mask = np.array([True, False])
    >>> moved_names(["cat/1.png", "dog/1.png"], ["cat", "dog"], ["dog", "dog"], mask)
    ['dog/1-from-cat.png', 'dog/1.png']
    """
    labeled = [(name, label) for name, label in zip(names, before, strict=True) if label is not None]
    on_top = all(name.startswith(f"{label}/") for name, label in labeled)
    taken, targets = set(names), list(names)
    for row in np.flatnonzero(mask).tolist():
        folders = names[row].split("/")
        folders[0 if on_top else 1] = str(after[row])
        target = wanted = Path(*folders)
        number = 1
        while target.as_posix() in taken:
            again = f"-{number}" if number > 1 else ""
            target = wanted.with_name(f"{wanted.stem}-from-{before[row]}{again}{wanted.suffix}")
            number += 1
        targets[row] = target.as_posix()
        taken.add(targets[row])
    return targets


def _fill_folder(job: Job, names: list[str], write: Callable[[int, Path], str], advance: Advance) -> Any:
    """Let ``write(row, path)`` make each file, on every core; return the kind that it names for each row."""
    kinds: list[str] = []
    with writing_folder(job.output, job.path) as temporary:
        for folder in dict.fromkeys((temporary / name).parent for name in names):
            folder.mkdir(parents=True, exist_ok=True)
        for start in range(0, len(names), _AT_A_TIME):
            rows = range(start, min(len(names), start + _AT_A_TIME))
            kinds += map_in_threads(lambda row: write(row, temporary / names[row]), rows)
            advance(rows.stop)
    return np.array(kinds)


def open_picture(item: Any) -> Image:
    """Decode a path or :class:`gmmatch.data.ImageBytes`; gray images as mode L, all others as RGB."""
    picture, mode = load_image(item), _opened(item).mode
    return picture.convert("L") if mode in ("1", "L", "LA", "La", "F") or mode.startswith("I") else picture


def encode_like(picture: Image, original: Any) -> bytes:
    """Return a picture as the bytes of a file: a JPEG if the original was one, else a PNG."""
    format, options = FORMATS[".jpg" if _opened(original).format == "JPEG" else ".png"]
    file = io.BytesIO()
    picture.save(file, format=format, **options)
    return file.getvalue()


def _opened(item: Any) -> Image:
    """Return an image of which only the header is read."""
    from PIL import Image

    with Image.open(item if isinstance(item, Path) else io.BytesIO(item.data)) as opened:
        return opened
