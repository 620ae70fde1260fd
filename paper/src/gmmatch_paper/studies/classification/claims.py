"""What the paper's text says of its tables on images, held against what was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from gmmatch_paper.studies.classification.image_study import SIX
from gmmatch_paper.studies.classification.paper import paper_blocks
from gmmatch_paper.studies.classification.tables import (
    NOT_RUN,
    Block,
    Setting,
    measured_blocks,
    shown_dataset,
    shown_network,
)
from gmmatch_paper.studies.image_cells.corruptions import CorruptionSpec, in_the_paper
from gmmatch_paper.studies.results import Results
from gmmatch_paper.studies.study import Table
from gmmatch_paper.studies.style import METHOD_NAMES

CAPTION = (
    "Points by which GM Matching is above the best of the paper's other methods, the mean over the columns, ± half "
    "of the 95% interval over the seeds. Measured on: the data, how many columns of the table, how many of the "
    "paper's other methods."
)
VERSIONS = {"gm-matching": "as in the text", "gm-matching-authors": "as in the authors' code"}
"""GM Matching in two versions: the paper's text, and unit-length rows with a unit-length median."""

_OTHERS = (
    "random",
    "easy",
    "hard",
    "herding",
    "forgetting",
    "grand",
    "el2n",
    "optimization",
    "self-supervised",
    "moderate",
)


class Column(NamedTuple):
    """A column of a table: how far one version of GM Matching is above the best other method.

    ``variances`` are those of the two means, as pairs with their degrees of freedom; empty where one has a single
    seed.
    """

    setting: Setting
    amount: str
    points: float
    best: str
    others: tuple[str, ...]
    variances: tuple[tuple[float, int], ...]


@dataclass(frozen=True)
class Margin:
    """The mean of columns, with half of its 95% interval, which is NaN where a column has a single seed."""

    points: float
    half_width: float
    columns: tuple[Column, ...]

    @classmethod
    def of(cls, columns: Sequence[Column], less: Sequence[Column] = ()) -> Margin | None:
        """Return the mean of columns, minus that of others if there are any."""
        if not columns:
            return None
        points = float(np.mean([column.points for column in columns]))
        points -= float(np.mean([column.points for column in less])) if less else 0.0
        terms = [
            (variance / len(group) ** 2, free)
            for group in (columns, less)
            for column in group
            for variance, free in column.variances
        ]
        alone = any(not column.variances for column in (*columns, *less))
        return cls(points, float("nan") if alone else _half_width(terms), tuple(columns))

    def missing(self, source: str) -> tuple[int, int]:
        """Return how many of the methods of a table of the paper were run in every column, and how many it has."""
        compared = others_of(source)
        run = set(compared).intersection(*(column.others for column in self.columns))
        return len(run), len(compared)

    def verdict(self, least: float, source: str) -> str:
        """Return the word of the rules that the index page states."""
        if np.isnan(self.half_width):
            return "one seed"
        if abs(self.points) <= self.half_width:
            return "unclear"
        if self.points < 0.0:
            return "no"
        if self.points + self.half_width < least:
            return "less"
        run, compared = self.missing(source)
        return "yes" if run == compared else "above those run"

    def __str__(self) -> str:
        error = "" if np.isnan(self.half_width) else f" ± {self.half_width:.1f}"
        return f"{round(self.points, 1) + 0.0:+.1f}{error}".replace("-", "−")


def _half_width(terms: Sequence[tuple[float, int]]) -> float:
    """Return half of Welch's interval of a sum of means: terms are their variances and degrees of freedom."""
    total = sum(variance for variance, _ in terms)
    if total == 0.0:
        return 0.0
    free = total**2 / sum(variance**2 / degrees for variance, degrees in terms)
    return float(stats.t.ppf(0.975, free) * total**0.5)


def others_of(source: str) -> tuple[str, ...]:
    """Return the methods that a table of the paper compares with GM Matching; its figures have six in all.

    Examples
    --------
    >>> others_of("tab:exp-clip-cifar")
    ('random', 'easy', 'hard', 'herding', 'moderate')
    """
    blocks = paper_blocks((source,))
    names = blocks[0].rows if blocks else SIX
    return tuple(name for name in names if name != "gm-matching")


@dataclass(frozen=True)
class Outcome:
    """A verdict in a word, and the margin that it rests on."""

    word: str
    margin: Margin | None = None

    def __str__(self) -> str:
        return self.word if self.margin is None else f"**{self.word}** ({self.margin})"


@dataclass(frozen=True)
class Statement:
    """A statement about GM Matching's margin over the next best method.

    Parameters
    ----------
    study, source, text
        Whose results check it, where the paper says it, and what it says.
    least
        The margin in points that it claims.
    corruptions
        What it speaks of; everything that the study measured if empty.
    downstream
        ``"scratch"`` or ``"probe"``.
    frozen
        Whether it speaks of picks in a frozen encoder alone.
    grows_from
        Where given, the margin must instead be larger than that of this study and corruption.
    """

    study: str
    source: str
    text: str
    least: float = 0.0
    corruptions: tuple[str, ...] = ()
    downstream: str = "scratch"
    frozen: bool = False
    grows_from: tuple[str, str] | None = None

    def check(self, results: Mapping[str, Results], own: str) -> Outcome:
        """Return the verdict for one version of GM Matching."""
        columns = self.columns(results, own)
        less: list[Column] = []
        if self.grows_from is not None:
            study, corruption = self.grows_from
            less = margin_columns(results.get(study), own, (corruption,), self.downstream, self.frozen)
            shared = {column.amount for column in columns} & {column.amount for column in less}
            columns, less = ([c for c in group if c.amount in shared] for group in (columns, less))
        margin = Margin.of(columns, less)
        if margin is None:
            return Outcome(NOT_RUN)
        word = margin.verdict(self.least, self.source)
        # A gap that closes is not a margin that grows.
        behind = word != "one seed" and np.mean([column.points for column in columns]) <= 0.0
        return Outcome("no" if less and behind else word, margin)

    def columns(self, results: Mapping[str, Results], own: str) -> list[Column]:
        """Return the columns that the statement speaks of."""
        return margin_columns(results.get(self.study), own, self.corruptions, self.downstream, self.frozen)

    def basis(self, margin: Margin) -> str:
        """Return in words what a margin rests on."""
        count, (run, compared) = len(margin.columns), margin.missing(self.source)
        dataset = margin.columns[0].setting.dataset
        return (
            f"{shown_dataset(dataset)}: {count} column{'s' if count > 1 else ''}, {run} of {compared} others"
        )


STATEMENTS = (
    Statement(
        "clean-classification",
        "tab:exp-classification-clean",
        "Clean: over 2 points above the next best",
        2.0,
    ),
    Statement("image-corruption", "tab:cifarC", "Corrupted images: about 3 points above", 3.0),
    Statement(
        "image-corruption",
        "tab:cifarC",
        "The margin grows with the share of corrupted images (20% against none)",
        corruptions=("image:20%",),
        grows_from=("clean-classification", "none"),
    ),
    Statement(
        "label-noise", "tab:exp-classification-label_noise", "Label noise: about 12 points above", 12.0
    ),
    Statement(
        "label-noise",
        "tab:exp-classification-label_noise",
        "The margin grows with the noise (35% against 20%)",
        corruptions=("label:35%",),
        grows_from=("label-noise", "label:20%"),
    ),
    Statement("adversarial", "tab:exp-classification-Adv", "Attacked images: about 3 points above", 3.0),
    Statement("vit", "tab:cifar100_vit_small", "ViT-S: about 10 points above", 10.0),
    Statement(
        "network-transfer",
        "tab:exp-nw-clean",
        "Other networks, clean: above all others",
        corruptions=("none",),
    ),
    Statement(
        "network-transfer",
        "tab:exp-nw-corrupt",
        "Other networks, corrupted: above all others",
        corruptions=("label:20%", "image:20%", "pgd:100%"),
    ),
    Statement(
        "domain-transfer",
        "fig:exp-domain-vanilla",
        "Frozen encoder, trained from scratch: above all others",
        frozen=True,
    ),
    Statement(
        "domain-transfer",
        "fig:exp-domain-lp",
        "Frozen encoder, linear probe: above all others",
        downstream="probe",
        frozen=True,
    ),
    Statement("clip-transfer", "tab:exp-clip-cifar", "CLIP: above all others, whatever the noise and amount"),
    Statement(
        "clip-transfer",
        "tab:exp-clip-cifar",
        "CLIP, 40% label noise: 3 points above",
        3.0,
        corruptions=("label:40%",),
    ),
)


def margin_columns(
    results: Results | None,
    own: str,
    corruptions: tuple[str, ...] = (),
    downstream: str = "scratch",
    frozen: bool = False,
) -> list[Column]:
    """Return the columns that have a version of GM Matching, on the paper's data where those were run."""
    if results is None:
        return []
    blocks = [
        block
        for block in measured_blocks(results, ())
        if block.setting.downstream == downstream
        and not (frozen and block.setting.in_domain)
        and (not corruptions or in_the_paper(block.setting.corruption) in corruptions)
    ]
    if any("image-xia" in block.setting.corruption for block in blocks):
        blocks = [block for block in blocks if not block.setting.corruption.startswith("image:")]
    blocks = [block for block in blocks if block.setting.dataset == blocks[0].setting.dataset]
    # Of one recipe, that of most trainings: margins over fewer methods, of longer trainings, are another thing.
    trainings = Counter(block.setting.recipe for block in blocks for _ in block.cells)
    blocks = [block for block in blocks if block.setting.recipe == max(trainings, key=trainings.__getitem__)]
    tried = [_column(block, amount, own) for block in blocks for amount in block.amounts if amount != "100%"]
    columns = [column for column in tried if column is not None]
    return [column for column in columns if column.variances] or columns


def _column(block: Block, amount: str, own: str) -> Column | None:
    means = block.column(amount)
    others = tuple(name for name in _OTHERS if name in means)
    if own not in means or not others:
        return None
    best = max(others, key=means.__getitem__)
    samples = [block.values(name, amount) for name in (own, best)]
    return Column(block.setting, amount, means[own] - means[best], best, others, variances_of(samples))


def variances_of(samples: Sequence[Sequence[float]]) -> tuple[tuple[float, int], ...]:
    """Return the variances of the means of two samples with their degrees of freedom; none for a single seed."""
    if min(map(len, samples)) < 2:
        return ()
    return tuple((float(np.var(values, ddof=1)) / len(values), len(values) - 1) for values in samples)


def checked_statements(results: Mapping[str, Results], study: str) -> dict[Statement, list[str]]:
    """Return the statements of a study, with a verdict for both versions of GM Matching and what these rest on."""
    checked = {}
    for statement in STATEMENTS:
        if statement.study == study:
            outcomes = [statement.check(results, own) for own in VERSIONS]
            basis = [statement.basis(outcome.margin) for outcome in outcomes if outcome.margin is not None]
            checked[statement] = [*map(str, outcomes), basis[0] if basis else "not run"]
    return checked


def statements_table(results: Mapping[str, Results], study: str) -> Table | None:
    """Return the statements of a study as a table, if there are any."""
    rows = [[statement.text, *words] for statement, words in checked_statements(results, study).items()]
    heads = ("what the text says", *VERSIONS.values(), "measured on")
    return Table(CAPTION, heads, rows) if rows else None


def columns_table(results: Mapping[str, Results], study: str) -> Table | None:
    """Return the margins of the columns behind the statements of a study, where there are several."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for statement in STATEMENTS:
        for place, own in enumerate(VERSIONS):
            for column in statement.columns(results, own) if statement.study == study else ():
                key = (_column_name(column), METHOD_NAMES.get(column.best, column.best))
                margin = Margin.of([column])
                rows.setdefault(key, [NOT_RUN] * len(VERSIONS))[place] = str(margin)
    if len(rows) < 2:
        return None
    heads = ("column", "best other method", *VERSIONS.values())
    caption = "The columns behind it: points above the best of the paper's other methods, ± half of the 95% interval."
    return Table(caption, heads, [[*key, *margins] for key, margins in rows.items()])


def _column_name(column: Column) -> str:
    words = CorruptionSpec.parse(column.setting.corruption).words
    network = column.setting.network
    return f"{words}, {column.amount.replace('/class', ' per class')} kept, {shown_network(network)}"
