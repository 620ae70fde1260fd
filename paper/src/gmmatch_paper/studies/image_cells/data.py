"""The images of a study: arrays of bytes with labels, whatever form they come in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import GMMatchError, InvalidInputError
from gmmatch_paper.arrays import Indices
from gmmatch_paper.studies.image_cells.tiny_imagenet import is_tiny_imagenet, load_tiny_imagenet

if TYPE_CHECKING:
    from gmmatch.data import Source

BUILT_IN = "digits"
"""Scikit-learn's handwritten digits, enlarged to 16 pixels: what ``--quick`` runs on."""

_ARRAYS = ("x_train", "y_train", "x_test", "y_test")
_TEST_SPLITS = ("test", "validation", "valid", "val")
# Beside the names that any table's labels have: what CIFAR-100 calls its 100 classes on the hub.
_FINE_LABELS = "fine_label"


@dataclass(frozen=True, eq=False)
class ImageData:
    """Training and test images of one dataset.

    Attributes
    ----------
    name
        What to call it in tables.
    x_train, x_test
        Bytes of shape (n, height, width, channels).
    y_train, y_test
        Class numbers from 0, the true ones.
    human
        Other labels of the training images, by name, as people gave them.
    fingerprint
        Of everything above.
    how
        Which columns were read, where there were columns.
    """

    name: str
    x_train: NDArray[np.uint8]
    y_train: Indices
    x_test: NDArray[np.uint8]
    y_test: Indices
    human: dict[str, Indices] = field(default_factory=dict)
    fingerprint: str = ""
    how: str = ""

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return int(max(self.y_train.max(), self.y_test.max())) + 1

    @cached_property
    def images_fingerprint(self) -> str:
        """A hash of the images alone: what is computed from them holds whatever their labels are."""
        return digest_of([self.x_train, self.x_test])

    @property
    def image_size(self) -> int:
        """The longer side of an image."""
        return int(max(self.x_train.shape[1:3]))


@lru_cache(maxsize=2)  # a worker measures many cells of the same data
def load_images(
    spec: str,
    *,
    label_column: str | None = None,
    image_size: int | None = None,
    limit: int | None = None,
    test_limit: int | None = None,
) -> ImageData:
    """Return the images that a user names.

    Parameters
    ----------
    spec
        ``"digits"``; a ``.npz`` file with ``x_train``, ``y_train``, ``x_test``, ``y_test`` and perhaps
        ``labels_NAME``; or whatever :func:`gmmatch.data.open_source` opens with the splits ``train`` and
        ``test`` (or ``validation``): a folder of Parquet files or images, the name of a hub dataset; or the folder
        of Tiny-ImageNet as it is published, ``tiny-imagenet-200``. Images
        whose three channels are equal are gray.
    label_column
        The column of labels; by default one that is named like ``label``, else ``fine_label``.
    image_size
        Side to which images are scaled; needed where they differ in size.
    limit, test_limit
        Take the first so many images alone.
    """
    arrays, how = _arrays_of(spec, label_column, image_size, limit, test_limit)
    for name, count in (("train", limit), ("test", test_limit)):
        for key in [key for key in arrays if key.endswith(name) or (name == "train" and "labels_" in key)]:
            arrays[key] = arrays[key][:count]
    x_train, x_test = _as_images(arrays["x_train"], spec), _as_images(arrays["x_test"], spec)
    y_train, y_test = (np.asarray(arrays[key], dtype=np.int64) for key in ("y_train", "y_test"))
    for x, y, part in ((x_train, y_train, "train"), (x_test, y_test, "test")):
        if len(x) != len(y) or not len(x):
            raise InvalidInputError(f"--dataset {spec}: {len(x)} images and {len(y)} labels to {part} with.")
    human = {
        key.removeprefix("labels_"): np.asarray(value, dtype=np.int64)
        for key, value in arrays.items()
        if key.startswith("labels_")
    }
    fingerprint = digest_of([x_train, y_train, x_test, y_test, *(human[key] for key in sorted(human))])
    name = _shown(spec, limit, test_limit)
    return ImageData(name, x_train, y_train, x_test, y_test, human, fingerprint, how)


def _arrays_of(
    spec: str, label_column: str | None, image_size: int | None, limit: int | None, test_limit: int | None
) -> tuple[dict[str, NDArray[Any]], str]:
    """Return the arrays of a dataset, and which columns they were read from."""
    plain = spec == BUILT_IN or Path(spec).suffix == ".npz"
    if plain and label_column is not None:
        raise InvalidInputError(f"--label-column {label_column}: --dataset {spec} has no columns.")
    if plain:
        return (_digits() if spec == BUILT_IN else _from_npz(Path(spec))), ""
    if label_column is None and image_size is None and is_tiny_imagenet(Path(spec)):
        return load_tiny_imagenet(Path(spec), (limit, test_limit)), "Tiny-ImageNet, labels of its folders"
    try:
        location = f"hf:{spec}" if _is_hub_name(spec) else spec
        return _from_source(location, label_column, image_size, (limit, test_limit))
    except GMMatchError as error:
        if str(error).startswith("--"):
            raise
        raise type(error)(f"--dataset: {error}") from error


def digest_of(arrays: Iterable[NDArray[Any]]) -> str:
    """Return a hash of arrays and their shapes."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(str(array.shape).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:12]


def _is_hub_name(spec: str) -> bool:
    return spec.count("/") == 1 and ":" not in spec and not Path(spec).exists()


def _shown(spec: str, limit: int | None, test_limit: int | None) -> str:
    """Return a name without the folders of this machine."""
    name = spec if _is_hub_name(spec) else Path(spec).name
    # The folder as it is published is the same data as the hub's.
    name = "tiny-imagenet" if is_tiny_imagenet(Path(spec)) else name.removesuffix(".npz").rpartition("/")[2]
    parts = [f"{limit:,}"] if limit else []
    if test_limit is not None and test_limit > 1:  # maps take a single one, which nothing depends on
        parts.append(f"{test_limit:,} test")
    return f"{name} (first {' + '.join(parts)})" if parts else name


def _digits() -> dict[str, NDArray[Any]]:
    from sklearn.datasets import load_digits

    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    small = found.images[order]
    images = np.minimum(small * 16.0, 255.0).astype(np.uint8).repeat(2, axis=1).repeat(2, axis=2)[..., None]
    labels = found.target[order]
    # Stands for people who look too fast: the nearest class mean of a very coarse picture.
    coarse = small.reshape(-1, 2, 4, 2, 4).mean(axis=(2, 4)).reshape(len(small), -1)
    means = np.stack([coarse[labels == digit].mean(axis=0) for digit in range(10)])
    confused = np.linalg.norm(coarse[:, None] - means, axis=2).argmin(axis=1)
    n = 1297
    return {
        "x_train": images[:n],
        "y_train": labels[:n],
        "x_test": images[n:],
        "y_test": labels[n:],
        "labels_worse": confused[:n],
    }


def _from_npz(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as members:
            arrays = {key: members[key] for key in members.files}
    except FileNotFoundError:
        raise InvalidInputError(f"--dataset {path}: there is no such file.") from None
    except (ValueError, OSError) as error:
        raise InvalidInputError(f"--dataset {path} is not a .npz file of arrays: {error}.") from error
    missing = [key for key in _ARRAYS if key not in arrays]
    if missing:
        raise InvalidInputError(
            f"--dataset {path} has no {', '.join(missing)}: expected {', '.join(_ARRAYS)}, and labels_NAME "
            "for labels that people gave."
        )
    return arrays


def _from_source(
    spec: str, label_column: str | None, image_size: int | None, limits: tuple[int | None, int | None]
) -> tuple[dict[str, NDArray[Any]], str]:
    train = _open_split(spec, "train", label_column)
    for split in _TEST_SPLITS:
        try:
            test = _open_split(spec, split, label_column)
            break
        except GMMatchError:
            if split == _TEST_SPLITS[-1]:
                raise
    x_train, names = _read_split(train, spec, image_size, limits[0])
    x_test, test_names = _read_split(test, spec, image_size, limits[1])
    if x_train.shape[1:] == x_test.shape[1:] and all(map(_is_gray, (x_train, x_test))):
        # A gray picture is decoded as RGB; three channels would be corrupted each in its own way.
        x_train, x_test = x_train[..., :1], x_test[..., :1]
    known = {name: code for code, name in enumerate(sorted({*names, *test_names}))}
    arrays = {
        "x_train": x_train,
        "y_train": np.array([known[name] for name in names]),
        "x_test": x_test,
        "y_test": np.array([known[name] for name in test_names]),
    }
    return arrays, str(train.describe()["how"])


def _open_split(spec: str, split: str, label_column: str | None) -> Source:
    """Open a split with its labels: of the column that was named, or of the first one that is known."""
    from gmmatch.data import open_source

    source = open_source(spec, split=split, label_column=label_column)
    if label_column is None and not source.has_labels:
        with suppress(GMMatchError):
            source = open_source(spec, split=split, label_column=_FINE_LABELS)
    if source.kind != "image" or not source.has_labels:
        raise InvalidInputError(
            f"--dataset {spec}: expected images with labels; there are {source.describe()['how']}. --label-column "
            "names the column of labels."
        )
    return source


def _read_split(
    source: Source, spec: str, image_size: int | None, limit: int | None
) -> tuple[NDArray[np.uint8], list[Any]]:
    from PIL import Image

    from gmmatch.data import load_image

    images: NDArray[np.uint8] | None = None
    labels: list[Any] = []
    for batch in source.batches(1024):
        for row, label in zip(batch.rows, batch.labels or [], strict=True):
            picture = load_image(row)
            if image_size is not None and picture.size != (image_size, image_size):
                picture = picture.resize((image_size, image_size), Image.Resampling.BICUBIC)
            pixels = np.asarray(picture, dtype=np.uint8)
            if images is None:
                count = len(source.ids) if source.n_rows is None else source.n_rows
                images = np.empty(
                    (count if limit is None else min(count, limit), *pixels.shape), dtype=np.uint8
                )
            if pixels.shape != images.shape[1:]:
                raise InvalidInputError(
                    f"--dataset {spec}: its images differ in size; --image-size scales them to one."
                )
            images[len(labels)] = pixels
            labels.append(label)
            if len(labels) == len(images):
                return images, labels
    raise InvalidInputError(f"--dataset {spec}: a split has no images.")


def _is_gray(images: NDArray[np.uint8]) -> bool:
    return all(np.array_equal(images[..., 0], images[..., channel]) for channel in (1, 2))


def _as_images(array: NDArray[Any], spec: str) -> NDArray[np.uint8]:
    images = array[..., None] if array.ndim == 3 else array
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] not in (1, 3):
        raise InvalidInputError(
            f"--dataset {spec} holds images of shape {array.shape} and type {array.dtype}: expected bytes of "
            "shape (n, height, width) or (n, height, width, 1 or 3)."
        )
    return images
