"""Picked images as a new folder."""

from __future__ import annotations

import errno
import json
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from gmmatch.cli.io.files import check_output, explained, same_place
from gmmatch.errors import InvalidInputError

if TYPE_CHECKING:
    from gmmatch.data.image_folder import ImageFolder
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
    target = output.absolute()
    temporary = target.with_name(f".gmmatch-{secrets.token_hex(8)}.tmp")
    names = list(dict.fromkeys(str(source.ids[row]) for row in rows.tolist()))
    try:
        with explained(output):
            temporary.mkdir()
            for name in names:
                place = temporary / name
                place.parent.mkdir(parents=True, exist_ok=True)
                put_image(source.folder / name, place, link)
            mark = {"source": str(source.folder.resolve()), "images": len(names)}
            (temporary / MARK).write_text(json.dumps(mark) + "\n", encoding="utf-8")
            take_place(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return len(names)


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


def take_place(temporary: Path, target: Path) -> None:
    """Rename a folder; an older one goes only when the new one is in its place."""
    if not target.exists():
        temporary.rename(target)
        return
    old = target.with_name(f".gmmatch-{secrets.token_hex(8)}.tmp")
    target.rename(old)
    try:
        temporary.rename(target)
    except OSError:
        old.rename(target)
        raise
    shutil.rmtree(old)
