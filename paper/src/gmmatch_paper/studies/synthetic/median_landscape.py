"""The sum of distances as a landscape, with the geometric median at its lowest point (fig:toy-gm)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import gmmatch as gm
from gmmatch_paper.studies import style
from gmmatch_paper.studies.results import Results
from gmmatch_paper.studies.study import Measured, Part, Study, Table, Verdict, claim, grids

CONFIGURATIONS = ("triangle", "pentagon", "random", "obtuse")
TITLES = {
    "triangle": "Triangle",
    "pentagon": "Pentagon",
    "random": "Random",
    "obtuse": "Angle over 120°",
}
OUTLIER_DISTANCES = (1.0, 3.0, 10.0, 100.0, 1000.0)


def points_of(configuration: str, seed: int) -> NDArray[np.float64]:
    """Return the points of a configuration; only the random one depends on the seed."""
    if configuration == "random":
        return np.random.default_rng(seed).normal(size=(10, 2)) * 0.6
    if configuration == "obtuse":  # the angle at the origin is 150 degrees
        return np.array([[0.0, 0.0], [1.0, 0.0], [np.cos(5 * np.pi / 6), np.sin(5 * np.pi / 6)]])
    corners = {"triangle": 3, "pentagon": 5}[configuration]
    angles = np.pi / 2 + 2.0 * np.pi * np.arange(corners) / corners
    return np.column_stack([np.cos(angles), np.sin(angles)])


def summed_distances(points: Any, places: Any) -> NDArray[np.float64]:
    """Return ρ(z) = Σ‖z − xᵢ‖ for every place z."""
    sums: NDArray[np.float64] = np.linalg.norm(places[..., None, :] - points, axis=-1).sum(axis=-1)
    return sums


def measure_landscape(*, configuration: str, seed: int) -> Measured:
    """Compute the median and compare it with a search of the whole landscape, point by point."""
    points = points_of(configuration, seed)
    result = gm.geometric_median(points, eps=1e-12, n_jobs=1)
    steps = np.linspace(-1.6, 1.6, 401)
    grid = np.stack(np.meshgrid(steps, steps), axis=-1)
    rho = summed_distances(points, grid)
    lowest = grid.reshape(-1, 2)[int(rho.argmin())]
    return {
        "points": points,
        "median": result.point,
        "mean": points.mean(axis=0),
        "objective": result.objective,
        "gap": result.gap,
        "lowest_on_grid": rho.min(),
        "grid_distance": np.linalg.norm(lowest - result.point),
        "grid_step": steps[1] - steps[0],
        "off_center": np.linalg.norm(result.point - points.mean(axis=0)),
        "nearest_point": np.linalg.norm(points - result.point, axis=1).min(),
    }


def measure_outlier(*, distance: float, seed: int) -> Measured:
    """Move one of ten random points away and see how far the median and the mean follow."""
    points = points_of("random", seed)
    moved = points.copy()
    outward = points[0] / np.linalg.norm(points[0])
    moved[0] = points[0] + distance * outward
    before, after = (gm.geometric_median(rows, eps=1e-12, n_jobs=1).point for rows in (points, moved))
    return {
        "median_moves": np.linalg.norm(after - before),
        "mean_moves": np.linalg.norm(moved.mean(axis=0) - points.mean(axis=0)),
    }


def draw(results: Results) -> Any:
    """Draw ρ as color, with the Voronoi cells of the points and the lines to the median."""
    figure = style.new_figure(8.3)
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    for panel, letter, name in zip(axes.flat, "abcd", CONFIGURATIONS, strict=True):
        cell = results["landscape"].one(configuration=name, seed=0)
        image = _draw_panel(panel, cell)
        panel.set_title(f"({letter})  {TITLES[name]}")
    bar = figure.colorbar(image, ax=axes, orientation="horizontal", shrink=0.7, aspect=35, ticks=(1, 2, 3))
    bar.ax.set_xticklabels(("lowest", "twice the lowest", "three times"))
    bar.set_label("Sum of distances ρ(z)")
    style.legend(figure, axes.flat[0], ncols=4, columnspacing=1.2)
    return figure


def _draw_panel(axes: Any, cell: Any) -> Any:
    from scipy.spatial import Voronoi, voronoi_plot_2d

    points, median = np.array(cell["points"]), np.array(cell["median"])
    steps = np.linspace(-1.6, 1.6, 161)
    grid = np.stack(np.meshgrid(steps, steps), axis=-1)
    relative = summed_distances(points, grid) / cell["objective"]
    # Bands rather than a smooth gradient: the shape of the valley shows better, and in print too.
    image = axes.contourf(
        steps, steps, relative, levels=np.linspace(1.0, 3.0, 21), cmap="cividis", extend="max"
    )
    # Points at a great distance close the outer cells, so that their borders run off the panel.
    frame = 50.0 * np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    borders = Voronoi(np.vstack([points, frame]))
    voronoi_plot_2d(
        borders, axes, show_points=False, show_vertices=False, line_colors=style.SKY, line_width=1.4
    )
    for point in points:
        axes.plot(*np.column_stack([median, point]), color="white", linestyle="--", linewidth=1.3)
    axes.plot([], [], color=style.SKY, linewidth=1.4, label="Voronoi cells")
    axes.plot([], [], color=style.GREY, linestyle="--", linewidth=1.3, label="To the median")
    axes.scatter(*points.T, s=45, color="white", edgecolors="black", zorder=3, label="Points")
    axes.scatter(
        *median,
        s=120,
        color="#FF4FA0",
        edgecolors="white",
        linewidths=1.3,
        zorder=4,
        label="Geometric median",
    )
    axes.set(xlim=(-1.6, 1.6), ylim=(-1.6, 1.6), aspect="equal", xticks=(-1, 0, 1), yticks=(-1, 0, 1))
    axes.grid(False)
    return image


@claim("fig:toy-gm", "In the symmetric configurations the median is at the center.")
def _check_symmetric(results: Results) -> Verdict:
    cells = results["landscape"]
    off = {name: cells.mean("off_center", configuration=name) for name in ("triangle", "pentagon", "random")}
    return Verdict(
        max(off["triangle"], off["pentagon"]) < 1e-6,
        f"distance from the center: triangle {off['triangle']:.0e}, pentagon {off['pentagon']:.0e}; for random "
        f"points, which have no such symmetry, {off['random']:.2f} on average",
    )


@claim("def:geo_med", "The median is the lowest point of ρ.")
def _check_minimum(results: Results) -> Verdict:
    cells = results["landscape"]
    excess = cells.values("objective") / cells.values("lowest_on_grid") - 1.0
    steps = cells.values("grid_distance") / cells.values("grid_step")
    return Verdict(
        bool(excess.max() <= 1e-9),
        f"in no case is one of 160,801 places lower; the lowest of them is at most {steps.max():.1f} grid steps from "
        f"the median, and the solver's own certificate is {cells.values('gap').max():.0e} or better",
    )


@claim("fig:toy-gm", "Outlying points are down-weighted: the median hardly follows one.")
def _check_outlier(results: Results) -> Verdict:
    cells = results["outlier"]
    near, far = min(cells.distinct("distance")), max(cells.distinct("distance"))
    return Verdict(
        cells.mean("median_moves", distance=far) < 0.01 * cells.mean("mean_moves", distance=far),
        f"one of ten points moved by {far:,.0f} moves the median by {cells.mean('median_moves', distance=far):.3f} "
        f"and the mean by {cells.mean('mean_moves', distance=far):.0f}; moved by {near:g}, by "
        f"{cells.mean('median_moves', distance=near):.3f} and {cells.mean('mean_moves', distance=near):.2f}",
    )


@claim("ours", "Where an angle is 120° or more, the median is that corner itself.")
def _check_obtuse(results: Results) -> Verdict:
    cell = results["landscape"].one(configuration="obtuse")
    return Verdict(
        cell["nearest_point"] < 1e-9,
        f"distance from the median to the corner: {cell['nearest_point']:.0e}",
    )


def _table(results: Results) -> Table:
    cells = results["landscape"]
    rows = []
    for name in CONFIGURATIONS:
        cell = cells.one(configuration=name, seed=0)
        x, y = cell["median"]
        rows.append(
            [TITLES[name], f"({x:.3f}, {y:.3f})".replace("-0.000", "0.000"), f"{cell['objective']:.5f}",
             f"{cell['lowest_on_grid']:.5f}", f"{cell['off_center']:.3f}"]
        )  # fmt: skip
    return Table(
        "The four configurations of the figure: ρ at the median and at the lowest of 160,801 places.",
        ("points", "median", "ρ(median)", "lowest on the grid", "distance to the mean"),
        rows,
    )


def _only_random_varies(cell: Any) -> bool:
    return bool(cell["configuration"] == "random" or cell["seed"] == 0)


STUDY = Study(
    name="median-landscape",
    title="The landscape whose lowest point is the geometric median",
    paper=("fig:toy-gm",),
    parts=(
        Part(
            "landscape",
            measure_landscape,
            *grids({"configuration": CONFIGURATIONS}, seeds=(3, 20)),
            keep=_only_random_varies,
        ),
        Part("outlier", measure_outlier, *grids({"distance": OUTLIER_DISTANCES}, seeds=(10, 100))),
    ),
    claims=(_check_symmetric, _check_minimum, _check_outlier, _check_obtuse),
    pictures={"": draw},
    tables=(_table,),
)
