"""How many trainings a study needs, and how long they are likely to take."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gmmatch_paper.studies.classification.tables import shown_network
from gmmatch_paper.studies.image_cells.amounts import rows_of
from gmmatch_paper.studies.image_cells.corruptions import ATTACKS, CorruptionSpec
from gmmatch_paper.studies.image_cells.data import ImageData
from gmmatch_paper.studies.image_cells.downstream import (
    PROBE_ITERATIONS,
    PROBE_STRENGTHS,
    WITHOUT_IMAGES,
    pick_device,
    recipe_named,
    train_network,
)
from gmmatch_paper.studies.image_cells.plan import Plan
from gmmatch_paper.studies.image_cells.proxies import IN_DOMAIN, ProxySpec
from gmmatch_paper.training.recipes import Recipe

_PROBE_FEATURES = 512


class Estimate(NamedTuple):
    """How many cells there are and how many are measured; what the others train, how long, and how that is known."""

    cells: int
    done: int
    trainings: dict[str, int]
    seconds: float
    source: str


def estimate(
    cells: Sequence[Mapping[str, Any]],
    finished: Sequence[Mapping[str, Any]],
    plan: Plan,
    data: ImageData,
    device: str,
) -> Estimate:
    """Return what is left of the cells of a plan.

    How long finished cells took is the best guess for the others; without them a few steps are timed on the device.
    """
    names = tuple(cells[0]) if cells else ()
    known = {tuple(cell.get(name) for name in names) for cell in finished}
    left = [cell for cell in cells if tuple(cell.values()) not in known]
    trainings = Counter(_name(cell) for cell in left)
    shared = _shared_trainings(left, plan)
    trainings.update(
        {f"{network} as proxy or target ({recipe})": n for (network, recipe), n in shared.items()}
    )
    measured = _mean_seconds(finished)
    unlike = [cell for cell in left if _name(cell) not in measured]
    total = sum(measured[_name(cell)] for cell in left if _name(cell) in measured)
    total += sum(_cell_seconds(cell, data, device) for cell in unlike)
    for (network, recipe), count in shared.items():
        total += count * training_seconds(network, recipe, len(data.y_train), data, device)
    source = "a few steps timed on this machine" if unlike or shared else "the cells that are measured"
    return Estimate(len(cells), len(cells) - len(left), dict(trainings), total, source)


def training_seconds(network: str, recipe: str, n_rows: int, data: ImageData, device: str) -> float:
    """Return about how long a training takes, from the time per image of a few steps."""
    plan = recipe_named(recipe)
    images = plan.epochs_for(n_rows) * plan.steps_per_epoch(n_rows) * plan.rows_per_step(n_rows)
    return images * _seconds_per_image(network, plan, data, pick_device(device))


@cache
def _seconds_per_image(network: str, recipe: Recipe, data: ImageData, device: str) -> float:
    # A few images do on a CPU, whose time grows with their number; a GPU needs whole batches.
    batch, steps = (recipe.batch_size, 8) if device.startswith("cuda") else (8, 2)
    rows = np.arange(batch * steps) % len(data.x_train)
    trained = train_network(
        network,
        data.x_train[rows],
        data.y_train[rows],
        n_classes=data.n_classes,
        recipe=replace(recipe, epochs=2, min_steps=0, batch_size=batch),
        seed=0,
        device=device,
    )
    # The first epoch pays for setting up.
    return trained.history[-1].seconds / len(rows)


def _cell_seconds(cell: Mapping[str, Any], data: ImageData, device: str) -> float:
    if cell.get("downstream") == "diffusion":
        from gmmatch_paper.studies.generation.estimate import cell_seconds

        return cell_seconds(cell["recipe"], data, pick_device(device))
    rows = rows_of(cell.get("amount", "100%"), len(data.y_train), data.n_classes)
    if cell.get("downstream") == "head":
        return 2.0
    if cell.get("downstream") == "scratch":
        return training_seconds(cell["network"], cell["recipe"], rows, data, device)
    return rows * _probe_seconds_per_row(max(2, data.n_classes))


@cache
def _probe_seconds_per_row(n_classes: int) -> float:
    from gmmatch_paper.training.probe import fit_linear_probe

    X, y = np.random.default_rng(0).normal(size=(300, _PROBE_FEATURES)), np.arange(300) % n_classes
    began = time.perf_counter()
    fit_linear_probe(X, y, strengths=PROBE_STRENGTHS, max_iter=PROBE_ITERATIONS)
    return (time.perf_counter() - began) / len(X)


def _shared_trainings(left: Sequence[Mapping[str, Any]], plan: Plan) -> Counter[tuple[str, str]]:
    """Count the networks that cells share: proxies of every corruption and seed, and those to attack."""
    proxy = plan.proxy
    found: set[tuple[str, str, str, int]] = set()
    for cell in left:
        recipe = cell.get("recipe", "")
        if not recipe:
            continue
        if proxy.kind == IN_DOMAIN:
            recipe = ProxySpec.parse(cell["encoder"]).recipe or recipe
            found.add((proxy.spec, recipe, cell["corruption"], cell["seed"]))
        if CorruptionSpec.parse(cell["corruption"]).kind in ATTACKS:
            found.add((plan.attacked, recipe, "target of attacks", cell["seed"]))
    return Counter((network, recipe) for network, recipe, _, _ in found)


def _mean_seconds(finished: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean seconds of finished cells by what they trained."""
    groups: dict[str, list[float]] = {}
    for cell in finished:
        groups.setdefault(_name(cell), []).append(float(cell["seconds"]))
    return {name: float(np.mean(seconds)) for name, seconds in groups.items()}


def _name(cell: Mapping[str, Any]) -> str:
    if "downstream" not in cell:
        return "map"
    if cell["downstream"] in WITHOUT_IMAGES:
        return shown_network(cell["network"])
    return f"{cell['network']} ({cell['recipe']})"


def shown_duration(seconds: float) -> str:
    """Return a duration for people.

    Examples
    --------
    >>> shown_duration(42), shown_duration(600), shown_duration(9000)
    ('42 seconds', '10 minutes', '2.5 hours')
    """
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
