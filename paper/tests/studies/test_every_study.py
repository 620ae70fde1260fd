"""Every study from one end to the other, with one seed: measured, checked, drawn and put into tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gmmatch_paper.studies import load_study, study_names
from gmmatch_paper.studies.records import as_results, read_record
from gmmatch_paper.studies.runner import run_study
from gmmatch_paper.studies.style import draw_pictures

DOCS = Path(__file__).parents[3] / "docs"
# One seed at small sizes comes to other verdicts here, or measures time.
SMALL = ("moment-convergence", "median-scaling", "batch-scaling", "subsampling")


@pytest.mark.slow
@pytest.mark.parametrize("name", study_names())
def test_a_quick_run_with_one_seed(name: str, tmp_path: Path) -> None:
    study = load_study(name)
    results = run_study(study, output=tmp_path, seeds=1)
    verdicts = [claim.check(results).agrees for claim in study.claims]
    if name not in SMALL:
        committed = as_results(read_record(DOCS / "results" / "studies" / f"{name}.json"))
        assert verdicts == [claim.check(committed).agrees for claim in study.claims]
    for table in study.tables:
        shown = table(results)
        assert shown.rows and all(len(row) == len(shown.columns) for row in shown.rows)
    draw_pictures(study.named_pictures(), results, tmp_path)
    for file in study.named_pictures():
        assert _share_of_ink(tmp_path / file) > 0.02


def _share_of_ink(path: Path) -> float:
    """Return how much of a picture is not white."""
    from PIL import Image

    with Image.open(path) as image:
        return float(np.mean(np.asarray(image.convert("L")) < 250))
