"""The tables of the page that helps to choose a method, from committed results."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean
from typing import Any

from docs.scripts.results import cite, load, percent, table

GAUSSIAN = "docs/results/studies/noisy-gaussian.json"
KERNELS = "benchmarks/results/kernel-herding.json"
DIGITS = "docs/results/demo.json"
FIGURES = "docs/results/methods.json"
SCRATCH = "docs/results/studies/domain-transfer.json"


def gaussian(method: str, psi: float, field: str) -> float:
    """Return a mean over the seeds of the study of noisy Gaussians."""
    cells = load(GAUSSIAN)["parts"]["picks"]["cells"]
    return fmean(cell[field] for cell in cells if (cell["method"], cell["psi"]) == (method, psi))


def digits_row(label: str) -> dict[str, Any]:
    """Return a line of the demo on digits."""
    (row,) = (one for one in load(DIGITS)["rows"] if one["label"] == label)
    return dict(row)


def decisions() -> str:
    """Return the decision table: what the data are like, what to take, and the measurement behind it."""
    rows = [
        _for_label_noise(), _for_human_labels(), _for_corrupted_rows(), _for_no_labels(), _for_compact_classes(),
        _for_clean_rows(), _for_the_mean(), _for_hard_rows(), _for_a_baseline(),
    ]  # fmt: skip
    return table(["your data, or your aim", "take", "what was measured"], rows, numbers_from=3)


def figure_shares(*names: str) -> str:
    """Return the share of corrupted picks of some methods in the data of the methods' figures."""
    found = load(FIGURES)["methods"]
    return ", ".join(f"{percent(found[name]['spoilt']['bad_picks'], 0)} ({name})" for name in names)


def _for_label_noise() -> list[str]:
    bad = percent(load(FIGURES)["settings"]["bad"], 0)
    scratch = [f"{percent(from_scratch(name, 'label:40%'))} ({name})" for name in ("gm-matching", "random")]
    return [
        "labels may be wrong",
        "[`robust`](methods/robust.md)",
        f"{bad} of the rows mislabeled or in no class: of the picks "
        f"{figure_shares('robust', 'gm-matching', 'herding', 'random')}. {cite(FIGURES)} On images: "
        "[results](results-robust.md). Without screening, a ResNet-18 trained on a fifth of CIFAR-10 with 40% wrong "
        f"labels reaches {', '.join(scratch)}, and {percent(from_scratch('random', 'none'))} on random picks with "
        f"correct labels. {cite(SCRATCH)}",
    ]


def _for_human_labels() -> list[str]:
    return [
        "labels were given by people",
        "[`robust`](methods/robust.md), and look at [the report](guides/report.md)",
        "People's mistakes are harder to find than random ones: more of them stay. [Results](results-robust.md)",
    ]


def _for_corrupted_rows() -> list[str]:
    return [
        "rows are corrupted: noise, blur, a broken sensor",
        "[`robust`](methods/robust.md)",
        "Kind by kind on [the page of results](results-robust.md).",
    ]


def _for_no_labels() -> list[str]:
    return [
        "no labels, one cluster of clean rows among others",
        "[`robust`](methods/robust.md)",
        "With care: [the guide](guides/no-labels.md) says what can be known without labels.",
    ]


def _for_a_baseline() -> list[str]:
    whole, some = digits_row("all noisy rows")["accuracy"]["mean"], digits_row("random")["accuracy"]["mean"]
    return [
        "a yardstick, or clean data and plenty of picks",
        "[`random`](methods/random.md)",
        "If training on everything is affordable, do: on digits with 35% wrong labels all rows give "
        f"{percent(whole)}, a random tenth {percent(some)}. {cite(DIGITS)}",
    ]


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


def _for_compact_classes() -> list[str]:
    digit, chance = digits_row("easy"), digits_row("random")
    return [
        "compact classes, few picks, next to no cost",
        "[`easy`](methods/easy.md)",
        f"On digits {percent(digit['contamination']['mean'])} wrong labels of 35%, and "
        f"{percent(digit['accuracy']['mean'])} "
        f"accuracy (random {percent(chance['accuracy']['mean'])}). {cite(DIGITS)} But picks that are all "
        "alike teach little: a "
        f"fifth of CIFAR-10 with 20% wrong labels gives {percent(probe('easy', 'accuracy'))} with "
        f"{percent(probe('easy', 'contamination'))} wrong labels, random picks "
        f"{percent(probe('random', 'accuracy'))} with "
        f"{percent(probe('random', 'contamination'))}. {cite(SCRATCH)}",
    ]


def _for_clean_rows() -> list[str]:
    (ratio,) = (one["value"] for one in load(KERNELS)["ratios"] if one["name"].startswith("MMD of random"))
    return [
        "rows are clean; the picks should follow their whole distribution",
        "[`kernel-herding`](methods/kernel-herding.md)",
        f"A tenth of 10,000 rows: the MMD of random picks is {ratio:.1f} times as large. {cite(KERNELS)}",
    ]


def _for_the_mean() -> list[str]:
    errors = ", ".join(
        f"{gaussian(name, 0.4, 'mean_error'):.2f} ({name})" for name in ("gm-matching", "moderate", "herding")
    )
    return [
        "only the *mean* of the picks matters, and up to half of the rows may be corrupt",
        "[`gm-matching`](methods/gm-matching.md)",
        f"40% corrupt: the mean of the picks is off by {errors}. As a distribution they are far from the "
        "clean rows: MMD "
        f"{gaussian('gm-matching', 0.4, 'mmd'):.2f}, against {gaussian('random', 0.4, 'mmd'):.2f} of "
        "random picks. "
        f"{cite(GAUSSIAN)}",
    ]


def _for_hard_rows() -> list[str]:
    shares = figure_shares("el2n", "grand", "forgetting", "self-supervised", "hard")
    bad = percent(load(FIGURES)["settings"]["bad"], 0)
    return [
        "rows and labels are certainly clean; the hard ones should stay",
        "[`el2n`](methods/el2n.md), [`grand`](methods/grand.md), [`forgetting`](methods/forgetting.md)",
        "Made for clean data and large shares. A fifth of clean CIFAR-10 that el2n picks in the features of a frozen "
        "encoder "
        f"trains a ResNet-18 to {percent(from_scratch('el2n', 'none'))}, random picks to "
        f"{percent(from_scratch('random', 'none'))}. {cite(SCRATCH)} Never on dirty data: where {bad} of the "
        "rows are mislabeled or in no class, of the "
        f"picks {shares} are. {cite(FIGURES)}",
    ]


def digits() -> str:
    """Return the demo's table: ten methods' worth of wrong labels and accuracy on small data."""
    rows = [
        [row["label"], _mean(row["contamination"]), f"{row['mmd']['mean']:.3f}", _mean(row["accuracy"])]
        for row in load(DIGITS)["rows"]
    ]
    made = f"`gmmatch demo --json`, kept in {cite(DIGITS)}."
    return f"{table(['kept by', 'wrong labels', 'MMD', 'test accuracy'], rows)}\n\n{made}"


def corrupt_rows() -> str:
    """Return corrupt picks, the error of their mean and their MMD on the paper's noisy Gaussian."""
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


def _mean(figure: dict[str, float]) -> str:
    return f"{100 * figure['mean']:.1f} ± {100 * figure['deviation']:.1f}%"
