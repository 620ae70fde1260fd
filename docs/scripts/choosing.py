"""The tables that compare methods, from committed results."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean
from typing import Any

from docs.scripts import digits, texts
from docs.scripts.results import cite, load, percent, table

GAUSSIAN = "docs/results/studies/noisy-gaussian.json"
KERNELS = "benchmarks/results/kernel-herding.json"
FIGURES = "docs/results/methods.json"
SCRATCH = "docs/results/studies/domain-transfer.json"
SCREENING = "benchmarks/results/screening.json"


def gaussian(method: str, psi: float, field: str) -> float:
    """Return a mean over the seeds of the study of noisy Gaussians."""
    cells = load(GAUSSIAN)["parts"]["picks"]["cells"]
    return fmean(cell[field] for cell in cells if (cell["method"], cell["psi"]) == (method, psi))


def decisions() -> str:
    """Return which method to take for which data, with random picks and a footnote for each measurement."""
    picks = ["easy", "random"]
    easy, chance = (percent(digits.digits_row(name)["contamination"]["mean"]) for name in picks)
    figures = load(FIGURES)["methods"]
    bad = [percent(figures[name]["spoilt"]["bad_picks"], 0) for name in ("robust", "random")]
    (ratio,) = (one["value"] for one in load(KERNELS)["ratios"] if one["name"].startswith("MMD of random"))
    errors = [f"{gaussian(name, 0.4, 'mean_error'):.2f}" for name in ("gm-matching", "random")]
    clean = [percent(from_scratch(name, "none")) for name in ("el2n", "random")]
    rows = [
        ["labels from people", "robust", "mislabeled picks[^people]", *mislabeled("human")],
        ["labels wrong at random", "robust", "mislabeled picks[^chance]", *mislabeled("symmetric 40%")],
        ["labels of texts", "robust", "mislabeled picks[^texts]", *texts.shares("robust", "random")],
        ["outliers, rows of no class", "robust", "mislabeled or of no class[^figures]", *bad],
        ["compact classes, least cost", "easy", "mislabeled picks[^digits]", easy, chance],
        ["clean: follow the distribution", "kernel-herding", "MMD, relative[^kernels]", "1.0", f"{ratio:.1f}"],
        ["only the mean matters", "gm-matching", "error of the mean[^gaussian]", *errors],
    ]  # fmt: skip
    for row in rows:
        row[1] = f"[`{row[1]}`](methods/{row[1]}.md)"
    heads = ["your data, or your aim", "take", "measured", "with it", "at random"]
    hard = (
        f"`el2n`, `grand` and `forgetting` keep the hardest rows. A fifth of clean CIFAR-10 trains a network to "
        f"{clean[0]} if `el2n` picks it, and to {clean[1]} at random.[^scratch]\nWhere labels may be wrong, never "
        "use them: a mislabeled row looks hard, and is picked first."
    )
    return f"{table(heads, rows, numbers_from=3)}\n\n{hard}\n\n{_footnotes()}"


def mislabeled(noise: str) -> list[str]:
    """Return the share of mislabeled picks of ``robust`` and of random ones, on CIFAR-10."""
    runs = [run for run in load(SCREENING)["runs"] if (run["data"], run["noise"]) == ("CIFAR-10", noise)]
    return [
        percent(fmean(run["wrong_picks"] for run in runs if run["method"] == name))
        for name in ("robust", "random")
    ]


def _footnotes() -> str:
    bad, robust = percent(load(FIGURES)["settings"]["bad"], 0), cite(SCREENING)
    notes = {
        "people": f"CIFAR-10 with the labels of CIFAR-10N, 40% of them wrong, 20% picked: {robust}.",
        "chance": f"CIFAR-10 with 40% of the labels replaced at random, 20% picked: {robust}.",
        "texts": f"1,000 docstrings with 30% wrong labels, 20% picked: {cite(texts.RESULTS)}.",
        "figures": f"The rows in the figures of the [methods](methods/index.md), {bad} of them bad: {cite(FIGURES)}.",
        "digits": f"1,257 digits with 35% wrong labels, 10% picked: {cite(digits.RESULTS)}. Picks near the center "
        f"are all alike: on CIFAR-10 they train a worse model than random picks do: {cite(SCRATCH)}.",
        "kernels": f"10,000 Gaussian rows, 10% picked: {cite(KERNELS)}. *MMD* is the distance between the picks and "
        "the rows as distributions.",
        "gaussian": f"A Gaussian with 40% of the rows from an adversary, 10% picked: {cite(GAUSSIAN)}.",
        "scratch": "Test accuracy of a ResNet-18 trained on 20% of clean CIFAR-10, picked by the features of a "
        f"frozen encoder: {cite(SCRATCH)}.",
    }
    return "\n".join(f"[^{name}]: {text}" for name, text in notes.items())


def probe(method: str, field: str) -> float:
    """Return a mean over the seeds of a linear probe under 20% label noise, a fifth of CIFAR-10 kept."""
    return fmean(cell[field] for cell in kept_fifth(method, "label:20%", "probe"))


def from_scratch(method: str, corruption: str) -> float:
    """Return the mean accuracy of a ResNet-18 trained on a fifth of CIFAR-10, all 50,000 images to pick from."""
    return fmean(cell["accuracy"] for cell in kept_fifth(method, corruption, "scratch"))


def kept_fifth(method: str, corruption: str, downstream: str) -> list[dict[str, Any]]:
    """Return the cells that keep a fifth of CIFAR-10, picked in a frozen encoder."""
    cells = load(SCRATCH)["parts"]["cells"]["cells"]
    wanted = {"downstream": downstream, "corruption": corruption, "method": method, "amount": "20%"}
    wanted["encoder"] = "resnet50-imagenet-3stage-160px"
    return [cell for cell in cells if wanted.items() <= cell.items()]


def corrupt_rows() -> str:
    """Return corrupted picks, the error of their mean and their MMD on the paper's noisy Gaussian."""
    names = _unique(cell["method"] for cell in load(GAUSSIAN)["parts"]["picks"]["cells"])
    rows = [
        [
            name, *(percent(gaussian(name, psi, "contamination"), 0) for psi in (0.2, 0.4)),
            *(f"{gaussian(name, psi, 'mean_error'):.2f}" for psi in (0.2, 0.4)),
            *(f"{gaussian(name, psi, 'mmd'):.2f}" for psi in (0.2, 0.4)),
        ]
        for name in names
    ]  # fmt: skip
    columns = [
        "method",
        *(f"{what}, {psi}" for what in ("corrupt", "error", "MMD") for psi in ("20%", "40%")),
    ]
    made = load(GAUSSIAN)["provenance"]["command"]
    return f"{table(columns, rows)}\n\n`{made}`, kept in {cite(GAUSSIAN)}."


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
