"""A picture of every kind of image corruption at every severity, on images that ship with scikit-learn.

``python -m gmmatch_paper.corruption.gallery corruptions.png`` draws it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gmmatch_paper.corruption.images import ImageCorruption
from gmmatch_paper.corruption.kinds import CLASSIFICATION_KINDS, GENERATION_KINDS

SIDE = 64
GAP, TOP, LEFT = 4, 28, 18  # pixels between the images, and for the texts beside them
DPI = 100
KINDS = tuple(dict.fromkeys(CLASSIFICATION_KINDS + GENERATION_KINDS))


def panels(seed: int = 0) -> NDArray[np.uint8]:
    """Return the images of the picture, (6, kinds, 64, 64, 3): the originals, then each severity in a row."""
    from sklearn.datasets import load_sample_image

    squares = []
    for name, left in (("china.jpg", 110), ("flower.jpg", 200)):
        square = load_sample_image(name)[:384, left : left + 384]
        squares.append(np.rint(square.reshape(SIDE, 6, SIDE, 6, 3).mean(axis=(1, 3))).astype(np.uint8))
    originals = np.stack([squares[number % 2] for number in range(len(KINDS))])
    rows = [originals]
    for severity in range(1, 6):
        corruptions = [ImageCorruption(kind=kind, severity=severity, seed=seed) for kind in KINDS]
        rows.append(np.stack([one.corrupt(originals[i], i)[0] for i, one in enumerate(corruptions)]))
    return np.stack(rows)


def draw(path: str | Path, seed: int = 0) -> None:
    """Draw the picture into a ``.png`` file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    images, step = panels(seed), SIDE + GAP
    sheet = np.full((len(images) * step - GAP, len(KINDS) * step - GAP, 3), 255, dtype=np.uint8)
    for row, column in np.ndindex(images.shape[:2]):
        sheet[row * step : row * step + SIDE, column * step : column * step + SIDE] = images[row, column]
    height, width = sheet.shape[0] + TOP, sheet.shape[1] + LEFT
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="white")
    # Laid out so that a pixel of an image is one of the picture.
    axes = figure.add_axes((LEFT / width, 0.0, sheet.shape[1] / width, sheet.shape[0] / height))
    axes.imshow(sheet, interpolation="nearest", aspect="auto")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labeltop=True, labelbottom=False, labelsize=7, pad=2)
    middles = [SIDE // 2 + number * step for number in range(len(KINDS))]
    axes.set_xticks(middles, [kind.replace("-", "\n") for kind in KINDS], linespacing=0.95)
    axes.set_yticks(middles[: len(images)], ["original", *"12345"], rotation=90, va="center")
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    picture = Image.fromarray(np.array(canvas.buffer_rgba())[..., :3].copy())
    # 256 colors, dithered, show all that there is to see in half of the bytes.
    few = picture.quantize(palette=picture.quantize(256, method=Image.Quantize.FASTOCTREE))
    few.save(path, format="PNG", optimize=True)


if __name__ == "__main__":
    draw(sys.argv[1])
