"""Tiny-ImageNet as it is published: a folder of 200 classes, with the labels of the validation images in a table."""

from __future__ import annotations

from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError

_ANNOTATIONS = Path("val", "val_annotations.txt")


def is_tiny_imagenet(folder: Path) -> bool:
    """Return whether this is the folder ``tiny-imagenet-200``, or one that holds it."""
    return (_root(folder) / _ANNOTATIONS).is_file()


def load_tiny_imagenet(
    folder: Path, limits: tuple[int | None, int | None] = (None, None)
) -> dict[str, NDArray[Any]]:
    """Return the training images and, to test on, the validation images; those for testing have no labels.

    Parameters
    ----------
    folder
        With ``train/CLASS/images/*.JPEG``, ``val/images/*.JPEG`` and ``val/val_annotations.txt``.
    limits
        Take so many training and test images: of every class in turn, so that few images have all classes.
    """
    root = _root(folder)
    classes = sorted(path.name for path in (root / "train").iterdir() if path.is_dir())
    codes = {name: code for code, name in enumerate(classes)}
    train = [
        [(path, codes[name]) for path in sorted((root / "train" / name / "images").iterdir())]
        for name in classes
    ]
    test: list[list[tuple[Path, int]]] = [[] for _ in classes]
    for line in (root / _ANNOTATIONS).read_text(encoding="utf-8").splitlines():
        file, name = line.split("\t")[:2]
        test[codes[name]].append((root / "val" / "images" / file, codes[name]))
    arrays = {}
    for split, groups, limit in (("train", train, limits[0]), ("test", test, limits[1])):
        chosen = [row for row in chain.from_iterable(zip_longest(*groups)) if row is not None][:limit]
        if not chosen:
            raise InvalidInputError(f"--dataset {folder}: a split has no images.")
        arrays[f"x_{split}"] = np.stack([_pixels(path) for path, _ in chosen])
        arrays[f"y_{split}"] = np.array([code for _, code in chosen])
    return arrays


def _root(folder: Path) -> Path:
    inner = folder / "tiny-imagenet-200"
    return inner if inner.is_dir() else folder


def _pixels(path: Path) -> NDArray[np.uint8]:
    from PIL import Image

    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"), dtype=np.uint8)
