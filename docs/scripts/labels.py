"""The tables about corrected labels and the certificate, from committed results."""

from __future__ import annotations

from statistics import mean
from typing import Any

from docs.scripts.results import ROOT, cite, load, percent, table

CORRECTED = "benchmarks/results/corrected-labels.json"
CERTIFICATE = "benchmarks/results/certificate.json"


def labels() -> str:
    """Return all tables; nothing as long as nothing was measured."""
    parts = [
        f"{write(load(path))}\n\n`{load(path)['command']}`, kept in {cite(path)}."
        for path, write in ((CORRECTED, corrected), (CERTIFICATE, certificate))
        if (ROOT / path).exists()
    ]
    return "\n\n".join(parts)


def corrected(found: dict[str, Any]) -> str:
    """Return how often corrected labels are right, and what training on the picks gains; means over seeds."""
    lines, gains = [], []
    cases: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in found["runs"]:
        share = f"{run['picks_given']['picks'] / run['rows']:.0%} picked"
        cases.setdefault((f"{run['data']}, {run['rows']:,} rows, {run['noise']}", share), []).append(run)
    for (name, share), runs in cases.items():
        seeds = f"{len(runs)} seed{'' if len(runs) == 1 else 's'}"
        counts = f"{mean(run['corrected'] for run in runs):,.0f}"
        right, noise = (percent(mean(run[key] for run in runs)) for key in ("right", "noise_rate"))
        lines.append([name, seeds, noise, counts, right])
        for kind, words in (("picks_given", "given labels"), ("picks_corrected", "corrected labels")):
            some = [run[kind] for run in runs]
            scratch = [one["from_scratch"] for one in some if "from_scratch" in one]
            gains.append([
                name, share, words, f"{mean(one['corrected_picks'] for one in some):,.0f}",
                percent(mean(one["wrong_picks"] for one in some)), percent(mean(one["probe"] for one in some)),
                percent(mean(scratch)) if scratch else "–",
            ])  # fmt: skip
    heads = ["data, label noise", "", "by", "relabeled picks", "wrong picks", "linear probe", "from scratch"]
    right = table(["data, label noise", "", "wrong labels", "corrected at 0.95", "of these right"], lines)
    return (
        "## Corrected labels\n\nRows whose label was replaced, at a probability of at least 0.95:\n\n"
        f"{right}\n\nPicks of `robust`, and the accuracy of training on them: by a linear probe, and from scratch "
        f"(ResNet-18, one training of each, 5,000 test images):\n\n{table(heads, gains, numbers_from=3)}"
    )


def certificate(found: dict[str, Any]) -> str:
    """Return how often the bound holds, and how large it is."""
    kinds = list(dict.fromkeys(run["sample"] for run in found["runs"]))
    names = {"random sample": "random sample"}
    columns = ["truly wrong", *(names.get(kind, f"strata, {kind} probabilities") for kind in kinds)]
    by_case = {(run["rate"], run["sample"]): run for run in found["runs"]}
    lines = []
    for rate in dict.fromkeys(run["rate"] for run in found["runs"]):
        runs = [by_case[rate, kind] for kind in kinds]
        cells = [f"{percent(run['coverage'])} / {percent(run['mean_bound'])}" for run in runs]
        lines.append([percent(rate), *cells])
    text = (
        f"{found['picks']:,} picks, {found['sample']} looked at, {found['runs'][0]['draws']:,} draws at each share "
        "of wrong picks. How often the bound holds, which is meant to be at least 95%, and the bound on average:"
    )
    return f"## The certificate\n\n{text}\n\n{table(columns, lines)}"
