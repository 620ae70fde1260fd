"""The tables of how well wrong labels are found, from committed results."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from benchmarks.noise_summary import PICKED, Run, kind_of, mean_of, rules_in, summarize
from docs.scripts.results import ROOT, cite, load, percent, table

RESULTS = "benchmarks/results/noise.json"
ABLATIONS = "benchmarks/results/noise-ablations.json"
PRED_PROBS = "benchmarks/results/pred-probs.json"
KINDS = {
    "sym=0.1": "any other class, 10%", "sym=0.2": "any other class, 20%", "sym=0.4": "any other class, 40%",
    "sym=0.6": "any other class, 60%", "pair=0.2": "next class, 20%", "pair=0.4": "next class, 40%",
    "onesided=0.4": "some classes, into one other each, 40%", "idn=0.2": "near a border, 20%", "human": "people",
    "two-sym=0.2": "two classes, 20%", "two-sym=0.4": "two classes, 40%", "tiny-sym=0.2": "20 rows a class, 20%",
    "imb-sym=0.2": "unbalanced 100:1, 20%",
}  # fmt: skip


def noise() -> str:
    """Return all tables; nothing as long as nothing was measured."""
    if not (ROOT / RESULTS).exists():
        return ""
    found = load(RESULTS)
    runs: list[Run] = found["runs"]
    rules = rules_in(runs)
    parts = [
        ranking(runs, rules), said(runs), kinds(runs, rules), sets(runs, rules),
        f"`{found['command']}`, kept in {cite(RESULTS)}.",
    ]  # fmt: skip
    if (ROOT / ABLATIONS).exists():
        found = load(ABLATIONS)
        parts += [ablations(found["runs"]), f"`{found['command']}`, kept in {cite(ABLATIONS)}."]
    return "\n\n".join(parts)


def number(value: float, digits: int = 3) -> str:
    """Return a number without its leading zero, or a dash."""
    return "–" if isnan(value) else f"{value:.{digits}f}".replace("0.", ".", 1)


def ranking(runs: Sequence[Run], rules: Sequence[str]) -> str:
    """Return how well each rule finds wrong labels, and which picks follow."""
    lines = []
    for name in rules:
        figures = summarize(runs, name)
        flagged = mean_of([run for run in runs if kind_of(run) == "clean"], name, "clean_flagged")
        shares = [percent(figures[key]) for key in PICKED]
        lines.append(
            [_name(name), number(figures["f1"]), number(figures["auroc"]), *shares, percent(flagged)]
        )
    columns = ["rule", "F1", "AUROC", "10% picks", "20% picks", "50% picks", "clean rows named"]
    cells = int(summarize(runs)["cells"])
    text = (
        f"Means over {cells} cells with wrong labels: the F1 of wrong and doubtful labels, the area under the ROC "
        "curve of the ranking, and wrong labels among picks of the least suspicious rows of each class. Last, the "
        "share of rows that are named wrong or doubtful where every label is right:"
    )
    return f"## Compared with single rules\n\n{text}\n\n{table(columns, lines)}"


def said(runs: Sequence[Run]) -> str:
    """Return whether what is said is true."""
    figures = summarize(runs)
    lowest = number(figures["lowest_sure_f1"])
    clean = f"{percent(figures['clean_wrong'])}, {percent(figures['most_clean_wrong'])}"
    lines = [
        [
            "cells in which some labels are called wrong",
            f"{figures['sure_cells']:.0f} of {figures['cells']:.0f}",
        ],
        ["precision of *wrong* there", number(figures["precision"])],
        ["F1 of *wrong* there, mean and lowest", f"{number(figures['sure_f1'])}, {lowest}"],
        ["error of the reported rate there", percent(figures["rate_error"])],
        ["rows called wrong where every label is right, mean and most", clean],
        ["truth inside the interval, noise that does not depend on the rows", percent(figures["inside"])],
        ["mean width of the interval there", percent(figures["width"])],
        ["lowest AUROC of a cell", number(figures["lowest_auroc"])],
        ["cells with more than 5% wrong labels, called clean", f"{figures['false_all_clears']:.0f}"],
    ]
    return f"## What is said\n\n{table(['', 'measured'], lines)}"


def kinds(runs: Sequence[Run], rules: Sequence[str]) -> str:
    """Return the F1 for each kind of noise."""
    columns = ["noise", *(_name(name) for name in rules), "interval", "truth"]
    lines = []
    for kind, words in KINDS.items():
        some = [run for run in runs if run["noise"] == kind]
        if some:
            low, high, true = (mean_of(some, "gmmatch", key) for key in ("low", "high", "true"))
            scores = [number(mean_of(some, name, "f1"), 2) for name in rules]
            lines.append([words, *scores, f"{percent(low, 0)} to {percent(high, 0)}", percent(true, 0)])
    text = "F1 of wrong and doubtful labels, and the mean interval:"
    return f"## By kind of noise\n\n{text}\n\n{table(columns, lines)}"


def sets(runs: Sequence[Run], rules: Sequence[str]) -> str:
    """Return the F1 for each data set."""
    lines = []
    for data in dict.fromkeys(run["data"] for run in runs):
        some = [run for run in runs if run["data"] == data and kind_of(run) != "clean"]
        first = some[0]
        shape = f"{first['rows']:,} × {first['columns']}, {first['classes']} classes"
        scores = [number(mean_of(some, name, "f1"), 2) for name in rules]
        lines.append([f"{data.replace('_', ' ')}, {shape}", *scores])
    return (
        f"## By data set\n\nF1 of wrong and doubtful labels:\n\n{table(['data', *map(_name, rules)], lines)}"
    )


def ablations(runs: Sequence[Run]) -> str:
    """Return what each part of the model adds."""
    lines = []
    for name in rules_in(runs):
        figures = summarize(runs, name)
        lines.append([
            "nothing" if name == "gmmatch" else name.removeprefix("without "),
            number(figures["f1"]), number(figures["auroc"]), percent(figures["picks_20%"]),
            f"{figures['sure_cells']:.0f}", number(figures["precision"]), percent(figures["inside"], 0),
            number(figures["width"]), percent(figures["channel_rate_error"]),
        ])  # fmt: skip
    columns = [
        "left out",
        "F1",
        "AUROC",
        "20% picks",
        "sure cells",
        "precision",
        "truth inside",
        "width",
        "rate error",
    ]
    text = f"The same model with one part left out, over {len(runs)} cells, one random seed:"
    return f"## What each part adds\n\n{text}\n\n{table(columns, lines)}"


def _name(rule: str) -> str:
    return f"`{rule}`" if rule == "gmmatch" else rule


def pred_probs() -> str:
    """Return how well labels are judged by the probabilities of somebody else's network."""
    found, lines = load(PRED_PROBS), []
    for run in found["runs"]:
        low, high = run["noise_interval"]
        lines.append([
            run["data"], run["network"].partition("_")[0], f"{run['f1']:.3f}", f"{run['f1_disagreement']:.3f}",
            f"{run['f1_cleanlab']:.3f}", f"{percent(low)} to {percent(high)}", percent(run["noise"]),
        ])  # fmt: skip
    columns = ["labels", "network", "`gmmatch`", "disagreement", "cleanlab", "noise said", "noise"]
    return f"{table(columns, lines, numbers_from=2)}\n\n`{found['command']}`, kept in {cite(PRED_PROBS)}."
