"""Where our order of the methods agrees with the paper's, and where it does not."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gmmatch_paper.studies.classification.corruptions import CorruptionSpec
from gmmatch_paper.studies.classification.disagreements import margin_of, papers_order
from gmmatch_paper.studies.classification.picks import VARIANTS
from gmmatch_paper.studies.classification.tables import (
    METHOD_NAMES,
    Block,
    ProxyPair,
    measured_blocks,
    proxy_pairs,
)
from gmmatch_paper.studies.results import Results

OWN = "gm-matching"
AUTHORS = "gm-matching-authors"
COMPARED = ("random", "easy", "moderate", "herding", OWN, AUTHORS)
NOT_IN_THE_PAPER = ("robust", *VARIANTS)


def agreement_lines(results: Results, tables: Iterable[str]) -> list[str]:
    """Return one sentence per setting on who is best, and how our order compares with the paper's."""
    lines = []
    for block in measured_blocks(results, tables):
        columns = _columns(block)
        if columns:
            lines.append(_first(block, columns) + _order(block, columns))
    return lines


def first_places(results: Results, tables: Iterable[str], own: str = OWN) -> tuple[int, int]:
    """Return in how many columns a version of GM Matching is first of the paper's methods, and of how many."""
    columns = [
        column for block in measured_blocks(results, tables) for column in _columns(block, own).values()
    ]
    return sum(_is_first(column, own) for column in columns), len(columns)


def _columns(block: Block, own: str = OWN) -> dict[str, dict[str, float]]:
    """Return our means by amount and method, where a version of GM Matching is among several methods."""
    columns = {one: block.column(one) for one in block.amounts if one != "100%"}
    return {one: column for one, column in columns.items() if own in column and len(column) > 1}


def _is_first(column: dict[str, float], own: str = OWN) -> bool:
    return column[own] >= max(
        (value for method, value in column.items() if method not in (OWN, *NOT_IN_THE_PAPER)), default=0.0
    )


def _without_variants(column: dict[str, float]) -> dict[str, float]:
    return {method: value for method, value in column.items() if method not in VARIANTS}


def variant_lines(results: Results) -> list[str]:
    """Return what the variants of a method change, in points of accuracy, where both were measured."""
    lines = []
    blocks = measured_blocks(results, ())
    for variant, (method, _) in VARIANTS.items():
        told = []
        for state, chosen in (
            ("without corruption", [block for block in blocks if block.setting.corruption == "none"]),
            ("under corruption", [block for block in blocks if block.setting.corruption != "none"]),
        ):
            gains = [
                column[variant] - column[method]
                for block in chosen
                for column in map(block.column, block.amounts)
                if variant in column and method in column
            ]
            if gains:
                told.append(
                    f"{state} {np.mean(gains):+.1f} points on average (from {min(gains):+.1f} to {max(gains):+.1f}, "
                    f"{len(gains)} columns)"
                )
        if told:
            lines.append(f"{METHOD_NAMES[variant]}, in place of {METHOD_NAMES[method]}: {'; '.join(told)}.")
    return lines


def proxy_lines(results: Results) -> list[str]:
    """Return who is first with a frozen proxy, and with one trained on the data where all else is the same."""
    return [
        f"{_where(block)}, {pair.amount.replace('/class', ' per class')} kept: {_first_of_pair(pair, block)}"
        for pair in proxy_pairs(results)
        for block in (pair.frozen, pair.trained)
    ]


def _first_of_pair(pair: ProxyPair, block: Block) -> str:
    cells, means = block.cells.where(amount=pair.amount), block.column(pair.amount)
    best, following = sorted(pair.methods, key=lambda method: -means[method])[:2]
    text = f"{METHOD_NAMES.get(best, best)} is first ({means[best]:.1f})"
    lead = margin_of(cells, best, following)
    if lead is not None:
        clear = "" if lead.clear else ", which is not clear"
        text += f", by {lead} points above {METHOD_NAMES.get(following, following)}{clear}"
    above = [
        f"{name} by {margin}"
        for own, name in ((OWN, "as the paper's text has it"), (AUTHORS, "as in the authors' code"))
        if own in pair.methods and (margin := margin_of(cells, own, "random")) is not None
    ]
    if above:
        text += f". GM Matching is above Random, in points: {', '.join(above)}"
        kind = CorruptionSpec.parse(block.setting.corruption).kind
        for paper in papers_order(kind):
            if (paper.above, paper.below) == (OWN, "random"):
                text += f"; in the paper by {paper.least:.1f} to {paper.most:.1f}"
    return f"{text}."


def proxy_share_lines(results: Results) -> list[str]:
    """Return how many picks have a wrong label where the proxy was trained on the data, beside a frozen one."""
    lines = []
    for pair in proxy_pairs(results):
        setting, shares = pair.trained.setting, pair.trained.bad_shares(pair.amount)
        spec = CorruptionSpec.parse(setting.corruption)
        if pair.trained.mixes_bad_rows and not spec.touches_images:
            told = [f"{METHOD_NAMES[name]} {100 * shares[name]:.0f}%" for name in COMPARED if name in shares]
            lines.append(
                f"**{spec.words}**, in `{setting.encoder}`, a network trained on the data from the pixels on, as "
                f"none of those spaces is ({setting.dataset}; more below): {', '.join(told)}."
            )
    return lines


def _where(block: Block) -> str:
    return f"**{CorruptionSpec.parse(block.setting.corruption).words}** ({block.setting.where})"


def contamination_lines(results: Results) -> list[str]:
    """Return, for every corruption, how many bad rows the picks hold, beside a random draw's and the least."""
    lines, seen = [], set()
    for block in measured_blocks(results, ()):
        setting = block.setting
        picks = (setting.dataset, setting.encoder, setting.corruption)
        if not block.mixes_bad_rows or picks in seen:
            continue
        seen.add(picks)
        told = []
        for amount in block.amounts:
            shares = block.bad_shares(amount)
            if OWN not in shares or "random" not in shares or amount == "100%":
                continue
            least = min(shares, key=lambda method: shares[method])
            told.append(
                f"at {amount.replace('/class', ' per class')} GM Matching {100 * shares[OWN]:.1f}%, Random "
                f"{100 * shares['random']:.1f}%, least {METHOD_NAMES.get(least, least)} {100 * shares[least]:.1f}%"
            )
        if told:
            words = CorruptionSpec.parse(setting.corruption).words
            lines.append(
                f"**{words}** ({setting.dataset}, picked in `{setting.encoder}`): {'; '.join(told)}."
            )
    return lines


def correlation_lines(results: Results) -> list[str]:
    """Return the correlation of the methods' accuracies with their shares of bad rows, by what is trained."""
    lines = []
    for block in measured_blocks(results, ()):
        if not block.mixes_bad_rows:
            continue
        told = []
        for amount in block.amounts:
            column = block.column(amount)
            shares = block.bad_shares(amount)
            mixed = [(share, column[method]) for method, share in shares.items() if share <= 0.5]
            if amount != "100%" and len(mixed) >= 4:
                value, kept = _correlation(mixed), amount.replace("/class", " per class")
                told.append(f"{value:+.2f} at {kept} ({len(mixed)})")
        if told:
            lines.append(f"{_where(block)}: {', '.join(told)}.")
    return lines


def _correlation(points: list[tuple[float, float]]) -> float:
    """Return Pearson's correlation; 0 where one side does not vary."""
    bad, accuracy = np.array(points).T
    if np.ptp(bad) == 0.0 or np.ptp(accuracy) == 0.0:
        return 0.0
    return float(np.corrcoef(bad, accuracy)[0, 1])


def rank_correlation(ours: dict[str, float], theirs: dict[str, float]) -> float | None:
    """Return Spearman's correlation of two orders over the methods that both have; None below four.

    Examples
    --------
    >>> rank_correlation({"a": 1, "b": 2, "c": 3, "d": 4}, {"a": 10, "b": 20, "c": 40, "d": 30})
    0.8
    """
    from scipy.stats import spearmanr

    shared = [method for method in ours if method in theirs]
    if len(shared) < 4:
        return None
    found = spearmanr([ours[one] for one in shared], [theirs[one] for one in shared]).statistic
    return round(float(found), 6)


def _first(block: Block, columns: dict[str, dict[str, float]]) -> str:
    plain = {one: _without_variants(column) for one, column in columns.items()}
    wins = [one for one, column in plain.items() if _is_first(column)]
    listed = []
    for one, column in plain.items():
        best = max(column, key=lambda method: column[method])
        listed.append(
            f"at {one.replace('/class', ' per class')} {METHOD_NAMES.get(best, best)} ({column[best]:.1f}"
            + (")" if best == OWN else f"; GM Matching {column[OWN]:.1f}, Random {column['random']:.1f})"
               if "random" in column else f"; GM Matching {column[OWN]:.1f})")
        )  # fmt: skip
    return (
        f"{_where(block)}: of the paper's methods, GM Matching is first in {len(wins)} of {len(plain)} columns. "
        f"Best of all: {', '.join(listed)}.{_better_variants(columns)}"
    )


def _better_variants(columns: dict[str, dict[str, float]]) -> str:
    """Return where a variant of a method, which takes no first place, is above all methods."""
    found = [
        f"at {one.replace('/class', ' per class')} {METHOD_NAMES[best]} ({column[best]:.1f})"
        for one, column in columns.items()
        if (best := max(column, key=lambda method: column[method])) in VARIANTS
    ]
    return f" Better still, as a variant: {', '.join(found)}." if found else ""


def _order(block: Block, columns: dict[str, dict[str, float]]) -> str:
    if block.paper is None:
        return ""
    found = []
    for one, column in columns.items():
        printed = {
            method: number.mean
            for method in block.paper.rows
            if (number := block.paper.at(method, one)) is not None
        }
        value = rank_correlation(column, printed)
        if value is not None:
            found.append(f"{value:+.2f} at {one.replace('/class', ' per class')}")
    if not found:
        return ""
    return f" Rank correlation with the order of the paper's `{block.paper.table}`: {', '.join(found)}."
