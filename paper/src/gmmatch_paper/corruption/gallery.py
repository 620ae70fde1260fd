"""A picture of every kind of image corruption at every severity, on images that ship with scikit-learn.

``python -m gmmatch_paper.corruption.gallery corruptions.png`` draws it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError, MissingDependencyError, install_command
from gmmatch_paper.corruption.images import ImageCorruption
from gmmatch_paper.corruption.kinds import CLASSIFICATION_KINDS, GENERATION_KINDS

SIDE = 64
GAP, TOP, LEFT = 4, 28, 18  # pixels between the images, and for the texts beside them
DPI = 100
SEVERITIES = (1, 2, 3, 4, 5)
KINDS = tuple(dict.fromkeys(CLASSIFICATION_KINDS + GENERATION_KINDS))


def sample_images(count: int) -> NDArray[np.uint8]:
    """Return squares of the two photos that ship with scikit-learn, 64 pixels wide, in turns.

    Examples
    --------
    >>> sample_images(3).shape
    (3, 64, 64, 3)
    """
    from sklearn.datasets import load_sample_image

    squares = []
    for name, left in (("china.jpg", 110), ("flower.jpg", 200)):
        square = load_sample_image(name)[:384, left : left + 384]
        means = square.reshape(SIDE, 6, SIDE, 6, 3).mean(axis=(1, 3))
        squares.append(np.rint(means).astype(np.uint8))
    return np.stack([squares[number % 2] for number in range(count)])


def panels(seed: int = 0) -> NDArray[np.uint8]:
    """Return the images of the picture: the originals, then each severity in a row, a column per kind.

    Returns
    -------
    uint8 array of shape (6, kinds, 64, 64, 3)

    Examples
    --------
    >>> panels().shape
    (6, 9, 64, 64, 3)
    """
    originals = sample_images(len(KINDS))
    rows = [originals]
    for severity in SEVERITIES:
        corruptions = [ImageCorruption(kind=kind, severity=severity, seed=seed) for kind in KINDS]
        rows.append(np.stack([one.corrupt(originals[i], i)[0] for i, one in enumerate(corruptions)]))
    return np.stack(rows)


def draw(path: str | Path, seed: int = 0) -> None:
    """Draw the picture.

    Parameters
    ----------
    path
        A ``.png`` file.
    seed
        Of the corruptions.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw(Path(folder, "corruptions.png"))
    ...     Path(folder, "corruptions.png").stat().st_size < 300_000
    True
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from PIL import Image
    except ImportError as error:
        raise MissingDependencyError(
            f"The picture needs matplotlib and Pillow: {install_command('report,vision')}."
        ) from error
    sheet = _sheet(panels(seed))
    height, width = sheet.shape[0] + TOP, sheet.shape[1] + LEFT
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="white")
    # Laid out so that a pixel of an image is one of the picture.
    axes = figure.add_axes((LEFT / width, 0.0, sheet.shape[1] / width, sheet.shape[0] / height))
    axes.imshow(sheet, interpolation="nearest", aspect="auto")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labeltop=True, labelbottom=False, labelsize=7, pad=2)
    middles = [SIDE // 2 + number * (SIDE + GAP) for number in range(len(KINDS))]
    axes.set_xticks(middles, [kind.replace("-", "\n") for kind in KINDS], linespacing=0.95)
    axes.set_yticks(
        middles[: len(SEVERITIES) + 1], ["original", *map(str, SEVERITIES)], rotation=90, va="center"
    )
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    picture = Image.fromarray(np.array(canvas.buffer_rgba())[..., :3].copy())
    # 256 colours, dithered, show all that there is to see in half of the bytes.
    few = picture.quantize(palette=picture.quantize(256, method=Image.Quantize.FASTOCTREE))
    few.save(path, format="PNG", optimize=True)


def _sheet(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The panels side by side, with white between them."""
    rows, columns = images.shape[:2]
    step = SIDE + GAP
    sheet = np.full((rows * step - GAP, columns * step - GAP, 3), 255, dtype=np.uint8)
    for row in range(rows):
        for column in range(columns):
            top, left = row * step, column * step
            sheet[top : top + SIDE, left : left + SIDE] = images[row, column]
    return sheet


def main(arguments: list[str]) -> None:
    """Draw the picture to the file that the command line names."""
    if len(arguments) != 1 or not arguments[0].lower().endswith(".png"):
        raise InvalidInputError("usage: python -m gmmatch_paper.corruption.gallery FILE.png")
    draw(arguments[0])


if __name__ == "__main__":
    main(sys.argv[1:])
