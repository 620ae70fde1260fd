"""The tables about corrected labels and the certificate, from committed results."""

from __future__ import annotations

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
    """Return how often corrected labels are right, and what training on the picks gains."""
    lines, gains = [], []
    for run in found["runs"]:
        name = f"{run['data']}, {run['rows']:,} rows, {run['noise']}"
        lines.append([name, percent(run["noise_rate"]), f"{run['corrected']:,}", percent(run["right"])])
        for kind, words in (("picks_given", "given labels"), ("picks_corrected", "corrected labels")):
            one = run[kind]
            cells = [
                name,
                words,
                f"{one['corrected_picks']:,}",
                percent(one["wrong_picks"]),
                percent(one["probe"]),
            ]
            if "from_scratch" in one:
                cells.append(percent(one["from_scratch"]))
            gains.append(cells)
    columns = [
        "data, label noise",
        "picked with",
        "relabeled picks",
        "wrong picks",
        "linear probe",
        "from scratch",
    ]
    right = table(["data, label noise", "wrong labels", "corrected at 0.95", "of these right"], lines)
    trained = table(columns[: len(gains[0])], gains, numbers_from=2)
    return (
        "## Corrected labels\n\nRows whose label was replaced, at a probability of at least 0.95:\n\n"
        f"{right}\n\nPicks of `robust`, a fifth of the rows, and the accuracy of training on them:\n\n{trained}"
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
