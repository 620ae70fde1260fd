"""What the paper says about this experiment, held against the distances that were measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gmmatch_paper.studies.generation.blocks import BASELINES, Block
from gmmatch_paper.studies.study import Verdict
from gmmatch_paper.studies.style import METHOD_NAMES

GM = "gm-matching"
SHARES = ("10%", "20%", "40%", "60%", "80%")
"""What the paper's figure has beside everything."""

_CLEARLY = 0.9
_STABLE = 1.25
_ALIKE = 2.0


@dataclass(frozen=True)
class Finding(Verdict):
    """A verdict, and whether every cell that the statement speaks of was run.

    One cell can contradict what is said of many, but only all of them can confirm it.
    """

    complete: bool = True

    @property
    def word(self) -> str:
        """The verdict in a word or a few."""
        if not self.agrees:
            return "disagrees"
        return "agrees" if self.complete else "agrees, as far as run"


@dataclass(frozen=True)
class GenerationClaim:
    """A statement, and how it is checked; the check returns None where the cells that it needs were not run."""

    source: str
    statement: str
    check: Callable[[Block], Finding | None]


def _is_below(
    block: Block,
    method: str,
    others: Sequence[str],
    rate: float,
    amounts: Sequence[str],
    factor: float = 1.0,
) -> Finding | None:
    """Check that a method is below each of the others, by a factor, at every one of the amounts that was run."""
    corruption = block.at(rate)
    columns = {amount: block.column(corruption, amount) for amount in amounts} if corruption else {}
    agrees, complete, parts = True, True, []
    for amount, column in columns.items():
        found = {other: column[other] for other in others if other in column}
        missing = [_name(other) for other in others if other not in column]
        complete &= method in column and not missing
        if method not in column or not found:
            continue
        best = min(found, key=lambda other: found[other])
        agrees &= column[method] < factor * found[best]
        whose = _name(best) if len(found) == 1 else f"the best of {len(found)} others ({_name(best)})"
        told = f"{amount} kept: {_name(method)} {column[method]:.2f}, {whose} {found[best]:.2f}"
        parts.append(f"{told} ({', '.join(missing)} not run)" if missing else told)
    return Finding(agrees, "; ".join(parts), complete) if parts else None


def _growth(block: Block, *methods: str) -> tuple[str, list[tuple[float, float]]] | None:
    """Return distances without corruption and with 30%, at the first amount where all methods have both."""
    clean, corrupted = block.at(0.0), block.at(0.3)
    if clean is None or corrupted is None:
        return None
    for amount in dict.fromkeys(("40%", *(one for one in block.amounts if one != "100%"))):
        before, after = block.column(clean, amount), block.column(corrupted, amount)
        if all(method in before and method in after for method in methods):
            return amount, [(before[method], after[method]) for method in methods]
    return None


def _hard_degrades(block: Block) -> Finding | None:
    found = _growth(block, "hard", GM)
    if found is None:
        return None
    amount, [(before, after), (our_before, our_after)] = found
    return Finding(
        after / before > max(_STABLE, our_after / our_before),
        f"{amount} kept: Hard goes from {before:.2f} to {after:.2f} ({after / before:.2f} times), GM Matching from "
        f"{our_before:.2f} to {our_after:.2f} ({our_after / our_before:.2f} times)",
    )


def _stays(block: Block, method: str) -> Finding | None:
    found = _growth(block, method)
    if found is None:
        return None
    amount, [(before, after)] = found
    return Finding(after < _STABLE * before, f"{amount} kept: from {before:.2f} to {after:.2f}")


def _alike(block: Block) -> Finding | None:
    clean = block.at(0.0)
    column = block.column(clean, "40%") if clean else {}
    found = {method: column[method] for method in (*BASELINES, GM) if method in column}
    if len(found) < 2:
        return None
    best, worst = min(found, key=lambda name: found[name]), max(found, key=lambda name: found[name])
    return Finding(
        found[worst] < _ALIKE * found[best],
        f"from {found[best]:.2f} ({_name(best)}) to {found[worst]:.2f} ({_name(worst)})",
        len(found) == len(BASELINES) + 1,
    )


def _name(method: str) -> str:
    return METHOD_NAMES.get(method, method)


CLAIMS = (
    GenerationClaim(
        "sec:exp-generation",
        "Clean, 10–20% kept: GM Matching substantially outperforms the baselines (checked as: a tenth below the best "
        "of them).",
        lambda block: _is_below(block, GM, BASELINES, 0.0, ("10%", "20%"), _CLEARLY),
    ),
    GenerationClaim(
        "sec:exp-generation",
        "20% corrupted, 10–40% kept: GM Matching has a significant advantage (a tenth below the best).",
        lambda block: _is_below(block, GM, BASELINES, 0.2, ("10%", "20%", "40%"), _CLEARLY),
    ),
    GenerationClaim(
        "fig:exp-generation-fid",
        "30% corrupted: GM Matching consistently outperforms the others (below each of them, at every share kept).",
        lambda block: _is_below(block, GM, BASELINES, 0.3, SHARES),
    ),
    GenerationClaim(
        "sec:exp-generation",
        "30% corrupted: Hard degrades significantly (by more than a quarter, and by more than GM Matching).",
        _hard_degrades,
    ),
    GenerationClaim(
        "sec:exp-generation",
        "30% corrupted: GM Matching remains stable (at most a quarter above its own distance on clean data).",
        lambda block: _stays(block, GM),
    ),
    GenerationClaim(
        "fig:gen-clean",
        "Clean, 40% kept: all methods give comparable images (the largest distance below twice the smallest).",
        _alike,
    ),
    GenerationClaim(
        "fig:gen-noisy",
        "30% corrupted, 40% kept: Random, Easy and Hard give distorted digits and GM Matching clear ones (below "
        "each of the three).",
        lambda block: _is_below(block, GM, ("random", "easy", "hard"), 0.3, ("40%",)),
    ),
)
