"""Distance to the centre of the group: the score behind easy, hard and moderate."""

from __future__ import annotations

import numpy as np

from gmmatch.rows.rows import Rows
from gmmatch.targets import resolve_target
from gmmatch.types import Vector


def center_distances(
    rows: Rows, weights: Vector, center: str, random: np.random.Generator, threads: int
) -> tuple[Vector, Vector]:
    """Return the distance of every row to the group's centre, and the centre.

    ``center`` is "mean", "coordinate-median" or "geometric-median".
    """
    moment = resolve_target(center, argument="center").of(rows, weights, random, threads)
    return moment.distances_of(rows, threads), moment.point
