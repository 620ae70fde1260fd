"""The tables of sets that people mislabeled, from committed results."""

from __future__ import annotations

from typing import Any

from docs.scripts.results import cite, load, percent, table

RESULTS, STORE = "benchmarks/results/audit.json", "benchmarks/results/store-selection.json"
PEERS = ("cleanlab", "regression", "neighbors")


def front(speed_page: str) -> str:
    """Return the table of the front page, what is mislabeled among the rows that each tool keeps, and the speed."""
    rows = []
    for one in load(RESULTS)["sets"]:
        own = one["gmmatch"]
        noise = f"{percent(own['rate'], 0)} ({percent(own['low'], 0)} to {percent(own['high'], 0)})"
        counts = [f"{one['rows']:,}", percent(one["true"], 0), noise, f"{own['kept']:,.0f}"]
        seconds = [own["cpu_seconds"], best_setting(one, "cleanlab", "wrong_trusted")["cpu_seconds"]]
        rows.append(
            [one["name"], *counts, *compare(one, "wrong_trusted"), "{:.1f} / {:.1f} s".format(*seconds)]
        )
    heads = ["labels", "rows", "wrong", "estimated", "kept", "gmmatch", *PEERS, "CPU"]
    return f"{table(heads, rows)}\n\n{speed(speed_page)}"


def tables() -> str:
    """Return the tables of the results page: rows kept, settings and seconds, set by set."""
    content = load(RESULTS)
    names = [f"{one['name']} ({one['labels_by']})" for one in content["sets"]]
    parts = []
    for field, words in (
        ("wrong_trusted", "Mislabeled rows among those kept, as many as gmmatch trusts:"),
        (
            "wrong_fifth",
            "Mislabeled rows among the fifth that each tool believes in most, gmmatch of each class:",
        ),
    ):
        rows = [[name, *compare(one, field)] for name, one in zip(names, content["sets"], strict=True)]
        parts += [words, table(["labels", "gmmatch", *PEERS], rows)]
    parts.append("The settings that are best at the first, and processor seconds with them:")
    lines = []
    for one in content["sets"]:
        best = [best_setting(one, tool, "wrong_trusted") for tool in PEERS]
        cells = [f"{setting['setting']}: {setting['cpu_seconds']:.1f} s" for setting in best]
        lines.append([one["name"], f"{one['gmmatch']['cpu_seconds']:.1f} s", *cells])
    parts.append(table(["labels", "gmmatch", *PEERS], lines))
    parts.append(f"`{content['command']}`, cleanlab {content['cleanlab']}, kept in {cite(RESULTS)}.")
    return "\n\n".join(parts)


def compare(one: dict[str, Any], field: str) -> list[str]:
    """Return the shares of gmmatch and its peers, the lowest in bold.

    Examples
    --------
    >>> peers = [{"tool": tool, field: share} for field in ["w"] for tool, share in zip(PEERS, [0.3, 0.1, 0.2])]
    >>> compare({"gmmatch": {"w": 0.25}, "peers": peers}, "w")
    ['25.0%', '30.0%', '**10.0%**', '20.0%']
    """
    shares = [one["gmmatch"][field], *(best_setting(one, tool, field)[field] for tool in PEERS)]
    cells = [percent(share) for share in shares]
    return [f"**{cell}**" if cell == percent(min(shares)) else cell for cell in cells]


def best_setting(one: dict[str, Any], tool: str, field: str) -> dict[str, Any]:
    """Return the setting of a peer that keeps the fewest mislabeled rows."""
    return min((setting for setting in one["peers"] if setting["tool"] == tool), key=lambda s: s[field])


def speed(page: str) -> str:
    """Return a sentence about time and memory."""
    one = load(STORE)
    size, memory = one["store_bytes"] / 1e9, one["peak_anonymous_bytes"] / 1e9
    return (
        f"`gm-matching` picks {one['picked']:,} of {one['rows']:,} rows ({size:.0f} GB) from a disk in "
        f"{one['seconds']:.0f} s with {memory:.2f} GB of memory, measured with version 0.2 ([more]({page}))."
    )
