"""The pages of the image studies say what the committed results say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gmmatch_paper.studies.classification import image_study_names, load_image_study
from gmmatch_paper.studies.classification.cell import CODE
from gmmatch_paper.studies.classification.maps import CODE as MAPS_CODE
from gmmatch_paper.studies.classification.pages import take_results, write_pages
from gmmatch_paper.studies.classification.paper import paper_blocks
from gmmatch_paper.studies.classification.running import pictures_of
from gmmatch_paper.studies.generation.cell import CODE as GENERATION_CODE
from gmmatch_paper.studies.records import read_record

DOCS = Path(__file__).parents[4] / "docs"


def test_writing_the_pages_again_changes_nothing(tmp_path: Path) -> None:
    for page in write_pages(DOCS, tmp_path):
        committed = DOCS / "studies" / "images" / page.name
        assert page.read_text(encoding="utf-8") == committed.read_text(encoding="utf-8"), (
            f"{page.name} is out of date: run `python -m gmmatch_paper.studies.classification.pages`"
        )


@pytest.mark.parametrize("name", image_study_names())
def test_a_page_shows_every_block_of_the_paper_and_what_was_not_run(name: str) -> None:
    study = load_image_study(name)
    text = (DOCS / "studies" / "images" / f"{name}.md").read_text(encoding="utf-8")
    assert study.question in text
    assert f"gmmatch reproduce {name}" in text
    blocks = paper_blocks(study.paper)
    assert len(re.findall(r"^\| ---", text, flags=re.MULTILINE)) >= len(blocks)
    for block in blocks:
        number = block.at("gm-matching", block.amounts[0])
        assert number is not None and f"{number.mean:.2f} ± {number.deviation:.2f}" in text
    if not (DOCS / "results" / "studies" / f"{name}.json").exists():
        assert "Not run yet" in text


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
    for file in pictures_of(load_image_study(name)):
        assert (DOCS / "images" / "studies" / file).stat().st_size < 250_000


@pytest.mark.slow
def test_results_are_taken_with_figures_drawn_from_them(tmp_path: Path) -> None:
    done = [name for name in image_study_names() if (DOCS / "results" / "studies" / f"{name}.json").exists()]
    if not done:
        pytest.skip("not run yet")
    take_results(DOCS / "results" / "studies", tmp_path)
    for name in done:
        assert (tmp_path / "results" / "studies" / f"{name}.json").exists()
        for file in pictures_of(load_image_study(name)):
            assert (tmp_path / "images" / "studies" / file).stat().st_size > 5_000


def test_italics_are_explained_where_a_page_has_them() -> None:
    told = "What the words in italics stand for"
    pages = {
        path.stem: path.read_text(encoding="utf-8") for path in (DOCS / "studies" / "images").glob("*.md")
    }
    tested = {name for name, text in pages.items() if re.search(r"^- \*\*.*turned round", text, re.MULTILINE)}
    assert {name for name, text in pages.items() if told in text} == tested - {"reasons"}
