"""The tables of what ``robust`` picks, from committed results."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from docs.scripts.results import ROOT, cite, load, percent, table

RESULTS = "benchmarks/results/screening.json"
TRAININGS = "benchmarks/results/screening-training.json"


def robust() -> str:
    """Return all tables, data set by data set; nothing as long as nothing was measured."""
    if not (ROOT / RESULTS).exists():
        return ""
    parts = [sections(load(RESULTS))]
    if (ROOT / TRAININGS).exists():
        parts.append(trained(load(TRAININGS)))
    return "\n\n".join(parts)


def sections(found: dict[str, Any]) -> str:
    """Return the tables of label noise and of corrupted images.

    Examples
    --------
    >>> run = {"data": "digits", "rows": 1797, "noise": "human", "method": "random", "wrong_picks": 0.2, "probe": 0.9}
    >>> print(sections({"runs": [run], "corrupted": [], "command": "make"}).splitlines()[0])
    ## Label noise, digits
    """
    parts = []
    for data in dict.fromkeys(run["data"] for run in found["runs"]):
        runs = [run for run in found["runs"] if run["data"] == data]
        parts.append(f"## Label noise, {data}\n\n{label_noise(runs)}")
    for data in dict.fromkeys(run["data"] for run in found["corrupted"]):
        runs = [run for run in found["corrupted"] if run["data"] == data]
        parts.append(f"## Corrupted images, {data}\n\n{corrupted(runs)}")
    parts.append(f"`{found['command']}`, kept in {cite(RESULTS)}.")
    return "\n\n".join(parts)


def label_noise(runs: list[dict[str, Any]]) -> str:
    """Return mislabeled picks, the probe's accuracy, and how well mislabeled rows are found: narrow tables."""
    noises = sorted({run["noise"] for run in runs}, key=lambda noise: (noise == "human", noise))
    methods = sorted({run["method"] for run in runs}, key=lambda method: (method != "robust", method))
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in runs:
        found.setdefault((run["method"], run["noise"]), []).append(run)

    def rows(field: str, field_if_clean: str) -> list[list[str]]:
        lines = []
        for method in methods:
            cells = []
            for noise in noises:
                wanted = field_if_clean if noise == "none" else field
                values = [run[wanted] for run in found.get((method, noise), []) if wanted in run]
                cells.append(percent(fmean(values)) if values else "")
            if any(cells):
                lines.append([method.removesuffix(" + random"), *cells])
        return lines

    heads = [noise.replace("symmetric", "random") for noise in noises]
    parts = [f"Mislabeled rows among the picks, of {runs[0]['rows']:,} rows:"]
    parts.append(table(["picked by", *heads], rows("wrong_picks", "wrong_picks")))
    parts.append("Accuracy of a linear probe trained on the picks:")
    parts.append(table(["picked by", *heads], rows("probe", "probe")))
    # Where no label is wrong there is nothing to find, and every row that is named is one too many.
    screens = [line for line in rows("f1", "dropped") if line[0] != "correct labels"]
    if screens:
        parts.append(
            "F1 of finding mislabeled rows; under *none*, the share of rows named wrong or doubtful:"
        )
        parts.append(table(["screened by", *heads], screens))
    return "\n\n".join(parts)


def corrupted(runs: list[dict[str, Any]]) -> str:
    """Return how often each kind is picked, of chance, and the share of clean rows that is dropped."""
    shares = sorted({run["share"] for run in runs})
    rows = []
    for kind in dict.fromkeys(run["kind"] for run in runs):
        cells = [[run for run in runs if (run["kind"], run["share"]) == (kind, share)] for share in shares]
        rows.append([
            kind,
            *(
                f"{fmean(run['picked_of_chance'] for run in some):.2f} / "
                f"{percent(fmean(run['clean_dropped'] for run in some))}" if some else ""
                for some in cells
            ),
        ])  # fmt: skip
    heads = ["the only kind", *(f"{percent(share, 0)} of the rows" for share in shares)]
    return (
        f"How often a kind is picked by `robust`, 1 being chance / clean rows dropped, {runs[0]['rows']:,} rows:\n\n"
        f"{table(heads, rows)}"
    )


def trained(found: dict[str, Any]) -> str:
    """Return the accuracy of a network trained on the picks from scratch.

    Examples
    --------
    >>> run = {"data": "digits", "subset": "human/robust/0", "test_accuracy": 0.84}
    >>> print(trained({"runs": [run], "command": "make"}).splitlines()[-3])
    | robust | 84.0% |
    """
    parts = []
    for data in dict.fromkeys(run["data"] for run in found["runs"]):
        accuracies: dict[tuple[str, str], list[float]] = {}
        for run in found["runs"]:
            if run["data"] == data:
                noise, method, _ = run["subset"].split("/")
                accuracies.setdefault((method, noise), []).append(run["test_accuracy"])
        noises = list(dict.fromkeys(noise for _, noise in accuracies))
        rows = []
        for method in dict.fromkeys(method for method, _ in accuracies):
            cells = [accuracies.get((method, noise)) for noise in noises]
            name = method.removesuffix(" + random")
            rows.append([name, *(percent(fmean(cell)) if cell else "" for cell in cells)])
        heads = [noise.replace("symmetric", "random") for noise in noises]
        parts.append(f"{data}:\n\n{table(['picked by', *heads], rows)}")
    return (
        "## Trained from scratch\n\n"
        "Accuracy of a ResNet-18 trained on the picks alone; of `robust` three trainings, of the others one."
        + "".join(f" {sentence}" for sentence in [found.get("note")] if sentence)
        + "\n\n"
        + "\n\n".join(parts)
        + f"\n\n`{found['command']}`, kept in {cite(TRAININGS)}."
    )
