"""Does the certificate hold as often as it says, and what do strata gain? ``python -m benchmarks.certificate``.

5,000 picks, of which a share is wrong, are sampled 1,000 times, 200 at a time, and bounded with 95% confidence: at
random, and in strata by probabilities that tell wrong picks well, badly, or not at all.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import machine
from gmmatch.certificate.bounds import Stratum, most_wrong
from gmmatch.certificate.sample import check_sample
from gmmatch.screening.result import Screening
from gmmatch.selection.selection import Selection

PICKS, SAMPLE, DRAWS = 5_000, 200, 1_000
RATES = (0.0, 0.002, 0.01, 0.024, 0.05, 0.1, 0.2, 0.4)
COMMAND = "python -m benchmarks.certificate --json benchmarks/results/certificate.json"


@cache
def bound(strata: tuple[Stratum, ...]) -> int:
    """Return the bound, once for each outcome."""
    return most_wrong(strata)


def probabilities(wrong: NDArray[np.bool_], quality: str, random: np.random.Generator) -> NDArray[np.float64]:
    """Return what a screening would say: mostly right, often wrong, or nothing to do with the truth."""
    if quality == "unrelated":
        return random.beta(0.3, 0.7, len(wrong))
    share = {"good": 0.95, "fair": 0.75}[quality]
    told = np.where(random.random(len(wrong)) < share, wrong, ~wrong)
    return np.where(told, random.uniform(0.5, 1.0, len(wrong)), random.uniform(0.0, 0.2, len(wrong)))


def measure(rate: float, quality: str, draws: int) -> dict[str, Any]:
    """Return how often the bound holds, and how large it is on average, over draws."""
    random = np.random.default_rng([17, round(1e6 * rate)])
    wrong = np.zeros(PICKS, dtype=np.bool_)
    wrong[random.permutation(PICKS)[: round(rate * PICKS)]] = True
    stratified = quality != "random sample"
    screening = None
    if stratified:
        chances = probabilities(wrong, quality, random)
        screening = Screening(np.ones(PICKS, dtype=np.bool_), chances, np.zeros(PICKS, dtype=np.int8))
    selection = Selection(np.arange(PICKS), PICKS, screening=screening)
    bounds, strata = np.empty(draws), 0
    for draw in range(draws):
        sample = check_sample(selection, SAMPLE, seed=draw, stratified=stratified)
        parts = tuple(
            Stratum(
                size, int((sample.stratum == i).sum()), int(wrong[sample.rows[sample.stratum == i]].sum())
            )
            for i, size in enumerate(sample.sizes)
        )
        bounds[draw], strata = bound(parts), len(parts)
    run = {
        "rate": rate,
        "sample": quality,
        "strata": strata,
        "coverage": float((bounds >= wrong.sum()).mean()),
    }
    run |= {"mean_bound": float(bounds.mean() / PICKS), "draws": draws}
    print(json.dumps(run), flush=True)
    return run


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and write the JSON file if one is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.certificate", description=__doc__)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--rates", type=float, nargs="+", default=list(RATES))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    kinds = ("random sample", "good", "fair", "unrelated")
    runs = [measure(rate, kind, options.draws) for kind in kinds for rate in options.rates]
    if options.json is not None:
        facts = {"command": COMMAND, "picks": PICKS, "sample": SAMPLE, "confidence": 0.95}
        text = json.dumps({**facts, "machine": machine.describe(), "runs": runs}, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
