"""The map: rows of many numbers as points on a plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError, MissingDependencyError
from gmmatch.rows.rows import Rows
from gmmatch.types import Indices, Vector

ProjectionName: TypeAlias = Literal["pca", "tsne", "umap"]
"""How rows become points: principal components, t-SNE or UMAP."""

# What a browser draws without a pause, what t-SNE and UMAP do in well under a minute.
MOST_POINTS: dict[ProjectionName, int] = {"pca": 50_000, "tsne": 4_000, "umap": 20_000}
# Of so few rows t-SNE takes a few seconds, and is made without being asked for.
SMALL = 2_000
# With fewer neighbours there is nothing but principal components.
_FEWEST = 5
# Axes found from as many rows are those of all rows, to the width of a pixel.
_FITTED_ROWS = 20_000
_CENTRE_ROWS = 2_000
# t-SNE and UMAP work on distances, which as many directions hold nearly whole.
_KEPT_DIRECTIONS = 50
# A row that lies as many median distances out would turn the axes towards itself.
_FAR = 10.0
_EDGE = 1e6
# Instead of scikit-learn's 1,000: on 2,000 images the ten neighbors on the map then vote for the right class in 63.6%
# instead of 64.4% of the cases, in a third of the time.
_ITERATIONS = 400


@dataclass(frozen=True, eq=False)
class Projection:
    """Points on the plane."""

    points: NDArray[
        np.float32
    ]  # shape (m, 2), NaN where a row is not on it; PCA in units of the median distance
    name: str
    explanation: str  # what its axes are, in a sentence or two

    def among(self, positions: Indices, n: int) -> Projection:
        """Return the same for n rows, of which those at ``positions`` are the ones that were placed."""
        if len(positions) == n:
            return self
        points = np.full((n, 2), np.nan, dtype=np.float32)
        points[positions] = self.points
        said = f"{self.explanation} A random sample of {len(positions):,} rows."
        return Projection(points, self.name, said)


def check_projection(name: str | None) -> None:
    """Raise unless a map goes by that name and can be made.

    Examples
    --------
    >>> check_projection("pac")
    Traceback (most recent call last):
    gmmatch.errors.InvalidInputError: projection='pac': expected 'pca', 'tsne' or 'umap'.
    """
    if name is not None and name not in get_args(ProjectionName):
        raise InvalidInputError(f"projection={name!r}: expected 'pca', 'tsne' or 'umap'.")
    if name == "umap":
        _umap()


def offered(asked: ProjectionName | None, n: int) -> list[ProjectionName]:
    """Return the maps that a page of n points offers: what was asked for first, PCA always.

    Examples
    --------
    >>> offered(None, 500), offered(None, 50_000), offered("tsne", 50_000), offered("pca", 500)
    (['pca', 'tsne'], ['pca'], ['tsne', 'pca'], ['pca'])
    """
    if asked == "pca" or n < _FEWEST:
        return ["pca"]
    if asked is None:
        return ["pca", "tsne"] if n <= SMALL else ["pca"]
    return [asked, "pca"]


def project(rows: Rows, drawn: Indices, projection: ProjectionName, seed: int) -> Projection:
    """Place the rows that are drawn on a plane.

    Examples
    --------
    >>> line = Rows(np.outer(np.arange(5.0), [3.0, 4.0]))
    >>> bool(np.allclose(project(line, np.arange(5), "pca", seed=0).points[:, 1], 0.0, atol=1e-6))
    True
    """
    places, explanation = _principal(rows, drawn, 2 if projection == "pca" else _KEPT_DIRECTIONS, seed)
    if projection == "pca":
        return Projection(places, "PCA", explanation)
    if projection == "tsne":
        found, name = _tsne(places, seed), "t-SNE"
    else:
        found, name = _umap().UMAP(n_components=2, random_state=seed, n_jobs=1).fit_transform(places), "UMAP"
    return Projection(
        np.asarray(found, dtype=np.float32),
        name,
        "Neighbors on the map are neighbors in the data; distances between groups mean little.",
    )


def _principal(rows: Rows, drawn: Indices, wanted: int, seed: int) -> tuple[NDArray[np.float32], str]:
    """Coordinates along the main directions, found without the rows that lie very far out."""
    random = np.random.default_rng(seed)
    centre, scale = _centre_and_scale(rows, drawn, random)
    fitted = (
        drawn if len(drawn) <= _FITTED_ROWS else np.sort(random.choice(drawn, _FITTED_ROWS, replace=False))
    )
    near = _scaled(rows, fitted, centre, scale)
    inside = np.einsum("ij,ij->i", near, near, dtype=np.float64) <= _FAR**2
    n_far = int((~inside).sum())
    near = near[inside] if 0 < n_far < len(near) else near
    mean, axes, share = _axes(near, wanted, seed)
    points = np.zeros((len(drawn), max(2, len(axes))), dtype=np.float32)
    step = max(1, (1 << 22) // rows.n_features)
    for start in range(0, len(drawn), step):
        block = _scaled(rows, drawn[start : start + step], centre, scale)
        points[start : start + step, : len(axes)] = np.clip((block - mean) @ axes.T, -_EDGE, _EDGE)
    said = f"The two directions in which the rows vary most: {share:.0%} of the variance."
    if len(fitted) < len(drawn):
        said += f" Found from a sample of {len(fitted):,} rows."
    if n_far:
        said += f" {n_far:,} {'row that lies' if n_far == 1 else 'rows that lie'} very far out did not count."
    return points, said


def _centre_and_scale(rows: Rows, drawn: Indices, random: np.random.Generator) -> tuple[Vector, float]:
    """The median of each feature and the median distance from there, which outliers do not move."""
    sample = drawn if len(drawn) <= _CENTRE_ROWS else random.choice(drawn, _CENTRE_ROWS, replace=False)
    values = rows.gather(np.sort(sample))
    centre = np.median(values, axis=0)
    distances = np.linalg.norm(values - centre, axis=1)
    middle = float(np.median(distances))
    # More than half of the rows may be the same.
    return centre, middle if middle > 0.0 else float(distances.max()) or 1.0


def _scaled(rows: Rows, positions: Indices, centre: Vector, scale: float) -> NDArray[np.float32]:
    out = np.empty((len(positions), rows.n_features), dtype=np.float32)
    step = max(1, (1 << 22) // rows.n_features)
    for start in range(0, len(positions), step):
        offsets = (rows.gather(positions[start : start + step]) - centre) / scale
        out[start : start + step] = np.clip(offsets, -_EDGE, _EDGE)
    return out


def _axes(values: NDArray[np.float32], wanted: int, seed: int) -> tuple[Any, Any, float]:
    """The mean, the main directions as rows, and the share of the variance that the first two hold."""
    from sklearn.decomposition import PCA
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]

    count = min(wanted, *values.shape)
    # Rows that are all the same have no variance. On a busy machine, threads that wait for each other make so
    # small an eigenvalue problem twenty times slower.
    with np.errstate(invalid="ignore", divide="ignore"), threadpool_limits(1):
        found = PCA(count, random_state=seed).fit(values)
    share = float(np.nan_to_num(found.explained_variance_ratio_[:2]).sum())
    return found.mean_, found.components_, share


def _tsne(places: NDArray[np.float32], seed: int) -> Any:
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    perplexity = min(30.0, (len(places) - 1) / 3)
    with threadpool_limits(1):  # as above; and the points do not depend on the number of cores
        tsne = TSNE(2, perplexity=perplexity, init="pca", max_iter=_ITERATIONS, random_state=seed)
        return tsne.fit_transform(places)


def _umap() -> Any:
    try:
        import umap  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise MissingDependencyError(
            "projection='umap' needs the package umap-learn, which is not installed: pip install umap-learn; "
            "'pca' and 'tsne' need nothing more."
        ) from error
    return umap
