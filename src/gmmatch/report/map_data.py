"""The map: which rows it draws, where they are on a plane, and what the page's script draws them from."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Vector, sample_indices
from gmmatch._threads import one_blas_thread
from gmmatch.errors import InvalidInputError
from gmmatch.report.content import Content
from gmmatch.report.subject import DOUBTFUL, PICKED, REST, WRONG, Subject, count_of
from gmmatch.rows import Rows
from gmmatch.selection.selection import Selection

# Pictures or texts of so many rows of the map, and of those in the galleries.
_SAMPLED_CONTENTS = 600
# Ids of all rows that are drawn, unless they would take more than this.
_ID_BYTES = 3_000_000
_TABLED_PICKS = 100
_TYPES = {"float32": "Float32Array", "uint32": "Uint32Array", "uint16": "Uint16Array", "uint8": "Uint8Array"}
ProjectionName: TypeAlias = Literal["pca", "tsne"]
"""How rows become points: principal components, or t-SNE."""

# What a browser draws without a pause, and what t-SNE does in well under a minute.
MAX_POINTS: dict[ProjectionName, int] = {"pca": 50_000, "tsne": 4_000}
# With fewer rows there are no neighbors to speak of.
_TSNE_ROWS = 5
# Directions found from so many rows are those of all rows, to the width of a pixel.
_FIT_ROWS = 20_000
_CENTER_ROWS = 2_000
# t-SNE works on distances, which so many directions hold nearly whole.
_TSNE_FEATURES = 50
# A row that lies so many median distances out would turn the directions towards itself.
_FAR = 10.0
_EDGE = 1e6
# Instead of scikit-learn's 1,000: on 2,000 images the ten neighbors on the map then vote for the right class in 63.6%
# instead of 64.4% of the cases, in a third of the time.
_TSNE_ITERATIONS = 400
_BLOCK_ELEMENTS = 1 << 22


def pack_floats(array: NDArray[np.float32]) -> dict[str, str]:
    """Return an array as the page's script reads it: JavaScript's name of the type, and the bytes."""
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return {"type": _TYPES[array.dtype.name], "data": base64.b64encode(little.tobytes()).decode("ascii")}


def pack_counts(values: Any) -> dict[str, str]:
    """Return integers of at least 0 in the narrowest type that the page's script can read.

    Examples
    --------
    >>> pack_counts([1, 300])
    {'type': 'Uint16Array', 'data': 'AQAsAQ=='}
    """
    array = np.asarray(values, dtype=np.int64)
    largest = int(array.max(initial=0))
    dtype = np.uint8 if largest < 1 << 8 else np.uint16 if largest < 1 << 16 else np.uint32
    return pack_floats(array.astype(dtype))


@dataclass(frozen=True, eq=False)
class Drawing:
    """The rows on the map and where they are.

    Attributes
    ----------
    rows : int64 array of shape (m,)
        Ascending.
    positions : int64 array of shape (n,)
        Where each row of the data is among those drawn, -1 if it is not.
    counts : list of (int, int)
        Drawn and all rows of each state.
    projections : list of Projection
    """

    rows: Indices
    positions: Indices
    counts: list[tuple[int, int]]
    projections: list[Projection]

    @property
    def is_complete(self) -> bool:
        """Whether every row is drawn."""
        return len(self.rows) == len(self.positions)


def draw(subject: Subject, projection: ProjectionName) -> Drawing:
    """Choose the rows to draw and project them."""
    random = np.random.default_rng(subject.seed)
    states = subject.states
    rows = choose_rows(states, MAX_POINTS["pca"], random)
    positions = np.full(len(states), -1, dtype=np.int64)
    positions[rows] = np.arange(len(rows))
    projections = []
    for name in offered_maps(projection, len(rows)):
        sample = choose_rows(states[rows], MAX_POINTS[name], random)
        projections.append(project(subject.rows, rows[sample], name, subject.seed).expand(sample, len(rows)))
    counts = [(int((states[rows] == state).sum()), int((states == state).sum())) for state in range(4)]
    return Drawing(rows, positions, counts, projections)


def choose_rows(states: NDArray[np.uint8], limit: int, random: np.random.Generator) -> Indices:
    """Choose the rows to draw: all if they are at most ``limit``, else a random part of each state.

    The picks get up to half of the points, wrong and doubtful rows up to an eighth each, so that none of them drowns
    among the rest.

    Examples
    --------
    >>> states = np.array([0] * 90 + [1] * 10, dtype=np.uint8)
    >>> rows = choose_rows(states, 15, np.random.default_rng(0))
    >>> np.bincount(states[rows])
    array([8, 7])
    """
    if len(states) <= limit:
        return np.arange(len(states), dtype=np.int64)
    totals = np.bincount(states, minlength=4)
    taken = np.zeros(4, dtype=np.int64)
    for state, share in ((PICKED, 2), (WRONG, 8), (DOUBTFUL, 8)):
        taken[state] = min(int(totals[state]), limit // share)
    for state in (REST, PICKED, WRONG, DOUBTFUL):
        taken[state] += min(int(totals[state] - taken[state]), limit - int(taken.sum()))
    samples = [
        random.choice(np.flatnonzero(states == state), taken[state], replace=False) for state in range(4)
    ]
    return np.sort(np.concatenate(samples)).astype(np.int64)


def rows_with_content(subject: Subject, drawing: Drawing) -> Indices:
    """Choose the rows of the map that get a picture or a text: half of them picks."""
    random = np.random.default_rng([subject.seed, 3])
    picks = subject.picks[drawing.positions[subject.picks] >= 0]
    others = np.setdiff1d(drawing.rows, picks)
    limit = max(_SAMPLED_CONTENTS // 2, _SAMPLED_CONTENTS - len(others))
    picks = picks[sample_indices(len(picks), limit)]
    others = random.choice(others, min(len(others), _SAMPLED_CONTENTS - len(picks)), replace=False)
    return np.unique(np.concatenate([picks, others])).astype(np.int64)


def map_data(subject: Subject, drawing: Drawing, contents: dict[int, Content]) -> dict[str, Any]:
    """Return everything that the map shows, as JSON can hold it."""
    rows, positions = drawing.rows, drawing.positions
    return {
        "maps": [_pack_map(projection) for projection in drawing.projections],
        "class": pack_counts(subject.classes.codes[rows]),
        "row": None if drawing.is_complete else pack_counts(rows),
        "classes": subject.classes.names if subject.classes.is_known else [],
        "ids": _drawn_ids(subject, rows, contents),
        "rest": subject.rest_name,
        "contents": {
            str(positions[row]): [content.kind, content.value, int(content.is_small)]
            for row, content in contents.items()
            if positions[row] >= 0
        },
        "verdicts": _pack_verdicts(subject, rows),
        "panels": [_pack_panel(name, selection, positions) for name, selection in subject.selections.items()],
    }


def _pack_map(projection: Projection) -> dict[str, Any]:
    x, y = projection.points.T
    view = first_view(projection.points)
    n_outside = int(((x < view[0]) | (x > view[1]) | (y < view[2]) | (y > view[3])).sum())
    text = f"{projection.name}. {projection.explanation}"
    if n_outside:
        verb, pronoun = ("lies", "it") if n_outside == 1 else ("lie", "them")
        text += f" {count_of(n_outside, 'row')} {verb} outside the first view; zoom out to see {pronoun}."
    return {"name": projection.name, "text": text, "x": pack_floats(x), "y": pack_floats(y), "view": view}


def _pack_panel(name: str, selection: Selection, positions: Indices) -> dict[str, Any]:
    at = positions[selection.order]
    drawn = np.flatnonzero(at >= 0)
    # A row that was picked again keeps the number of its first time.
    _, first = np.unique(at[drawn], return_index=True)
    drawn = drawn[np.sort(first)]
    return {
        "title": name,
        "k": len(selection.order),
        "picks": pack_counts(at[drawn]),
        "numbers": pack_counts(drawn + 1),
    }


def _pack_verdicts(subject: Subject, rows: Indices) -> dict[str, Any] | None:
    """Return what the screening says of the rows that it doubts."""
    screening = subject.screening
    if screening is None:
        return None
    is_wrong, is_doubtful = (subject.has_verdict(verdict)[rows] for verdict in ("wrong", "doubtful"))
    at = np.flatnonzero(is_wrong | is_doubtful)
    names, reasons = np.unique(np.asarray(screening.reason)[rows[at]].astype(str), return_inverse=True)
    chances = np.clip(np.nan_to_num(np.asarray(screening.probability)[rows[at]]), 0.0, 1.0)
    return {
        "at": pack_counts(at),
        "state": pack_counts(np.where(is_wrong[at], WRONG, DOUBTFUL)),
        "reasons": names.tolist(),
        "reason": pack_counts(reasons),
        "looks": pack_counts(subject.looks_like(rows[at]) + 1),
        "chance": pack_counts((100 * chances).round()),
    }


def _drawn_ids(
    subject: Subject, rows: Indices, contents: dict[int, Content]
) -> dict[str, str] | list[str] | None:
    """Return all ids as a list, or those of picks and of rows with contents by position, or none at all."""
    has_id = np.array([name is not None for name in subject.names.ids(rows)], dtype=np.bool_)
    if not has_id.any():
        return None
    names = subject.names.short(rows)
    if has_id.all() and sum(len(name.encode("utf-8")) + 3 for name in names) <= _ID_BYTES:
        return names
    wanted = np.concatenate([subject.picks[sample_indices(len(subject.picks), 10_000)], list(contents)])
    return {str(at): names[at] for at in np.flatnonzero(np.isin(rows, wanted) & has_id).tolist()}


def first_view(points: NDArray[np.float32]) -> list[float]:
    """Return the part of the plane that the map shows at first: left, right, bottom, top.

    All of it, unless a few rows lie so far out that the others would become a dot.

    Examples
    --------
    >>> first_view(np.array([[0.0, 0.0], [4.0, 2.0]], dtype=np.float32))
    [0.0, 4.0, 0.0, 2.0]
    """
    view = []
    for values in np.sort(points[~np.isnan(points[:, 0])].astype(np.float64), axis=0).T.tolist():
        # The ends belong to the view if they are not far from the other rows.
        n_ends = max(1, len(values) // 100) if len(values) > 3 else 0
        low, high = values[n_ends], values[-1 - n_ends]
        reach = max(high - low, 1e-6)
        low = values[0] if values[0] > low - reach else low - 0.1 * reach
        high = values[-1] if values[-1] < high + reach else high + 0.1 * reach
        view += [low, high]
    return view


def first_picks(subject: Subject, drawing: Drawing) -> list[tuple[int, str, str]]:
    """Return number, name and class of the first picks on the map: the table for who cannot see it."""
    if not subject.selections:
        return []
    order = next(iter(subject.selections.values())).order
    numbers = np.flatnonzero(drawing.positions[order] >= 0)[:_TABLED_PICKS]
    rows, classes = order[numbers], subject.classes
    labels = [classes.names[code] for code in classes.codes[rows].tolist()]
    return list(zip((numbers + 1).tolist(), subject.names.short(rows), labels, strict=True))


@dataclass(frozen=True, eq=False)
class Projection:
    """Points on the plane.

    Attributes
    ----------
    points : float32 array of shape (m, 2)
        NaN where a row is not on the map; PCA in units of the median distance.
    name, explanation : str
        What the page calls it, and what its directions are.
    """

    points: NDArray[np.float32]
    name: str
    explanation: str

    def expand(self, positions: Indices, n: int) -> Projection:
        """Return the same for n rows, of which those at ``positions`` are the ones that were projected."""
        if len(positions) == n:
            return self
        points = np.full((n, 2), np.nan, dtype=np.float32)
        points[positions] = self.points
        return Projection(
            points, self.name, f"{self.explanation} A random sample of {len(positions):,} rows."
        )


def check_projection(name: str) -> None:
    """Raise unless a map goes by that name.

    Examples
    --------
    >>> check_projection("pac")
    Traceback (most recent call last):
    gmmatch.errors.InvalidInputError: projection='pac': expected 'pca' or 'tsne'.
    """
    if name not in get_args(ProjectionName):
        raise InvalidInputError(f"projection={name!r}: expected 'pca' or 'tsne'.")


def offered_maps(projection: ProjectionName, n: int) -> list[ProjectionName]:
    """Return the maps that a page of n points offers: what was asked for first, PCA always."""
    return ["pca"] if projection == "pca" or n < _TSNE_ROWS else [projection, "pca"]


def project(rows: Rows, drawn: Indices, projection: ProjectionName, seed: int) -> Projection:
    """Put the rows that are drawn on a plane."""
    points, explanation = _principal_components(
        rows, drawn, 2 if projection == "pca" else _TSNE_FEATURES, seed
    )
    if projection == "pca":
        return Projection(points, "PCA", explanation)
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(points) - 1) / 3)
    tsne = TSNE(2, perplexity=perplexity, init="pca", max_iter=_TSNE_ITERATIONS, random_state=seed)
    with one_blas_thread():  # so that the points do not depend on the number of cores
        points = np.asarray(tsne.fit_transform(points), dtype=np.float32)
    explanation = "Neighbors on the map are neighbors in the data; distances between groups mean little."
    return Projection(points, "t-SNE", explanation)


def _principal_components(
    rows: Rows, drawn: Indices, n_components: int, seed: int
) -> tuple[NDArray[np.float32], str]:
    """Return coordinates along the main directions, found without the rows that lie very far out."""
    from sklearn.decomposition import PCA

    random = np.random.default_rng(seed)
    center, scale = _center_and_scale(rows, _sample(drawn, _CENTER_ROWS, random))
    fit_rows = _sample(drawn, _FIT_ROWS, random)
    values = _standardize(rows, fit_rows, center, scale)
    is_near = np.einsum("ij,ij->i", values, values, dtype=np.float64) <= _FAR**2
    n_far = int((~is_near).sum())
    values = values[is_near] if 0 < n_far < len(values) else values
    # Rows that are all the same have no variance. On a busy machine, threads that wait for each other make so
    # small an eigenvalue problem twenty times slower.
    with np.errstate(invalid="ignore", divide="ignore"), one_blas_thread():
        pca = PCA(min(n_components, *values.shape), random_state=seed).fit(values)
    points = np.zeros((len(drawn), max(2, len(pca.components_))), dtype=np.float32)
    step = max(1, _BLOCK_ELEMENTS // rows.n_features)
    for first in range(0, len(drawn), step):
        block = _standardize(rows, drawn[first : first + step], center, scale)
        coordinates = np.clip((block - pca.mean_) @ pca.components_.T, -_EDGE, _EDGE)
        points[first : first + step, : len(pca.components_)] = coordinates
    share = float(np.nan_to_num(pca.explained_variance_ratio_[:2]).sum())
    text = f"The two directions in which the rows vary most: {share:.0%} of the variance."
    if len(fit_rows) < len(drawn):
        text += f" Computed from a sample of {len(fit_rows):,} rows."
    if n_far:
        text += f" {count_of(n_far, 'row')} very far out did not count."
    return points, text


def _sample(positions: Indices, size: int, random: np.random.Generator) -> Indices:
    return positions if len(positions) <= size else np.sort(random.choice(positions, size, replace=False))


def _center_and_scale(rows: Rows, sample: Indices) -> tuple[Vector, float]:
    """Return the median of each feature and the median distance from it, which outliers do not move."""
    values = rows.take(sample)
    center: Vector = np.median(values, axis=0)
    distances = np.linalg.norm(values - center, axis=1)
    median = float(np.median(distances))
    # More than half of the rows may be the same.
    return center, median if median > 0.0 else float(distances.max()) or 1.0


def _standardize(rows: Rows, index: Indices, center: Any, scale: float) -> NDArray[np.float32]:
    values = np.empty((len(index), rows.n_features), dtype=np.float32)
    step = max(1, _BLOCK_ELEMENTS // rows.n_features)
    for first in range(0, len(index), step):
        offsets = (rows.take(index[first : first + step]) - center) / scale
        values[first : first + step] = np.clip(offsets, -_EDGE, _EDGE)
    return values
