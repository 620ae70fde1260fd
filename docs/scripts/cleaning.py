"""The table of what a person gains by cleaning, from committed results."""

from __future__ import annotations

from docs.scripts.results import cite, load, percent, table

RESULT = "benchmarks/results/cleaning.json"
# What the steps are called on the page.
STEPS = {
    "as they are": "as they are",
    "clean": "`clean`",
    "clean --relabel": "`clean --relabel`",
    "review": "`review`, 150 answers",
    "clean --decisions": "`clean --decisions`",
    "clean --decisions --relabel": "`clean --decisions --relabel`",
    "every label right": "for comparison: every label right",
}


def steps() -> str:
    """Return a line for each step: what is in the folder, the accuracy, and the processor time."""
    found, lines = load(RESULT), []
    for name, words in STEPS.items():
        step = found["steps"][name]
        keys = ("files", "right_photos", "wrong_labels", "copies", "junk")
        counts = [f"{step[key]:,}" if key in step else "" for key in keys]
        probe = percent(step["probe"]) if "probe" in step else ""
        minutes = f"{step['processor_seconds'] / 60:.1f}" if "processor_seconds" in step else ""
        lines.append([words, *counts, probe, minutes])
    columns = [
        "",
        "files",
        "right label",
        "wrong label",
        "copies",
        "junk",
        "linear probe",
        "processor minutes",
    ]
    return f"{table(columns, lines)}\n\n`{found['command']}`, kept in {cite(RESULT, up=1)}."
