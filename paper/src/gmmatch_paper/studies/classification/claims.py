"""What the paper's text says of its tables on images, held against what was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from gmmatch_paper.studies.classification.tables import DATASETS, NOT_RUN, Block, measured_blocks
from gmmatch_paper.studies.results import Results
from gmmatch_paper.studies.study import Table

CAPTION = (
    "Is GM Matching above the next best method, and by as many points as the text says? Margin in points ± "
    "standard error over the seeds; *less*: by fewer points than the paper says; *unclear*: within two standard "
    "errors, or measured with one seed. Measured on: the data, how many columns of the table, how many other methods."
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


@dataclass(frozen=True)
class Margin:
    """By how many points a method is above the best of the paper's other methods, averaged over columns."""

    points: float
    error: float
    dataset: str
    columns: int
    others: int

    @property
    def basis(self) -> str:
        """What it rests on."""
        columns = f"{self.columns} column{'s' if self.columns > 1 else ''}"
        return f"{DATASETS.get(self.dataset, self.dataset)}: {columns}, {self.others} others"

    def verdict(self, least: float) -> str:
        """Return whether it is above zero, and as large as claimed, by two standard errors.

        Examples
        --------
        >>> [Margin(points, 0.5, "digits", 1, 6).verdict(3.0) for points in (2.5, 1.5, 0.5, -2.0)]
        ['yes', 'less', 'unclear', 'no']
        """
        if not abs(self.points) > 2.0 * self.error:
            return "unclear"
        if self.points < 0.0:
            return "no"
        return "yes" if self.points >= least - 2.0 * self.error else "less"

    def __str__(self) -> str:
        error = ", one seed" if np.isnan(self.error) else f" ± {self.error:.1f}"
        return f"{self.points:+.1f}{error}".replace("-", "−")


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
        mine = margin(results.get(self.study), own, self.corruptions, self.downstream, self.frozen)
        if mine is None:
            return Outcome(NOT_RUN)
        if self.grows_from is None:
            return Outcome(mine.verdict(self.least), mine)
        study, corruption = self.grows_from
        earlier = margin(results.get(study), own, (corruption,), self.downstream, self.frozen)
        if earlier is None:
            return Outcome(NOT_RUN)
        error = float(np.hypot(mine.error, earlier.error))
        grown = replace(mine, points=mine.points - earlier.points, error=error)
        return Outcome(grown.verdict(0.0) if mine.points > 0.0 else "no", grown)


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


def margin(
    results: Results | None,
    own: str,
    corruptions: tuple[str, ...] = (),
    downstream: str = "scratch",
    frozen: bool = False,
) -> Margin | None:
    """Return the margin over the next best of the paper's methods, on the paper's data where those were run."""
    if results is None:
        return None
    blocks = [
        block
        for block in measured_blocks(results, ())
        if block.setting.downstream == downstream
        and not (frozen and block.setting.in_domain)
        and (not corruptions or block.setting.corruption in corruptions)
    ]
    blocks = [block for block in blocks if block.setting.dataset == blocks[0].setting.dataset]
    # Of one recipe, that of most trainings: margins over fewer methods, of longer trainings, are another thing.
    trainings = Counter(block.setting.recipe for block in blocks for _ in block.cells)
    blocks = [block for block in blocks if block.setting.recipe == max(trainings, key=trainings.__getitem__)]
    common = _common_variance(blocks)
    found = [
        one
        for block in blocks
        for amount in block.amounts
        if amount != "100%" and (one := _margin_at(block, amount, own, common)) is not None
    ]
    if not found:
        return None
    points, errors, others = zip(*found, strict=True)
    error = float(np.sqrt(np.sum(np.square(errors)))) / len(found)
    return Margin(float(np.mean(points)), error, blocks[0].setting.dataset, len(found), min(others))


def _common_variance(blocks: list[Block]) -> float:
    """Return the variance over the seeds of methods that have several; it stands in where one has a single seed."""
    spread = [
        block.values(method, amount)
        for block in blocks
        for method in block.methods
        for amount in block.amounts
    ]
    several = [values for values in spread if len(values) > 1]
    free = sum(len(values) - 1 for values in several)
    return sum(float(np.var(values)) * len(values) for values in several) / free if free else float("nan")


def _margin_at(block: Block, amount: str, own: str, common: float) -> tuple[float, float, int] | None:
    column = block.column(amount)
    others = [name for name in _OTHERS if name in column]
    if own not in column or not others:
        return None
    best = max(others, key=lambda name: column[name])
    spread = [block.values(name, amount) for name in (own, best)]
    variances = [float(np.var(values, ddof=1)) if len(values) > 1 else common for values in spread]
    error = sum(each / len(values) for each, values in zip(variances, spread, strict=True)) ** 0.5
    return column[own] - column[best], error, len(others)


def checked_statements(results: Mapping[str, Results], study: str) -> dict[Statement, list[str]]:
    """Return the statements of a study, with a verdict for both versions of GM Matching and what these rest on."""
    found = {}
    for statement in STATEMENTS:
        if statement.study == study:
            outcomes = [statement.check(results, own) for own in VERSIONS]
            basis = next((one.margin.basis for one in outcomes if one.margin is not None), "not run")
            found[statement] = [*map(str, outcomes), basis]
    return found


def statements_table(results: Mapping[str, Results], study: str) -> Table | None:
    """Return the statements of a study as a table, if there are any."""
    rows = [[statement.text, *found] for statement, found in checked_statements(results, study).items()]
    heads = ("what the text says", *VERSIONS.values(), "measured on")
    return Table(CAPTION, heads, rows) if rows else None
