"""Corrupted copies of image folders and of Parquet files with images."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmmatch.cli.io.files import put_image, written_folder
from gmmatch.errors import InvalidInputError
from gmmatch_paper.commands.corrupting import Advance, Touched
from gmmatch_paper.commands.corrupting_parquet import rewrite_parquet

if TYPE_CHECKING:
    from PIL.Image import Image

    from gmmatch.data.images import ImageFolder
    from gmmatch.types import Mask
    from gmmatch_paper.corruption.images import ImageCorruption
    from gmmatch_paper.corruption.labels import LabelNoise

Place = Callable[[int, Path], str | None]

_AT_A_TIME = 256
# Formats that can be written without loss, and JPEG at a quality that adds next to none.
_FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    **dict.fromkeys((".jpg", ".jpeg", ".jpe", ".jfif"), ("JPEG", {"quality": 95, "subsampling": 0})),
    **dict.fromkeys((".bmp", ".dib"), ("BMP", {})),
    **dict.fromkeys((".tif", ".tiff"), ("TIFF", {})),
    **dict.fromkeys((".ppm", ".pgm", ".pnm"), ("PPM", {})),
    ".png": ("PNG", {}),
    ".webp": ("WEBP", {"lossless": True}),
}


def corrupt_folder(
    source: ImageFolder, corruption: ImageCorruption, output: Path, advance: Advance, *, link: bool
) -> Touched:
    """Write a copy of a folder of images; it appears under its name when it is complete.

    Corrupted images keep their names and formats (JPEG at quality 95), all others are copied or linked as
    they are.
    """
    names = [str(name) for name in source.ids]
    mask = corruption.choose(len(names))
    _check_writable([name for name, corrupt in zip(names, mask.tolist(), strict=True) if corrupt])

    def place(row: int, target: Path) -> str | None:
        path = source.folder / names[row]
        if not mask[row]:
            put_image(path, target, link)
            return None
        format, options = _FORMATS[path.suffix.lower()]
        corrupted, kind = corruption.corrupt(open_picture(path), row)
        corrupted.save(target, format=format, **options)
        return kind

    kinds = _fill_folder(source, names, output, place, advance)
    return Touched(names, mask, kinds)


def move_images(
    source: ImageFolder, noise: LabelNoise, output: Path, advance: Advance, *, link: bool
) -> Touched:
    """Write a copy of a folder of images, some of them in the folder of another class."""
    import numpy as np

    from gmmatch.data.files import natural_key

    names, labels = [str(name) for name in source.ids], list(source.labels or [])
    result = noise.apply(np.array(labels, dtype=object))
    after = moved_names(names, labels, result.data.tolist(), result.mask)
    _fill_folder(
        source,
        after,
        output,
        lambda row, target: put_image(source.folder / names[row], target, link),
        advance,
    )
    # In the order in which the copy will be read.
    order = sorted(range(len(after)), key=lambda row: natural_key(after[row]))
    return Touched(
        ids=[after[row] for row in order],
        mask=result.mask[order],
        kinds=result.kinds[order],
        labels=[result.data[row] for row in order],
        original_labels=[labels[row] for row in order],
        source_ids=[names[row] for row in order],
    )


def moved_names(names: list[str], before: list[Any], after: list[Any], mask: Mask) -> list[str]:
    """Return where images go whose labels change: to the same place below the folder of their new class.

    A name that the source has already gets its old class appended, so that no file of the copy has the name
    of another one of the source.

    Examples
    --------
    >>> import numpy as np
    >>> mask = np.array([True, False])
    >>> moved_names(["cat/1.png", "dog/1.png"], ["cat", "dog"], ["dog", "dog"], mask)
    ['dog/1-from-cat.png', 'dog/1.png']
    """
    labelled = [(name, label) for name, label in zip(names, before, strict=True) if label is not None]
    on_top = all(name.startswith(f"{label}/") for name, label in labelled)
    taken, places = set(names), list(names)
    for row, moved in enumerate(mask.tolist()):
        if not moved:
            continue
        folders = names[row].split("/")
        folders[0 if on_top else 1] = str(after[row])
        target = wanted = Path(*folders)
        number = 1
        while target.as_posix() in taken:
            again = f"-{number}" if number > 1 else ""
            target = wanted.with_name(f"{wanted.stem}-from-{before[row]}{again}{wanted.suffix}")
            number += 1
        places[row] = target.as_posix()
        taken.add(places[row])
    return places


def _fill_folder(source: ImageFolder, names: list[str], output: Path, place: Place, advance: Advance) -> Any:
    """Let ``place(row, path)`` make each file, on every core; return the kind that it names, if any, of each row."""
    import numpy as np

    from gmmatch.rows.parallel import available_cores, map_in_order

    kinds: list[str] = []
    with written_folder(output, source.folder, len(names)) as temporary:
        for folder in dict.fromkeys((temporary / name).parent for name in names):
            folder.mkdir(parents=True, exist_ok=True)
        for start in range(0, len(names), _AT_A_TIME):
            count = min(_AT_A_TIME, len(names) - start)
            first = start  # bound now, as the threads look it up later

            def work(i: int, first: int = first) -> str:
                return place(first + i, temporary / names[first + i]) or ""

            kinds += map_in_order(work, count, available_cores())
            advance(start + count)
    return np.array(kinds)


def _check_writable(names: list[str]) -> None:
    for name in names:
        if Path(name).suffix.lower() not in _FORMATS:
            raise InvalidInputError(
                f"{name} would be corrupted, but its format cannot be written: convert it to .png first."
            )


def open_picture(item: Any) -> Image:
    """Decode a path or the bytes of an image; gray ones as mode L, all others as RGB.

    Parameters
    ----------
    item
        A path or :class:`gmmatch.data.ImageBytes`.
    """

    from gmmatch.data.images import load_image, open_image

    picture = load_image(item)
    with open_image(item if isinstance(item, Path) else io.BytesIO(item.data)) as opened:
        mode = opened.mode
    return picture.convert("L") if mode in ("1", "L", "LA", "La", "F") or mode.startswith("I") else picture


def corrupt_parquet(source: Any, corruption: ImageCorruption, output: Path, advance: Advance) -> Touched:
    """Write a copy of Parquet files, in which the bytes of some images are others.

    JPEGs stay JPEGs (of quality 95); all other formats become PNG.
    """
    import numpy as np
    import pyarrow as pa

    from gmmatch.rows.parallel import available_cores, map_in_order

    mask = corruption.choose(len(source))
    kinds = np.full(len(source), "", dtype="<U32")
    name = source.columns.data

    def change(batch: Any, first: int, folder: Path) -> Any:
        chosen = np.flatnonzero(mask[first : first + len(batch)]).tolist()
        if not chosen:
            return None
        images = source.table_batch(batch, first, folder).rows

        def work(i: int) -> bytes:
            corrupted, kinds[first + chosen[i]] = corruption.corrupt(
                open_picture(images[chosen[i]]), first + chosen[i]
            )
            return encoded(corrupted, images[chosen[i]])

        column = batch.column(name)
        values = column.to_pylist()
        for i, data in zip(chosen, map_in_order(work, len(chosen), available_cores()), strict=True):
            values[i] = {**values[i], "bytes": data} if isinstance(values[i], dict) else data
        return pa.array(values, column.type)

    rewrite_parquet(source, output, name, change, advance, rows_at_a_time=_AT_A_TIME)
    return Touched(list(source.ids), mask, kinds)


def encoded(picture: Image, original: Any) -> bytes:
    """Return a picture as the bytes of a file, a JPEG if the original was one and else a PNG."""
    from gmmatch.data.images import open_image

    with open_image(original if isinstance(original, Path) else io.BytesIO(original.data)) as opened:
        format, options = _FORMATS[".jpg" if opened.format == "JPEG" else ".png"]
    file = io.BytesIO()
    picture.save(file, format=format, **options)
    return file.getvalue()
