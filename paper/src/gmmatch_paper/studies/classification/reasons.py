"""Why the order of the methods is another one than the paper's: candidate reasons, each changed alone.

``python -m gmmatch_paper.studies.classification.reasons --dataset … --encoder … --other …`` measures them on a CPU;
without options it takes seconds, on built-in digits.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gmmatch_paper.studies.classification.data import BUILT_IN
from gmmatch_paper.studies.classification.proxies import ProxySpec
from gmmatch_paper.studies.classification.reason_cells import (
    CODE,
    CONTROL,
    MeasureReason,
    ReasonPlaces,
    Setting,
)
from gmmatch_paper.studies.results import Results
from gmmatch_paper.studies.runner import LongRun, run_study
from gmmatch_paper.studies.study import Grid, Part, SizeName, Study

NAME = "reasons"
BASE = "base"

SETTINGS = (
    Setting(BASE, "as it is", "as in the studies"),
    Setting("other", "other encoder", "picked in the features of the other frozen encoder", space="other"),
    Setting(
        "trained", "trained layer", "picked in a layer trained on the labels as they are", space="trained"
    ),
    Setting(
        "memorised",
        "memorising layer",
        "picked in a layer trained on them until it repeats most",
        space="memorised",
    ),
    Setting("true", "layer of true labels", "picked in a layer trained on the true labels", space="true"),
    Setting("unit", "unit-length rows", "all methods see rows of unit length", unit=True),
    Setting("together", "all rows together", "picked from all rows together, not per class", together=True),
    Setting("few", "fewer rows", "500 rows per class to pick from, as CIFAR-100 has", few=True),
    Setting("2%", "2% kept", "2% kept", amount="2%"),
    Setting(
        "probe-other",
        "probe on other features",
        "the linear probe sees the other encoder's features",
        downstream="probe-other",
    ),
    Setting("network", "network", "a network that fits its picks wholly is trained", downstream="network"),
    Setting(
        "trained-network",
        "trained layer and network",
        "picked in the layer trained on the labels as they are, and such a network is trained",
        space="trained",
        downstream="network",
    ),
)
"""The settings; each but the last changes one thing."""

CORRUPTIONS = ("label:40%", "human:worse", "label:20%", "none")
FULLY = CORRUPTIONS[:2]
"""Under these all settings are measured, as most of the disagreements are there; under the others some."""
SOME = (BASE, "trained", "unit", "2%", "network", "trained-network")
METHODS = (
    "random",
    "easy",
    "hard",
    "moderate",
    "herding",
    "gm-matching",
    "gm-matching-all-rows",
    "gm-matching-authors",
    "optimization",
)
# The paper and we agree that Hard is last, so it needs no reasons; the other is a reason itself.
ONLY_IN_BASE = ("hard", "gm-matching-all-rows")
# A cell of it takes several times as long as one of the others, and it disagrees where few labels are wrong.
ONLY_WITH_FEW_WRONG = ("optimization",)
CONTROLS = tuple(f"{CONTROL}{percent}" for percent in (0, 10, 20, 30, 40))
CONTROLLED = {"corruption": ("label:40%", "human:worse"), "setting": (BASE, "network")}
"""Where random draws with a given share of wrong labels are made beside the methods."""


def kept(cell: Mapping[str, Any]) -> bool:
    """Return whether a combination is measured.

    Examples
    --------
    >>> kept({"setting": "base", "corruption": "none", "method": "hard"})
    True
    >>> kept({"setting": "unit", "corruption": "none", "method": "hard"})
    False
    """
    if cell["corruption"] not in FULLY and cell["setting"] not in SOME:
        return False
    if cell["method"] in CONTROLS:
        return all(cell[name] in values for name, values in CONTROLLED.items())
    if cell["method"] in ONLY_WITH_FEW_WRONG and cell["corruption"] in FULLY:
        return bool(cell["setting"] == BASE)
    return bool(cell["setting"] == BASE or cell["method"] not in ONLY_IN_BASE)


def reasons_study(places: ReasonPlaces, corruptions: tuple[str, ...] = CORRUPTIONS, seeds: int = 3) -> Study:
    """Return the study in the form that the runner takes."""
    data = places.load()
    encoders = [ProxySpec.parse(spec) for spec in (places.encoder, places.other)]
    fixed = {
        "dataset": data.name,
        "data": data.fingerprint + "".join(encoder.fingerprint() for encoder in encoders),
        "encoder": encoders[0].name,
        "other": encoders[1].name,
    }
    vary = {
        "setting": tuple(setting.name for setting in SETTINGS),
        "corruption": corruptions,
        "method": (*METHODS, *CONTROLS),
    }
    grid = Grid(vary, fixed, seeds=seeds)
    part = Part("cells", MeasureReason(places, SETTINGS), quick=grid, full=grid, keep=kept, code=CODE)
    return Study(
        name=NAME,
        title="Why the order differs from the paper's",
        paper=(),
        question="Where our order of the methods is another one than the paper's, which reason explains it?",
        method="",
        parts=(part,),
        claims=(),
        pictures=(),
        tables=(),
    )


def run_reasons(
    places: ReasonPlaces,
    *,
    output: Path,
    corruptions: tuple[str, ...] = CORRUPTIONS,
    seeds: int = 3,
    size: SizeName = "full",
    command: str = "",
) -> Results:
    """Measure the cells that ``output`` does not have yet, and write ``reasons.json`` there."""
    study = reasons_study(places, corruptions, seeds)
    return run_study(study, output=output, size=size, long_run=LongRun(command, notes={"device": "cpu"}))


def build_parser() -> argparse.ArgumentParser:
    """Return what reads the command line.

    Examples
    --------
    >>> build_parser().parse_args(["--seeds", "3"]).seeds
    3
    """
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n\n")[0])
    parser.add_argument("--dataset", default=BUILT_IN, help="as for gmmatch reproduce")
    parser.add_argument("--encoder", default="pixels", help="the frozen encoder, as for gmmatch reproduce")
    parser.add_argument("--other", default="pixels:8x8", help="another frozen encoder, to put in its place")
    parser.add_argument("--limit", type=int, default=400, help="take the first so many training images")
    parser.add_argument("--test-limit", type=int, default=200, help="take the first so many test images")
    parser.add_argument("--corruptions", default=",".join(CORRUPTIONS), help="with commas between them")
    parser.add_argument("--seeds", type=int, default=1, help="repetitions")
    parser.add_argument(
        "--output", type=Path, default=Path("studies"), help="folder of the results, reasons.json"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure; what ``python -m gmmatch_paper.studies.classification.reasons`` runs."""
    options = build_parser().parse_args(arguments)
    places = ReasonPlaces(
        options.dataset,
        options.encoder,
        options.other,
        cache=str(options.output / "cache"),
        limit=options.limit,
        test_limit=options.test_limit,
    )
    run_reasons(
        places,
        output=options.output,
        corruptions=tuple(options.corruptions.split(",")),
        seeds=options.seeds,
        size="quick" if options.dataset == BUILT_IN else "full",
        command=_typed(options),
    )


def _typed(options: argparse.Namespace) -> str:
    """Return the command without the folders of this machine."""
    words = [f"python -m {__spec__.name if __spec__ else __name__}"]
    for name in ("dataset", "encoder", "other"):
        words.append(f"--{name} {Path(getattr(options, name)).name}")
    for name in ("limit", "test_limit", "corruptions", "seeds"):
        words.append(f"--{name.replace('_', '-')} {getattr(options, name)}")
    return " ".join(words)


if __name__ == "__main__":
    main()
