"""The tables about near-duplicates, from committed results."""

from __future__ import annotations

from typing import Any

from docs.scripts.results import ROOT, cite, load, percent, table

RESULTS = "benchmarks/results/duplicates.json"


def duplicates() -> str:
    """Return all tables; nothing as long as nothing was measured."""
    if not (ROOT / RESULTS).exists():
        return ""
    found = load(RESULTS)
    parts = [
        write(found[name]["runs"])
        for name, write in (("recall", recall), ("scale", scale), ("gpu", gpu), ("leaks", leaks))
        if name in found
    ]
    return "\n\n".join([*parts, f"`{found['command']}`, kept in {cite(RESULTS)}."])


def recall(runs: list[dict[str, Any]]) -> str:
    """Return how many pairs are found, compared with all products and faiss.

    Examples
    --------
    >>> run = {"rows": 9, "columns": 2, "threshold": 0.9, "pairs": 4, "recall": 1.0, "wrong": 0, "cpu_seconds": 1.0}
    >>> print(recall([{**run, "brute_force_cpu_seconds": 2.0}]).splitlines()[-1])
    | 0.9 | 4 | 100.0% | 0 | 1.0 s | 2.0 s |
    """
    probes = [key for key in runs[0] if key.startswith("faiss")]
    names = [f"faiss, {key.split('_')[1]} cells: recall, core seconds" for key in probes]
    columns = ["threshold", "pairs", "recall", "wrong pairs", "core seconds", "all products", *names]
    lines = []
    for run in runs:
        found = [run.get(key) for key in probes]
        theirs = [f"{percent(one['recall'])}, {one['cpu_seconds']:.1f} s" if one else "–" for one in found]
        lines.append(
            [
                f"{run['threshold']:g}",
                f"{run['pairs']:,}",
                percent(run["recall"]),
                f"{run['wrong']:,}",
                f"{run['cpu_seconds']:.1f} s",
                f"{run['brute_force_cpu_seconds']:.1f} s",
                *theirs,
            ]
        )
    rows, width = runs[0]["rows"], runs[0]["columns"]
    return f"## All pairs are found\n\n{rows:,} embeddings of CIFAR-10, {width:,} columns:\n\n{table(columns, lines)}"


def scale(runs: list[dict[str, Any]]) -> str:
    """Return time and memory for many rows."""
    columns = ["rows", "threshold", "near-duplicates", "time", "core seconds", "rows take", "memory"]
    lines = [
        [
            f"{run['rows']:,} × {run['columns']}" + (", on disk" if run["on_disk"] else ""),
            f"{run['threshold']:.4g}" + (" (chosen)" if run["estimated"] else ""),
            f"{run['duplicates']:,}",
            f"{run['seconds']:.0f} s",
            f"{run['cpu_seconds']:.0f} s",
            f"{run['input_bytes'] / 1e9:.2f} GB",
            f"{run['peak_bytes'] / 1e9:.2f} GB",
        ]
        for run in runs
    ]
    text = (
        "On two cores that others used as well, so core seconds say more than the time. The memory is the most that "
        "the process held: rows in memory, or pages of the file, included. Rows of more than 96 columns take 520 "
        "bytes each besides that, others 8 for each column."
    )
    return f"## Many rows\n\n{text}\n\n{table(columns, lines)}"


def gpu(runs: list[dict[str, Any]]) -> str:
    """Return the time on a GPU."""
    lines = [
        f"- {run['device']}, {run['rows']:,} × {run['columns']} in half precision, threshold {run['threshold']:.4g}: "
        f"{run['seconds']:.1f} s, {run['peak_bytes'] / 1e9:.1f} GB of its memory, "
        f"{run['duplicates']:,} near-duplicates."
        for run in runs
    ]
    return "\n".join(["## On a GPU\n", *lines])


def leaks(run: dict[str, Any]) -> str:
    """Return what the test set shares with the training set."""
    columns = ["cosine at least", "test images with a near-duplicate", f"of the {run['known']} known ones"]
    lines = [
        [
            f"{one['threshold']:.4g}" + (" (chosen)" if one["threshold"] == run["estimated"] else ""),
            f"{one['test_rows']:,}",
            f"{one['known_found']:,}",
        ]
        for one in run["counts"]
    ]
    text = (
        f"{run['test_rows']:,} test images against {run['rows']:,} training images. People have looked through "
        "CIFAR-10 for test images that show the same scene as a training image (Barz and Denzler, 2020, "
        f"[ciFAIR](https://cvjena.github.io/cifair/)) and found {run['known']}. Their list has what their own "
        "network thought similar, so a pair that is not on it may be right."
    )
    return f"## What CIFAR-10's test set shares with its training set\n\n{text}\n\n{table(columns, lines)}"
