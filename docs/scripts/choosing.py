"""The tables of the page that helps to choose a method, from committed results."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean
from typing import Any

from docs.scripts.results import cite, load, percent, table

LABELS = "benchmarks/results/screening-labels.json"
IMAGES = "benchmarks/results/screening-images.json"
CLUSTERS = "benchmarks/results/screening-gaussian.json"
GAUSSIAN = "docs/results/studies/noisy-gaussian.json"
KERNELS = "benchmarks/results/kernel-herding.json"
DIGITS = "docs/results/demo.json"
FIGURES = "docs/results/methods.json"
PROBES = "docs/results/studies/label-noise.json"
SCRATCH = "docs/results/studies/domain-transfer.json"

NOISES = {"0": "none", "0.2": "20% at random", "0.4": "40% at random", "people": "40%, given by people"}
# One subset size is enough to choose by; the guide has the others.
KEPT = 0.1


def label_runs(noise: str, method: str) -> tuple[float, float]:
    """Return the share of wrong labels among the picks and the probe's accuracy, means over the seeds."""
    runs = [
        run
        for run in load(LABELS)["runs"]
        if (run["noise"], run["method"], run["share"]) == (noise, method, KEPT)
    ]
    return fmean(run["wrong_labels"] for run in runs), fmean(run["accuracy"] for run in runs)


def spoilt_share(case: dict[str, Any], method: str) -> float:
    """Return the share of the picks that are spoilt images, of any kind."""
    return float(sum(case["picks"][method][kind] for kind in case["in_the_data"]))


def image_case(spoilt: float, label_noise: float = 0.0) -> dict[str, Any]:
    """Return what was measured at one rate of spoilt images and wrong labels."""
    (case,) = (
        one for one in load(IMAGES)["cases"] if (one["spoilt"], one["label_noise"]) == (spoilt, label_noise)
    )
    return dict(case)


def gaussian(method: str, psi: float, field: str) -> float:
    """Return a mean over the seeds of the study of noisy Gaussians."""
    cells = load(GAUSSIAN)["parts"]["picks"]["cells"]
    return fmean(cell[field] for cell in cells if (cell["method"], cell["psi"]) == (method, psi))


def cluster_case(kind: str, share: float, dimensions: int = 2) -> dict[str, Any]:
    """Return what was measured on a Gaussian with one kind of corrupt rows."""
    key = (kind, share, dimensions)
    (case,) = (
        one for one in load(CLUSTERS)["cases"] if (one["kind"], one["share"], one["dimensions"]) == key
    )
    return dict(case)


def digits_row(label: str) -> dict[str, Any]:
    """Return a line of the demo on digits."""
    (row,) = (one for one in load(DIGITS)["rows"] if one["label"] == label)
    return dict(row)


def decisions() -> str:
    """Return the decision table: what the data are like, what to take, and the measurement behind it."""
    rows = [
        _for_random_label_noise(), _for_people(), _for_spoilt_rows(), _for_no_labels(), _for_compact_classes(),
        _for_clean_rows(), _for_the_mean(), _for_hard_rows(), _for_a_baseline(),
    ]  # fmt: skip
    return table(["your data, or your aim", "take", "what was measured"], rows, numbers_from=3)


def _for_random_label_noise() -> list[str]:
    parts = [
        f"{percent(label_runs('0.4', name)[0])} ({name})"
        for name in ("robust", "gm-matching", "herding", "random")
    ]
    accuracies = [percent(label_runs("0.4", name)[1]) for name in ("robust", "gm-matching", "random")]
    scratch = [
        f"{percent(from_scratch(name, 'label:40%'))} ({name})" for name in ("robust", "gm-matching", "random")
    ]
    return [
        "labels may be wrong, at random",
        "[`robust`](methods/robust.md)",
        f"40% wrong: of the picks {', '.join(parts)}. A linear probe trained on them is right in "
        f"{accuracies[0]}, {accuracies[1]} (gm-matching) and {accuracies[2]} (random). {cite(LABELS)} "
        f"A ResNet-18 trained on a fifth: {', '.join(scratch)}, and {percent(from_scratch('random', 'none'))} on "
        f"random picks with right labels. {cite(SCRATCH)}",
    ]


def _for_people() -> list[str]:
    ours, linear = label_runs("people", "robust"), label_runs("people", "gm-matching")
    peer = label_runs("people", "cleanlab + herding")
    return [
        "labels were given by people in a hurry",
        "[`robust`](methods/robust.md), and look at [the report](guides/report.md)",
        f"{percent(ours[0])} of its picks are still wrong (gm-matching {percent(linear[0])}, cleanlab "
        "and herding "
        f"{percent(peer[0])}); the probe is right in {percent(ours[1])} ({percent(linear[1])}, "
        f"{percent(peer[1])}). {cite(LABELS)}",
    ]


def _for_spoilt_rows() -> list[str]:
    case = image_case(0.4)
    shares = ", ".join(
        f"{percent(spoilt_share(case, name))} ({name})"
        for name in ("robust", "easy", "moderate", "gm-matching")
    )
    return [
        "rows are spoilt: noise, blur, a broken sensor",
        "[`robust`](methods/robust.md)",
        f"40% of the images spoilt in five ways: of the picks {shares}. Most of what `robust` keeps is fog "
        f"({percent(case['picks']['robust']['fog'])}). {cite(IMAGES)}",
    ]


def _for_no_labels() -> list[str]:
    far, overlap = cluster_case("far cluster", 0.4), cluster_case("overlap", 0.45, 512)
    return [
        "no labels, one cloud of good rows among others",
        "[`robust`](methods/robust.md), [with care](guides/no-labels.md)",
        f"40% in a far cluster: {percent(far['contamination'])} of the picks corrupt, MMD {far['mmd']:.3f} "
        f"(gm-matching {percent(far['gm_matching_contamination'])}, {far['gm_matching_mmd']:.3f}). Where "
        "clusters "
        f"overlap in 512 dimensions, {percent(overlap['contamination'])}. {cite(CLUSTERS)}",
    ]


def probe(method: str, field: str) -> float:
    """Return a mean over the seeds of the study of 20% label noise, a fifth of the rows kept."""
    cells = load(PROBES)["parts"]["cells"]["cells"]
    return fmean(cell[field] for cell in cells if cell["method"] == method)


def from_scratch(method: str, corruption: str) -> float:
    """Return the mean accuracy of a ResNet-18 trained on a fifth of CIFAR-10, all 50,000 images to pick from."""
    cells = load(SCRATCH)["parts"]["cells"]["cells"]
    wanted = {"downstream": "scratch", "corruption": corruption, "method": method, "amount": "20%"}
    wanted["encoder"] = "resnet50-imagenet-3stage-160px"
    return fmean(cell["accuracy"] for cell in cells if wanted.items() <= cell.items())


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
        f"{percent(probe('random', 'contamination'))}. {cite(PROBES)}",
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
    found = load(FIGURES)["methods"]
    shares = ", ".join(
        f"{percent(found[name]['spoilt']['bad_picks'], 0)} ({name})"
        for name in ("el2n", "grand", "forgetting", "self-supervised", "hard")
    )
    bad = percent(load(FIGURES)["settings"]["bad"], 0)
    return [
        "rows and labels are certainly clean; the hard ones should stay",
        "[`el2n`](methods/el2n.md), [`grand`](methods/grand.md), [`forgetting`](methods/forgetting.md)",
        "Made for clean data and large shares. A fifth of clean CIFAR-10 that el2n picks in the features of a frozen "
        "encoder "
        f"trains a ResNet-18 to {percent(from_scratch('el2n', 'none'))}, random picks to "
        f"{percent(from_scratch('random', 'none'))}. {cite(SCRATCH)} Never on dirty data: where {bad} of the "
        "rows are bad, of the "
        f"picks {shares} are. {cite(FIGURES)}",
    ]


def _for_a_baseline() -> list[str]:
    random, best = label_runs("0", "random")[1], label_runs("0", "herding")[1]
    whole, some = digits_row("all noisy rows")["accuracy"]["mean"], digits_row("random")["accuracy"]["mean"]
    return [
        "a yardstick, or clean data and plenty of picks",
        "[`random`](methods/random.md)",
        f"On clean labels the probe is right in {percent(random)} with random picks, {percent(best)} "
        "with herding's. "
        f"{cite(LABELS)} And if training on everything is affordable, do: on digits with 35% wrong "
        "labels all rows give "
        f"{percent(whole)}, a random tenth {percent(some)}. {cite(DIGITS)}",
    ]


def wrong_labels() -> str:
    """Return wrong labels among the picks and the probe's accuracy, by kind of label noise."""
    content = load(LABELS)
    names = list(dict.fromkeys(run["method"] for run in content["runs"]))
    rows = []
    for noise in dict.fromkeys(run["noise"] for run in content["runs"]):
        cells = [label_runs(noise, name) for name in names]
        rows.append(
            [NOISES.get(noise, noise), *(f"{percent(wrong)} / {percent(right)}" for wrong, right in cells)]
        )
    return f"{table(['wrong labels', *names], rows)}\n\n{_made_by(LABELS)}"


def digits() -> str:
    """Return the demo's table: ten methods' worth of wrong labels and accuracy on small data."""
    rows = [
        [row["label"], _mean(row["contamination"]), f"{row['mmd']['mean']:.3f}", _mean(row["accuracy"])]
        for row in load(DIGITS)["rows"]
    ]
    made = f"`gmmatch demo --json`, kept in {cite(DIGITS)}."
    return f"{table(['kept by', 'wrong labels', 'MMD', 'test accuracy'], rows)}\n\n{made}"


def spoilt_images() -> str:
    """Return the share of spoilt images among the picks, by rate."""
    cases = [case for case in load(IMAGES)["cases"] if case["spoilt"]]
    heads = [
        percent(case["spoilt"], 0)
        + (f" and {percent(case['label_noise'], 0)} wrong labels" if case["label_noise"] else "")
        for case in cases
    ]
    rows = [
        [name, *(percent(spoilt_share(case, name)) + _wrong(case, name) for case in cases)]
        for name in cases[0]["picks"]
    ]
    return f"{table(['method', *heads], rows)}\n\n{_made_by(IMAGES)}"


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


def _wrong(case: dict[str, Any], method: str) -> str:
    return f" and {percent(case['picks'][method]['wrong labels'])}" if case["label_noise"] else ""


def _made_by(path: str) -> str:
    return f"`{load(path)['command']}`, kept in {cite(path)}."
