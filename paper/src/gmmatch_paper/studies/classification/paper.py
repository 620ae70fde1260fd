"""The numbers that the paper prints, copied from its tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple


class Printed(NamedTuple):
    """A mean over the seeds and its deviation, as tables print them."""

    mean: float
    deviation: float


@dataclass(frozen=True)
class PaperBlock:
    """A block of one of the paper's tables: one dataset, one corruption, one network.

    Attributes
    ----------
    table
        The label of the table.
    dataset, corruption, network
        What was trained on what; the corruption as a study writes it.
    amounts
        The columns: how much was kept.
    rows
        By method, one printed number per column.
    """

    table: str
    dataset: str
    corruption: str
    network: str
    amounts: tuple[str, ...]
    rows: dict[str, tuple[Printed, ...]]

    @property
    def measure(self) -> str:
        """What is printed, by the name that a cell has for it: ImageNet's table alone is top-5."""
        return "top_5" if self.table == "tab:imagenet_accuracy" else "accuracy"

    def at(self, method: str, amount: str) -> Printed | None:
        """Return what is printed for a method and an amount, if anything is."""
        if method not in self.rows or amount not in self.amounts:
            return None
        return self.rows[method][self.amounts.index(amount)]


@lru_cache(maxsize=1)
def _all_blocks() -> tuple[PaperBlock, ...]:
    text = (
        files("gmmatch_paper.studies.classification")
        .joinpath("paper_tables.json")
        .read_text(encoding="utf-8")
    )
    blocks: list[dict[str, Any]] = json.loads(text)
    return tuple(
        PaperBlock(
            **{name: block[name] for name in ("table", "dataset", "corruption", "network")},
            amounts=tuple(block["amounts"]),
            rows={
                method: tuple(Printed(*number) for number in numbers)
                for method, numbers in block["rows"].items()
            },
        )
        for block in blocks
    )


def paper_blocks(tables: Sequence[str]) -> list[PaperBlock]:
    """Return the blocks of some of the paper's tables, in their order there."""
    return [block for block in _all_blocks() if block.table in tables]
