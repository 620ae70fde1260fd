"""What a study is made of: parts to measure, claims to check, figures and tables to show."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from gmmatch_paper.studies.results import Results

SizeName: TypeAlias = Literal["quick", "full"]
"""How large a study is run: in seconds, or at the paper's sizes."""

Measured: TypeAlias = dict[str, Any]
"""What one cell gives: names to numbers, strings or lists that JSON can hold."""

Draw: TypeAlias = "Callable[[Results], Any]"
"""From the results to a Matplotlib figure."""


@dataclass(frozen=True)
class Grid:
    """Which cells a part has at one size.

    Parameters
    ----------
    vary : mapping of name to values
        The cells are all combinations.
    fixed : mapping
        What stays the same in every cell.
    seeds : int
        How often each combination is repeated, with seeds 0, 1, ...

    Examples
    --------
    >>> [cell for cell in Grid({"psi": (0.0, 0.4)}, {"n": 10}, seeds=1).cells()]
    [{'psi': 0.0, 'seed': 0}, {'psi': 0.4, 'seed': 0}]
    """

    vary: Mapping[str, Sequence[Any]]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    seeds: int = 1

    def cells(self, seeds: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield the parameters of every cell, the seed varying fastest."""
        for values in itertools.product(*self.vary.values()):
            for seed in range(self.seeds if seeds is None else seeds):
                yield {**dict(zip(self.vary, values, strict=True)), "seed": seed}


def grids(
    vary: Mapping[str, Sequence[Any]], fixed: Mapping[str, Any] | None = None, seeds: tuple[int, int] = (1, 1)
) -> tuple[Grid, Grid]:
    """Return a quick and a full grid of the same cells, which differ in the number of seeds."""
    return Grid(vary, fixed or {}, seeds[0]), Grid(vary, fixed or {}, seeds[1])


@dataclass(frozen=True)
class Part:
    """One table of measurements.

    Parameters
    ----------
    name : str
        What the results call it.
    measure : function
        Called with the cell's parameters, the fixed ones and ``seed`` by keyword; returns what it
        measured. It stands at the top level of its module, so that other processes can call it.
    quick, full : Grid
        The cells at either size.
    timed : bool
        Measures time: such cells run one after another with nothing beside them.
    keep : function, optional
        Whether a combination makes sense; called with the cell's parameters.
    seeded : bool
        Whether ``--seeds`` applies; not where nothing is random.
    code : str, optional
        Stands for the code that measures, in place of a hash of it: where cells take hours, they are
        measured again only when the author says so.
    """

    name: str
    measure: Callable[..., Measured]
    quick: Grid
    full: Grid
    timed: bool = False
    keep: Callable[[Mapping[str, Any]], bool] | None = None
    seeded: bool = True
    code: str | None = None

    def grid(self, size: SizeName) -> Grid:
        """Return the grid at a size."""
        return self.quick if size == "quick" else self.full

    def cells(self, size: SizeName, seeds: int | None = None) -> list[dict[str, Any]]:
        """Return the parameters of all cells at a size."""
        every = self.grid(size).cells(seeds if self.seeded else None)
        return [cell for cell in every if self.keep is None or self.keep(cell)]


@dataclass(frozen=True)
class Verdict:
    """Whether a statement agrees with what was measured, and the numbers that say so."""

    agrees: bool
    measured: str


def how_many_agree(found: Sequence[bool]) -> str:
    """Return a verdict on several statements in a word, with their numbers.

    Examples
    --------
    >>> how_many_agree([True, False, True])
    '**partly** (2 of 3)'
    """
    word = "yes" if all(found) else "partly" if any(found) else "no"
    return f"**{word}** ({sum(found)} of {len(found)})"


@dataclass(frozen=True)
class Claim:
    """A statement that the numbers can contradict.

    Parameters
    ----------
    source : str
        The paper's label (``fig:...``, ``lemma:...``), or ``"ours"`` for what we add.
    statement : str
        What is claimed, in one sentence.
    check : function
        From the results to a verdict.
    """

    source: str
    statement: str
    check: Callable[[Results], Verdict]


def claim(source: str, statement: str) -> Callable[[Callable[[Results], Verdict]], Claim]:
    """Turn the function below it, from the results to a verdict, into a :class:`Claim`."""
    return partial(Claim, source, statement)


@dataclass(frozen=True)
class Table:
    """Numbers for a page: a caption, column heads and rows of text."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Described:
    """What all studies have.

    Parameters
    ----------
    name : str
        What the user types.
    title : str
        What it is about.
    paper : tuple of str
        Labels of the paper's figures, tables and statements that it recomputes.
    pictures : mapping
        Its figures, by what is appended to the study's name in the file's name.
    """

    name: str
    title: str
    paper: tuple[str, ...]
    pictures: Mapping[str, Draw] = field(default_factory=dict)

    def named_pictures(self) -> dict[str, Draw]:
        """Return the figures by file name, the main one first."""
        return {f"{self.name}{suffix}.png": draw for suffix, draw in self.pictures.items()}


@dataclass(frozen=True, kw_only=True)
class Study(Described):
    """A question about the paper, and everything needed to answer and show it: parts, claims, pictures and tables."""

    parts: tuple[Part, ...]
    claims: tuple[Claim, ...] = ()
    tables: tuple[Callable[[Results], Table], ...] = ()
