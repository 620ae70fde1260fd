"""The measured parts of the page that answers in two minutes whether the paper reproduces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gmmatch_paper.studies.classification.claims import CAPTION, VERSIONS, checked_statements
from gmmatch_paper.studies.classification.control import answer, control_table
from gmmatch_paper.studies.classification.image_study import ImageStudy
from gmmatch_paper.studies.classification.missing import missing_table
from gmmatch_paper.studies.classification.tables import NOT_RUN
from gmmatch_paper.studies.labels import number_of, numbers_of
from gmmatch_paper.studies.markdown import markdown_table
from gmmatch_paper.studies.results import Results
from gmmatch_paper.studies.study import Study, Table, how_many_agree

_AGREE = "Statements of the paper that the numbers agree with; **yes** is all of them, **partly** some, **no** none."


def summary_parts(
    studies: Sequence[Study], on_images: Sequence[ImageStudy], measured: Mapping[str, Results]
) -> dict[str, str]:
    """Return a verdict and a link for every table, figure and claim of the paper."""
    synthetic = [
        [
            numbers_of(one.paper),
            one.title,
            _agreement(one, measured[one.name]),
            f"[{one.name}]({one.name}.md)",
        ]
        for one in studies
    ]
    images = [row for study in on_images for row in _image_rows(study, measured)]
    tables = {
        "images": Table(CAPTION, ("in the paper", "what it says", *VERSIONS.values(), "measured on"), images),
        "control": control_table(on_images, measured),
        "missing": missing_table(on_images, measured),
        "synthetic": Table(
            _AGREE, ("in the paper", "what it shows", "does it reproduce?", "page"), synthetic
        ),
    }
    return {
        "answer": answer({one.name: measured[one.name] for one in on_images}, measured["unit-target"]),
        **{name: markdown_table(table) for name, table in tables.items()},
    }


def _image_rows(study: ImageStudy, measured: Mapping[str, Results]) -> list[list[str]]:
    """Return what was found for the tables and figures of one study: a row per statement that was checked."""
    link = f"images/{study.name}.md"
    if study.verdict is not None:
        verdict = study.verdict(measured[study.name])
        return [[numbers_of(study.paper), f"[{study.title}]({link})", verdict, NOT_RUN, "MNIST"]]
    return [
        [number_of(statement.source), f"[{statement.text}]({link})", *found]
        for statement, found in checked_statements(measured, study.name).items()
        if found[-1] != "not run"
    ]


def _agreement(study: Study, results: Results) -> str:
    return how_many_agree([claim.check(results).agrees for claim in study.claims if claim.source != "ours"])
