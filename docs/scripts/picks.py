"""The tables about weights, references, budget curves and updates, from committed results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from docs.scripts.results import ROOT, cite, load, table


def picks() -> str:
    """Return all tables; nothing of what was not measured."""
    parts: dict[str, Callable[[dict[str, Any]], str]] = {"weights": weights}
    written = []
    for name, write in parts.items():
        path = f"benchmarks/results/picks-{name}.json"
        if (ROOT / path).exists():
            found = load(path)
            written.append(f"{write(found)}\n\n`{found['command']}`, kept in {cite(path)}.")
    return "\n\n".join(written)


def weights(found: dict[str, Any]) -> str:
    """Return what weights and swaps gain."""
    lines = [
        [
            str(run["dimensions"]),
            f"{run['weights']:.2f} ({min(run['weights_each']):.2f} to {max(run['weights_each']):.2f})",
            f"{run['swaps']:.2f}",
            f"{run['both']:.2f}",
        ]
        for run in found["runs"]
    ]
    columns = ["dimensions", "with weights (all seeds)", "after swaps", "swaps and weights"]
    return (
        "## Weights and swaps\n\n100 of 1,000 Gaussian rows by kernel herding: the distance to all rows (MMD) as a "
        f"share of what it is without, on average over {found['runs'][0]['seeds']} seeds.\n\n{table(columns, lines)}"
    )
