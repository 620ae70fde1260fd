"""The pages of the image studies say what the committed results say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gmmatch_paper.studies import image_study_names, load_image_study
from gmmatch_paper.studies.classification.maps import CODE as MAPS_CODE
from gmmatch_paper.studies.classification.running import pictures_of
from gmmatch_paper.studies.generation.cell import CODE as GENERATION_CODE
from gmmatch_paper.studies.image_cells.cell import CODE
from gmmatch_paper.studies.pages import take_results
from gmmatch_paper.studies.records import as_results, read_record

DOCS = Path(__file__).parents[4] / "docs"


@pytest.mark.parametrize("name", image_study_names())
def test_a_page_begins_with_three_lines_and_ends_with_its_commands(name: str) -> None:
    study = load_image_study(name)
    text = (DOCS / "studies" / "images" / f"{name}.md").read_text(encoding="utf-8")
    places = [text.index(part) for part in (study.differs, study.found, study.missing, "## Run it")]
    assert places == sorted(places)
    assert f"gmmatch reproduce {name}" in text
    measured = (DOCS / "results" / "studies" / f"{name}.json").exists()
    assert ("Not run yet" in text) == (not measured)
    assert ("| --- |" in text) == measured


@pytest.mark.parametrize("name", image_study_names())
def test_committed_results_are_of_this_code_and_of_no_machine(name: str) -> None:
    path = DOCS / "results" / "studies" / f"{name}.json"
    if not path.exists():
        pytest.skip("not run yet")
    record = read_record(path)
    for part, stored in record["parts"].items():
        assert stored["code"] == {"maps": MAPS_CODE, "generation": GENERATION_CODE}.get(part, CODE)
        assert stored["cells"]
    assert not re.search(r"\"[^\"]*/(tmp|home|work|root|data)/", json.dumps(record["provenance"]))
    for file in pictures_of(load_image_study(name), as_results(record)):
        assert (DOCS / "images" / "studies" / file).stat().st_size < 250_000


@pytest.mark.slow
def test_results_are_taken_with_figures_drawn_from_them(tmp_path: Path) -> None:
    done = [name for name in image_study_names() if (DOCS / "results" / "studies" / f"{name}.json").exists()]
    source = tmp_path / "run"
    source.mkdir()
    for name in done:
        (source / f"{name}.json").symlink_to(DOCS / "results" / "studies" / f"{name}.json")
    take_results(source, tmp_path)
    for name in done:
        taken = as_results(read_record(tmp_path / "results" / "studies" / f"{name}.json"))
        for file in pictures_of(load_image_study(name), taken):
            assert (tmp_path / "images" / "studies" / file).stat().st_size > 5_000
