"""The table of errors that people confirmed in test sets, from committed results."""

from __future__ import annotations

from typing import Any

from docs.scripts.audit import PEERS
from docs.scripts.results import cite, load, table

RESULTS = "benchmarks/results/label-errors.json"
PUBLISHED = "published probabilities"


def tables() -> str:
    """Return what each tool finds among the 100 rows that it suspects most, by embeddings and by probabilities."""
    content = load(RESULTS)
    embedded, published = (
        [one for one in content["sets"] if (one["evidence"] == PUBLISHED) == given] for given in (False, True)
    )
    heads = ["test set", "confirmed in all", "gmmatch", *PEERS]
    parts = [
        "Confirmed errors among the 100 most suspicious rows, in brackets how many of the 100 people were shown:"
    ]
    rows = [
        [f"{_name(one)}, {one['evidence']}", str(one["confirmed"]), *compare(one, ("gmmatch", *PEERS))]
        for one in embedded
    ]
    parts += [table(heads, rows)]
    parts += ["The same, where the tools are given the probabilities that the repository holds:"]
    tools = ("gmmatch", "cleanlab", "probability")
    rows = [[_name(one), str(one["confirmed"]), *compare(one, tools)] for one in published]
    parts += [
        table(["test set", "confirmed in all", "gmmatch", "cleanlab", "probability of the label"], rows)
    ]
    parts.append(f"`{content['command']}`, cleanlab {content['cleanlab']}, kept in {cite(RESULTS)}.")
    return "\n\n".join(parts)


def _name(one: dict[str, Any]) -> str:
    return {"mnist": "MNIST", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}[one["name"]]


def compare(one: dict[str, Any], tools: tuple[str, ...]) -> list[str]:
    """Return what the tools confirm in the setting of each that confirms most, and the most in bold.

    Examples
    --------
    >>> found = [{"tool": tool, "confirmed": count, "judged": 90.0} for tool, count in [("a", 3), ("b", 4), ("a", 2)]]
    >>> compare({"tools": found}, ("a", "b"))
    ['3 (90)', '**4 (90)**']
    """
    best = [
        max((each for each in one["tools"] if each["tool"] == tool), key=lambda each: each["confirmed"])
        for tool in tools
    ]
    cells = [f"{each['confirmed']:.3g} ({each['judged']:.3g})" for each in best]
    most = max(each["confirmed"] for each in best)
    return [
        f"**{cell}**" if each["confirmed"] == most else cell for each, cell in zip(best, cells, strict=True)
    ]
