"""Maps of embeddings: measured per corruption, drawn as scatter plots."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch_paper.corruption.kinds import GENERATION_KINDS
from gmmatch_paper.studies import style
from gmmatch_paper.studies.image_cells.cell import Given, Places, limited_threads
from gmmatch_paper.studies.image_cells.corruptions import CorruptionSpec
from gmmatch_paper.studies.image_cells.data import ImageData
from gmmatch_paper.studies.results import Cells, Results
from gmmatch_paper.studies.study import Grid, Measured, Part, Table

MAP_CORRUPTIONS = ("none", *(f"image-{kind}:45%" for kind in GENERATION_KINDS))
"""Clean, and the five kinds of the paper's figure."""

_SHARES = {
    "same_class": "same class",
    "same_class_clean": "same class, of clean images",
    "corrupt_near_corrupt": "corrupted, of corrupted images",
    "corrupt_near_clean": "corrupted, of clean images",
}
_NEIGHBOURS = 10
_SAMPLES = 6
CODE = "maps-1"


@dataclass(frozen=True)
class MeasureMap:
    """What a worker calls for every map."""

    places: Places

    def __call__(self, *, dataset: str, data: str, encoder: str, corruption: str, seed: int) -> Measured:
        """Embed, find neighbors, lay out in the plane."""
        with limited_threads(self.places.threads):
            return self._measure(corruption, seed)

    def _measure(self, corruption: str, seed: int) -> Measured:
        given = Given.of(self.places, self.places.plan.proxy, corruption, "fast", seed)
        rows = np.asarray(given.embedded().train, dtype=np.float32)
        near = nearest_rows(rows, _NEIGHBOURS)
        noisy, corrupt, labels = given.noisy, given.noisy.corrupt, given.images.y_train
        shown = np.flatnonzero(corrupt)[:_SAMPLES] if corrupt.any() else np.arange(_SAMPLES)
        return {
            "points": np.round(layout(rows, seed), 1),
            "labels": labels,
            "corrupt": corrupt.astype(int),
            "same_class": float((labels[near] == labels[:, None]).mean()),
            "same_class_clean": float((labels[near] == labels[:, None])[~corrupt].mean()),
            "corrupt_near_corrupt": float(corrupt[near][corrupt].mean()) if corrupt.any() else 0.0,
            "corrupt_near_clean": float(corrupt[near][~corrupt].mean()),
            "samples": [packed(image) for image in noisy.images[shown]],
            "sample_shape": list(noisy.images.shape[1:]),
        }


def nearest_rows(rows: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """Return the ``count`` nearest other rows of every row."""
    from sklearn.neighbors import NearestNeighbors

    found: NDArray[np.intp] = NearestNeighbors(n_neighbors=count).fit(rows).kneighbors(return_distance=False)
    return found


def layout(rows: NDArray[np.float32], seed: int) -> NDArray[np.float64]:
    """Return a point in the plane for every row, by t-SNE after PCA."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    dimensions = min(50, *rows.shape)
    reduced = PCA(dimensions, random_state=seed).fit_transform(rows) if rows.shape[1] > dimensions else rows
    perplexity = min(30.0, (len(rows) - 1) / 4)
    points: NDArray[np.float64] = TSNE(random_state=seed, perplexity=perplexity, n_jobs=1).fit_transform(
        reduced
    )
    return points


def packed(image: NDArray[np.uint8]) -> str:
    """Return an image as a short text."""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(image).tobytes(), 9)).decode("ascii")


def unpacked(text: str, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return the image of a text that :func:`packed` made."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=np.uint8).reshape(shape)


def maps_part(places: Places, data: ImageData) -> Part:
    """Return the maps of a plan as a part that the runner measures."""
    plan, proxy = places.plan, places.plan.proxy
    vary = {
        "dataset": (data.name,),
        "data": (data.fingerprint + proxy.fingerprint(),),
        "encoder": (proxy.name,),
        "corruption": plan.corruptions,
    }
    grid = Grid(vary, seeds=plan.seeds)
    return Part("maps", MeasureMap(places), quick=grid, full=grid, code=CODE)


def map_tables(results: Results, paper: tuple[str, ...]) -> list[Table]:
    """Return one table per dataset and encoder: what the neighbors of clean and of corrupted images are."""
    tables = []
    for dataset, encoder, cells in _groups(results):
        rows = [
            [CorruptionSpec.parse(cell["corruption"]).words, *(f"{100 * cell[name]:.1f}" for name in _SHARES)]
            for cell in cells
        ]
        caption = f"{dataset}, features of `{encoder}`: shares of the ten nearest neighbors, in percent."
        tables.append(Table(caption, ("corruption", *_SHARES.values()), rows))
    return tables


def draw_maps(results: Results) -> Any:
    """Draw the maps of the first dataset and encoder: classes by color, corrupted images as crosses."""
    _, _, cells = _groups(results)[0]
    figure = style.new_figure(5.4)
    axes = figure.subplots(2, 3)
    for panel, letter, cell in zip(axes.flat, "abcdef", cells, strict=False):
        points, labels = np.array(cell["points"]), np.array(cell["labels"])
        corrupt = np.array(cell["corrupt"], dtype=bool)
        dots, crosses = {"s": 7, "linewidths": 0}, {"s": 9, "linewidths": 0.5, "marker": "x"}
        for rows, look in ((~corrupt, dots), (corrupt, crosses)):
            panel.scatter(*points[rows].T, c=labels[rows], cmap="tab10", vmin=0, vmax=9, **look)
        panel.set(xticks=(), yticks=())
        panel.set_title(f"({letter})  {_title(cell['corruption'])}")
    for panel in list(axes.flat)[len(cells) :]:
        panel.set_axis_off()
    axes.flat[0].scatter([], [], color=style.BLACK, s=20, linewidths=0, label="clean image")
    axes.flat[0].scatter([], [], color=style.BLACK, s=25, marker="x", linewidths=1, label="corrupted image")
    style.legend(figure, axes.flat[0], ncols=2)
    return figure


def draw_samples(results: Results) -> Any:
    """Draw a few images of every kind."""
    _, _, cells = _groups(results)[0]
    figure = style.new_figure(0.85 * len(cells))
    axes = figure.subplots(len(cells), _SAMPLES, squeeze=False)
    for row, cell in zip(axes, cells, strict=True):
        for panel, text in zip(row, cell["samples"], strict=True):
            image = unpacked(text, tuple(cell["sample_shape"]))
            panel.imshow(image[..., 0] if image.shape[2] == 1 else image, cmap="gray", vmin=0, vmax=255)
            panel.set(xticks=(), yticks=())
        label = row[0].set_ylabel(_title(cell["corruption"]), rotation=0, ha="right", va="center")
        label.set_wrap(False)
    return figure


def _title(corruption: str) -> str:
    spec = CorruptionSpec.parse(corruption)
    return "Clean" if spec.kind == "none" else f"{spec.detail.replace('-', ' ').capitalize()}"


def _groups(results: Results) -> list[tuple[str, str, Cells]]:
    cells = Cells(cell for cell in results["maps"] if "error" not in cell and cell["seed"] == 0)
    pairs = dict.fromkeys((cell["dataset"], cell["encoder"]) for cell in cells)
    return [(dataset, encoder, cells.where(dataset=dataset, encoder=encoder)) for dataset, encoder in pairs]


PICTURES = {"": draw_maps, "-samples": draw_samples}
