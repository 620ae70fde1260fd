"""Picked images as a new folder."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gmmatch.cli.io.files import check_output, explained, same_place
from gmmatch.errors import InvalidInputError
from gmmatch.files import replacing_folder

if TYPE_CHECKING:
    from gmmatch.data.images import ImageFolder
    from gmmatch.types import Indices

# Hidden, so that no reader of image folders sees it. Its presence is what lets --force delete a folder.
MARK = ".gmmatch-export.json"


def check_folder(output: Path, source: Path, *, force: bool) -> None:
    """Raise unless picked images may go to this folder.

    Parameters
    ----------
    output
        The new folder.
    source
        Where the images are.
    force
        Whether a folder of an earlier export is replaced. Others never are.
    """
    if same_place(output, source):
        raise InvalidInputError(
            f"--output {output} and {source} lie within each other: choose another folder."
        )
    check_output(output, force=force, folder=True)
    if output.is_dir() and any(output.iterdir()) and not (output / MARK).is_file():
        raise InvalidInputError(
            f"--output {output} holds files that gmmatch did not write, so not even --force replaces it: "
            "choose another folder."
        )


def export_images(source: ImageFolder, rows: Indices, output: Path, *, link: bool) -> int:
    """Copy or link these images of a folder, under a temporary name until all are there.

    Parameters
    ----------
    source
        The images.
    rows
        Which of them; one that is there twice is written once.
    output
        The new folder.
    link
        Whether to link instead of copying.

    Returns
    -------
    int
        How many files were written.
    """
    names = list(dict.fromkeys(str(source.ids[row]) for row in rows.tolist()))
    with written_folder(output, source.folder, len(names)) as temporary:
        for name in names:
            place = temporary / name
            place.parent.mkdir(parents=True, exist_ok=True)
            put_image(source.folder / name, place, link)
    return len(names)


@contextmanager
def written_folder(output: Path, source: Path, n_images: int) -> Iterator[Path]:
    """Yield a temporary folder that gets its mark and takes its place if all goes well."""
    with explained(output), replacing_folder(output) as temporary:
        yield temporary
        mark = {"source": str(source.resolve()), "images": n_images}
        (temporary / MARK).write_text(json.dumps(mark) + "\n", encoding="utf-8")


def put_image(image: Path, place: Path, link: bool) -> None:
    """Copy an image, or link to it; a link that the file system refuses becomes a symbolic one."""
    if not image.is_file():
        raise InvalidInputError(f"{image} is missing: the folder has changed since its files were listed.")
    if not link:
        shutil.copy2(image, place)
        return
    try:
        place.hardlink_to(image.resolve())
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
            raise
        place.symlink_to(image.resolve())
