"""The pages of the image studies say what the committed results say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gmmatch_paper.studies import image_study_names, load_image_study
from gmmatch_paper.studies.classification.maps import CODE as MAPS_CODE
from gmmatch_paper.studies.generation.cell import CODE as GENERATION_CODE
from gmmatch_paper.studies.image_cells.cell import CODE
from gmmatch_paper.studies.pages import take_results
from gmmatch_paper.studies.records import read_record

DOCS = Path(__file__).parents[4] / "docs"


@pytest.mark.parametrize("name", image_study_names())
def test_a_page_begins_with_three_lines_shows_its_figures_and_ends_with_its_commands(name: str) -> None:
    text = (DOCS / "studies" / "images" / f"{name}.md").read_text(encoding="utf-8")
    parts = ("- **Differs from the paper:** ", "- **Found:** ", "- **Missing:** ", "| --- |", "## Run it")
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert f"gmmatch reproduce {name}" in text
    for file in load_image_study(name).named_pictures():
        assert f"{{figure}} ../../images/studies/{file}" in text
        assert (DOCS / "images" / "studies" / file).stat().st_size < 250_000


@pytest.mark.parametrize("name", image_study_names())
def test_committed_results_are_of_this_code_and_of_no_machine(name: str) -> None:
    record = read_record(DOCS / "results" / "studies" / f"{name}.json")
    for part, stored in record["parts"].items():
        assert stored["code"] == {"maps": MAPS_CODE, "generation": GENERATION_CODE}.get(part, CODE)
        assert stored["cells"]
    assert not re.search(r"\"[^\"]*/(tmp|home|work|root|data)/", json.dumps(record["provenance"]))


@pytest.mark.slow
def test_results_are_taken_with_figures_drawn_from_them(tmp_path: Path) -> None:
    source = tmp_path / "run"
    source.mkdir()
    for name in image_study_names():
        (source / f"{name}.json").symlink_to(DOCS / "results" / "studies" / f"{name}.json")
    take_results(source, tmp_path)
    for name in image_study_names():
        for file in load_image_study(name).named_pictures():
            assert (tmp_path / "images" / "studies" / file).stat().st_size > 5_000
