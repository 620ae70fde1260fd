"""The pages say what the committed results say, and the results are those of the code as it is."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from gmmatch.errors import InvalidInputError
from gmmatch_paper.studies import load_study, study_names
from gmmatch_paper.studies.pages import filled, take_results, write_pages
from gmmatch_paper.studies.records import plain, read_record

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.slow
def test_writing_the_pages_again_changes_nothing(tmp_path: Path) -> None:
    for page in write_pages(DOCS, tmp_path):
        committed = DOCS / "studies" / page.relative_to(tmp_path)
        assert page.read_text(encoding="utf-8") == committed.read_text(encoding="utf-8"), (
            f"{page.name} is out of date: run `python -m gmmatch_paper.studies.pages`"
        )


@pytest.mark.parametrize("name", study_names())
def test_committed_results_are_complete(name: str) -> None:
    study, record = load_study(name), read_record(DOCS / "results" / "studies" / f"{name}.json")
    assert record["size"] == "full"
    for part in study.parts:
        assert len(record["parts"][part.name]["cells"]) == len(part.cells("full"))


# How a search got to its result may change; so may what a sum of rounding errors is.
_INCIDENTAL = ("gap", "ours", "mean_missed", "lemma_error", "off_center", "mean_added")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gmmatch.errors.GMMatchWarning")
@pytest.mark.parametrize("name", study_names())
def test_cells_measured_again_have_the_committed_numbers(name: str) -> None:
    study, record = load_study(name), read_record(DOCS / "results" / "studies" / f"{name}.json")
    for part in study.parts:
        stored = record["parts"][part.name]
        cells = [] if part.timed else [stored["cells"][0], stored["cells"][-1]]
        for cell in cells:
            arguments = {
                parameter: cell[parameter] for parameter in stored["parameters"] if parameter in cell
            }
            measured = plain(part.measure(**{"seed": 0, **arguments, **stored["fixed"]}))
            for field in measured.keys() - set(_INCIDENTAL):
                np.testing.assert_allclose(
                    np.asarray(measured[field], dtype=float),
                    np.asarray(cell[field], dtype=float),
                    rtol=1e-3,
                    atol=1e-9,
                )


@pytest.mark.parametrize("name", study_names())
def test_a_page_says_what_differs_and_shows_its_figures_and_its_command(name: str) -> None:
    text = (DOCS / "studies" / f"{name}.md").read_text(encoding="utf-8")
    for words in ("- **Differs from the paper:** ", "- **Found:** ", "- **Missing:** "):
        assert words in text
    assert f"gmmatch reproduce {name} --full" in text
    for file in load_study(name).named_pictures():
        assert f"{{figure}} ../images/studies/{file}" in text
        assert (DOCS / "images" / "studies" / file).stat().st_size < 200_000


@pytest.mark.slow
def test_results_are_taken_into_the_documentation(tmp_path: Path) -> None:
    run, docs = tmp_path / "run", tmp_path / "docs"
    run.mkdir()
    (run / "robust-mean.json").symlink_to(DOCS / "results" / "studies" / "robust-mean.json")
    take_results(run, docs)
    assert sorted(str(path.relative_to(docs)) for path in docs.rglob("*.*")) == [
        "images/studies/robust-mean.png",
        "results/studies/robust-mean.json",
    ]


def test_a_page_without_its_marks_is_named(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("<!-- run: begin -->\n\nold\n\n<!-- run: end -->\n")
    assert filled(tmp_path / "page.md", {"run": "new"}) == "<!-- run: begin -->\n\nnew\n\n<!-- run: end -->\n"
    with pytest.raises(InvalidInputError, match=r"page\.md has 0 parts <!-- tables: begin -->"):
        filled(tmp_path / "page.md", {"tables": "new"})


def test_the_summary_has_every_table_and_figure_of_the_paper() -> None:
    text = (DOCS / "studies" / "index.md").read_text(encoding="utf-8")
    for number in range(1, 17):
        assert re.search(rf"Figure {number}\b", text)
    for number in range(1, 12):
        assert re.search(rf"Table {number}\b", text)
    for name in study_names():
        assert f"({name}.md)" in text
