"""What the paper says about this experiment, held against the distances that were measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gmmatch.studies.classification.tables import METHOD_NAMES
from gmmatch.studies.generation.blocks import BASELINES, Block
from gmmatch.studies.study import Verdict

GM = "gm-matching"

_CLEARLY = 0.9
_STABLE = 1.25
_ALIKE = 2.0


@dataclass(frozen=True)
class GenerationClaim:
    """A statement, and how it is checked; the check returns None where the cells that it needs were not run."""

    source: str
    statement: str
    check: Callable[[Block], Verdict | None]


def _beats_all(block: Block, rate: float, amounts: tuple[str, ...], factor: float) -> Verdict | None:
    """Check that GM Matching is below every baseline, by a factor, at every one of the amounts that was run."""
    corruption = block.at(rate)
    columns = {amount: block.column(corruption, amount) for amount in amounts} if corruption else {}
    columns = {
        amount: {method: column[method] for method in (GM, *BASELINES) if method in column}
        for amount, column in columns.items()
        if GM in column and len(column) > 1
    }
    if not columns:
        return None
    agrees, parts = True, []
    for amount, column in columns.items():
        others = {method: value for method, value in column.items() if method != GM}
        if not others:
            return None
        best = min(others, key=lambda method: others[method])
        agrees &= column[GM] < factor * others[best]
        parts.append(
            f"{amount} kept: GM Matching {column[GM]:.2f}, the best of {len(others)} others ({_name(best)}) "
            f"{others[best]:.2f}"
        )
    return Verdict(agrees, "; ".join(parts))


def _growth(block: Block, method: str, rate: float) -> tuple[str, float, float] | None:
    """Return the distances without and with corruption at the amount where both were run."""
    clean, spoilt = block.at(0.0), block.at(rate)
    if clean is None or spoilt is None:
        return None
    for amount in ("40%", *(one for one in block.amounts if one != "100%")):
        before, after = block.column(clean, amount).get(method), block.column(spoilt, amount).get(method)
        if before is not None and after is not None:
            return amount, before, after
    return None


def _hard_degrades(block: Block) -> Verdict | None:
    hard, ours = _growth(block, "hard", 0.3), _growth(block, GM, 0.3)
    if hard is None or ours is None:
        return None
    amount, before, after = hard
    return Verdict(
        after / before > max(_STABLE, ours[2] / ours[1]),
        f"{amount} kept: Hard goes from {before:.2f} to {after:.2f} ({after / before:.2f} times), GM Matching from "
        f"{ours[1]:.2f} to {ours[2]:.2f} ({ours[2] / ours[1]:.2f} times)",
    )


def _stays(block: Block, method: str) -> Verdict | None:
    found = _growth(block, method, 0.3)
    if found is None:
        return None
    amount, before, after = found
    return Verdict(after < _STABLE * before, f"{amount} kept: from {before:.2f} to {after:.2f}")


def _alike(block: Block) -> Verdict | None:
    clean = block.at(0.0)
    column = block.column(clean, "40%") if clean else {}
    found = {method: column[method] for method in (*BASELINES, GM) if method in column}
    if len(found) < 2:
        return None
    best, worst = min(found, key=lambda name: found[name]), max(found, key=lambda name: found[name])
    return Verdict(
        found[worst] < _ALIKE * found[best],
        f"from {found[best]:.2f} ({_name(best)}) to {found[worst]:.2f} ({_name(worst)})",
    )


def _robust_is_best(block: Block) -> Verdict | None:
    spoilt = block.at(0.3)
    column = block.column(spoilt, "40%") if spoilt else {}
    if "robust" not in column or len(column) < 2:
        return None
    others = {method: value for method, value in column.items() if method != "robust"}
    best = min(others, key=lambda method: others[method])
    return Verdict(
        column["robust"] < others[best],
        f"Robust {column['robust']:.2f}, the best of {len(others)} others ({_name(best)}) {others[best]:.2f}",
    )


def _name(method: str) -> str:
    return METHOD_NAMES.get(method, method)


CLAIMS = (
    GenerationClaim(
        "sec:exp-generation",
        "Clean, 10–20% kept: GM Matching substantially outperforms the baselines (checked as: a tenth below the best "
        "of them).",
        lambda block: _beats_all(block, 0.0, ("10%", "20%"), _CLEARLY),
    ),
    GenerationClaim(
        "sec:exp-generation",
        "20% spoilt, 10–40% kept: GM Matching has a significant advantage (a tenth below the best).",
        lambda block: _beats_all(block, 0.2, ("10%", "20%", "40%"), _CLEARLY),
    ),
    GenerationClaim(
        "fig:exp-generation-fid",
        "30% spoilt: GM Matching consistently outperforms the others (below each of them, at every share kept).",
        lambda block: _beats_all(
            block, 0.3, tuple(amount for amount in block.amounts if amount != "100%"), 1.0
        ),
    ),
    GenerationClaim(
        "sec:exp-generation",
        "30% spoilt: Hard degrades significantly (by more than a quarter, and by more than GM Matching).",
        _hard_degrades,
    ),
    GenerationClaim(
        "sec:exp-generation",
        "30% spoilt: GM Matching remains stable (at most a quarter above its own distance on clean data).",
        lambda block: _stays(block, GM),
    ),
    GenerationClaim(
        "fig:gen-clean",
        "Clean, 40% kept: all methods give comparable images (the largest distance below twice the smallest).",
        _alike,
    ),
    GenerationClaim("ours", "30% spoilt, 40% kept: Robust is below all other methods.", _robust_is_best),
    GenerationClaim(
        "ours",
        "30% spoilt: Robust remains stable (at most a quarter above its own distance on clean data).",
        lambda block: _stays(block, "robust"),
    ),
)
