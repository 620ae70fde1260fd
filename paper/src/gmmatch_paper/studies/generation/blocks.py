"""The measured cells of the study, in the groups in which distances can be compared."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gmmatch_paper.studies.classification.paper import Printed
from gmmatch_paper.studies.classification.tables import amount_size, in_order
from gmmatch_paper.studies.image_cells.corruptions import CorruptionSpec
from gmmatch_paper.studies.results import Cells, Results

BASELINES = ("random", "easy", "hard", "moderate", "herding")
"""The paper's other methods in this experiment."""


class Setting(NamedTuple):
    """What cells have in common whose distances can be compared, whatever the corruption."""

    dataset: str
    encoder: str
    features: str
    recipe: str


@dataclass(frozen=True)
class Block:
    """The measured cells of one setting."""

    setting: Setting
    cells: Cells

    @property
    def corruptions(self) -> list[str]:
        """What was done to the images, nothing first."""
        return sorted(self.cells.distinct("corruption"), key=lambda text: (rate_of(text), text))

    @property
    def amounts(self) -> list[str]:
        """How much was kept, little first."""
        return sorted(self.cells.distinct("amount"), key=amount_size)

    @property
    def methods(self) -> list[str]:
        """The methods in the order of all tables."""
        return in_order(self.cells.distinct("method"))

    def spread(self, corruption: str, amount: str, method: str, of: str = "frechet") -> Printed | None:
        """Return mean and deviation over the seeds (NaN for that of one seed) of what was measured, if it was."""
        found = self.cells.where(corruption=corruption, amount=amount)
        mine = found if amount == "100%" else found.where(method=method)  # everything is everything
        values = [cell[of] for cell in mine]
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
        return Printed(float(np.mean(values)), deviation) if values else None

    def column(self, corruption: str, amount: str) -> dict[str, float]:
        """Return the mean distance of every method that was measured."""
        found = {method: self.spread(corruption, amount, method) for method in self.methods}
        return {method: spread.mean for method, spread in found.items() if spread is not None}

    def at(self, rate: float) -> str | None:
        """Return the corruption of a share of the images by the paper's mixture, if it was measured."""
        return next((text for text in self.corruptions if is_paper(text) and rate_of(text) == rate), None)


def blocks_of(results: Results) -> list[Block]:
    """Return the settings that were measured, those with most cells first."""
    cells = Cells(cell for cell in results["generation"] if "error" not in cell)
    settings = dict.fromkeys(Setting(*(cell[name] for name in Setting._fields)) for cell in cells)
    blocks = [Block(setting, cells.where(**setting._asdict())) for setting in settings]
    return sorted(blocks, key=lambda block: -len(block.cells))


def rate_of(corruption: str) -> float:
    """Return the share of corrupted images."""
    return CorruptionSpec.parse(corruption).rate


def is_paper(corruption: str) -> bool:
    """Return whether it is one of the paper's: nothing, or its mixture of five."""
    spec = CorruptionSpec.parse(corruption)
    return spec.kind == "none" or spec.detail == "generation-mixture"


def only(cells: Cells, name: str) -> str:
    """Return the values of a field as text, one after another if there are several."""
    values: list[Any] = [value for value in cells.distinct(name) if value is not None]
    return ", ".join(map(str, values))


def seeds_of(cells: Cells) -> str:
    """Return what a table's numbers are: of one seed, or over how many a mean is taken."""
    counts = Counter((cell["corruption"], cell["amount"], cell["method"]) for cell in cells)
    least, most = min(counts.values()), max(counts.values())
    if most == 1:
        return "One seed"
    count = str(most) if least == most else f"{least} to {most}"
    return f"Mean ± standard deviation over {count} seeds{' (no deviation: one seed)' if least == 1 else ''}"
