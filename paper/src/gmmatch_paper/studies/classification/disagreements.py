"""Pairs of methods that the paper always has in one order, and where we measured the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from gmmatch_paper.studies.classification import image_study_names, load_image_study
from gmmatch_paper.studies.classification.corruptions import CorruptionSpec
from gmmatch_paper.studies.classification.paper import PaperBlock, paper_blocks
from gmmatch_paper.studies.classification.tables import METHOD_NAMES, Block, measured_blocks
from gmmatch_paper.studies.results import Results

TEST_POINTS = 0.5
"""Standard error, in points, that the seeds do not show as they share their test images: of a difference over 4,000
of them where one in ten is right with the one method alone or with the other alone."""

_MOST_KEPT = 30.0
_LIKE = {"human": "label", "pair": "label"}
KIND_WORDS = {
    "none": "without corruption",
    "label": "with wrong labels",
    "image": "with spoilt images",
    "pgd": "under PGD attack",
    "fgsm": "under gradient-sign attack",
}


class PaperPair(NamedTuple):
    """Two methods, the first above the second in all columns of the paper that have both, and by how much."""

    above: str
    below: str
    columns: int
    least: float
    most: float


class Margin(NamedTuple):
    """By how many points one method is above another: the mean over the seeds, and its standard error.

    Examples
    --------
    >>> Margin(1.5, 0.2).clear, Margin(1.5, 0.9).clear, Margin(0.8, 0.0).clear
    (True, False, False)
    >>> str(Margin(-1.26, 0.21))
    '-1.3 ± 0.2'
    """

    mean: float
    error: float

    @property
    def clear(self) -> bool:
        """Whether it is more than twice its standard error, that of the test images included."""
        return abs(self.mean) > 2.0 * float(np.hypot(self.error, TEST_POINTS))

    def __str__(self) -> str:
        return f"{self.mean:+.1f} ± {self.error:.1f}"


@dataclass(frozen=True)
class Column:
    """A column of a table of ours, and the margin there of the method that the paper has above the other."""

    block: Block
    amount: str
    margin: Margin


@dataclass(frozen=True)
class Disagreement:
    """A pair that we measured in the other order, in one column or more."""

    pair: PaperPair
    kind: str
    downstream: str
    in_domain: bool
    columns: tuple[Column, ...]

    @property
    def clear(self) -> bool:
        """Whether some column has it clearly."""
        return any(column.margin.mean < 0 and column.margin.clear for column in self.columns)

    @property
    def worst(self) -> Column:
        """The column that is farthest from the paper's order."""
        return min(self.columns, key=lambda column: column.margin.mean)

    @property
    def title(self) -> str:
        """Which two, on what, and what was trained."""
        here = "with human labels" if self.kind == "human" else KIND_WORDS[_LIKE.get(self.kind, self.kind)]
        trained = "linear probe" if self.downstream == "probe" else "trained from scratch"
        where = ", picked in domain" if self.in_domain else ""
        return f"**{METHOD_NAMES[self.pair.below]} above {METHOD_NAMES[self.pair.above]}** {here}{where}, {trained}"

    @property
    def sentence(self) -> str:
        """How often we found it, and how often the paper has the other."""
        against = [column.margin for column in self.columns if column.margin.mean < 0]
        return (
            f"{self.title}: in {len(against)} of {len(self.columns)} columns, clearly in "
            f"{sum(margin.clear for margin in against)}, by up to {-self.worst.margin.mean:.1f} points. The paper "
            f"has {METHOD_NAMES[self.pair.above]} above in all {self.pair.columns} of its columns "
            f"{KIND_WORDS[_LIKE.get(self.kind, self.kind)]} that have both, by {self.pair.least:.1f} to "
            f"{self.pair.most:.1f} points."
        )


@lru_cache(maxsize=8)
def papers_order(kind: str) -> tuple[PaperPair, ...]:
    """Return the pairs that the paper has in one order in all its columns with at most 30% kept.

    Examples
    --------
    >>> pairs = papers_order("label")
    >>> [pair.columns for pair in pairs if (pair.above, pair.below) == ("gm-matching", "herding")]
    [19]
    """
    columns: dict[tuple[str, ...], dict[str, float]] = {}
    for block in paper_blocks(
        [label for name in image_study_names() for label in load_image_study(name).paper]
    ):
        if CorruptionSpec.parse(block.corruption).kind == _LIKE.get(kind, kind):
            for amount in _small_amounts(block):
                # Two of its tables share columns.
                key = (block.dataset, block.network, block.corruption, amount)
                columns[key] = {
                    method: block.rows[method][block.amounts.index(amount)].mean for method in block.rows
                }
    found = []
    for above, below in permutations(
        dict.fromkeys(method for column in columns.values() for method in column), 2
    ):
        margins = [
            column[above] - column[below]
            for column in columns.values()
            if above in column and below in column
        ]
        if margins and min(margins) > 0:
            found.append(PaperPair(above, below, len(margins), min(margins), max(margins)))
    return tuple(found)


def margin_of(cells: Iterable[Mapping[str, Any]], above: str, below: str) -> Margin | None:
    """Return the margin between two methods over cells of one setting; None where there are not two seeds of both.

    Examples
    --------
    >>> cells = [{"method": m, "seed": s, "accuracy": a} for m, s, a in
    ...          [("easy", 0, 0.5), ("easy", 1, 0.6), ("hard", 0, 0.3), ("hard", 1, 0.4)]]
    >>> str(margin_of(cells, "easy", "hard"))
    '+20.0 ± 0.0'
    """
    values: dict[str, dict[int, float]] = {above: {}, below: {}}
    for cell in cells:
        if cell["method"] in values and "error" not in cell:
            values[cell["method"]][cell["seed"]] = 100.0 * cell["accuracy"]
    gaps = [values[above][seed] - values[below][seed] for seed in values[above] if seed in values[below]]
    if len(gaps) < 2:
        return None
    return Margin(float(np.mean(gaps)), float(np.std(gaps, ddof=1) / np.sqrt(len(gaps))))


def disagreements(results: Results) -> list[Disagreement]:
    """Return the pairs whose order in our results is not the paper's in some column, clearly so or not."""
    columns: dict[tuple[str, str, bool, PaperPair], list[Column]] = {}
    for block in measured_blocks(results, ()):
        kind = CorruptionSpec.parse(block.setting.corruption).kind
        for amount in block.cells.distinct("amount"):
            cells = block.cells.where(amount=amount)
            for pair in papers_order(kind):
                margin = margin_of(cells, pair.above, pair.below)
                if margin is not None:
                    key = (kind, block.setting.downstream, block.setting.in_domain, pair)
                    columns.setdefault(key, []).append(Column(block, amount, margin))
    found = [
        Disagreement(pair, kind, downstream, in_domain, tuple(each))
        for (kind, downstream, in_domain, pair), each in columns.items()
        if min(column.margin.mean for column in each) < 0
    ]
    return sorted(found, key=lambda each: (each.pair.above != "gm-matching", each.worst.margin.mean))


def _small_amounts(block: PaperBlock) -> list[str]:
    """Return the columns with little kept: with most of the rows kept, the paper's own orders differ."""
    return [
        amount
        for amount in block.amounts
        if amount.endswith("/class") or float(amount.removesuffix("%")) <= _MOST_KEPT
    ]
