"""The page that answers in two minutes whether the paper reproduces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gmmatch_paper.studies.classification.claims import CAPTION, RULES, VERSIONS, checked_statements
from gmmatch_paper.studies.classification.control import answer, control_table
from gmmatch_paper.studies.classification.image_study import ImageStudy
from gmmatch_paper.studies.classification.missing import missing_table
from gmmatch_paper.studies.classification.tables import NOT_RUN
from gmmatch_paper.studies.labels import number_of, numbers_of
from gmmatch_paper.studies.markdown import markdown_table
from gmmatch_paper.studies.records import as_results
from gmmatch_paper.studies.results import Results
from gmmatch_paper.studies.study import Study, Table, how_many_agree

_AGREE = "Statements of the paper that the numbers agree with; **yes** is all of them, **partly** some, **no** none."
_HEADS = ("in the paper", "what it shows", "does it reproduce?", "page")
_TEXT = """\
`GMMatching()` is the text's version, `GMMatching(target=GeometricMedian(unit=True))` with `preprocess="unit"` the
authors', `Herding(target=Mean(unit=True))` with `preprocess="unit"` its control. In the features of a frozen encoder
neither version is above all other methods. Networks other than the ResNet have seeds and methods too few to say
more than that the authors' version is above those that were run.

Of the theory, the bounds, the median's breakdown point, the 1/k rate towards it and the cost of its iterations hold.
That the median stays in the hull of the clean rows, and that the errors of independent batches average out, does not.
Nor does the step from the median to the picks: their mean is robust while features are bounded, but the picks are not
free of corrupted rows.

Before comparing numbers: our networks are smaller and trained for less time than the paper's (each page says how), so
compare margins, not levels. No proxy was trained by the paper's recipe; one column of clean images was trained
downstream by it ([clean images](images/clean-classification.md), 20% kept). On Tiny-ImageNet picks were compared on
frozen features alone; ImageNet-1k and CLIP were not at hand. Each page has the command that runs what is missing."""
_HOW = """\
## Run it

```
gmmatch reproduce --list                  # what there is
gmmatch reproduce noisy-gaussian          # one study, in seconds
gmmatch reproduce --full all -o studies   # the synthetic studies at the paper's sizes
gmmatch reproduce label-noise --full --dry-run   # on images: how many trainings, and how long
```

A study writes `NAME.json` (every measured cell, versions and seeds) and `NAME.png`. A run resumes if it was
interrupted; `--fresh` starts over. [How the image studies are made](images/index.md) has their options."""


def summary_page(
    studies: Sequence[Study],
    records: Mapping[str, dict[str, Any]],
    on_images: Sequence[ImageStudy],
    measured: Mapping[str, Results],
    note: str,
) -> str:
    """Return the page: every table, figure and claim of the paper, a verdict and a link."""
    synthetic = [
        [numbers_of(one.paper), one.title, _agreement(one, records[one.name]), _link(one.name)]
        for one in studies
    ]
    images = [row for study in on_images for row in _image_rows(study, measured)]
    names = "\n".join([*(one.name for one in studies), "images/index"])
    sections = [
        "# Does it reproduce?",
        note,
        answer(measured, as_results(records["unit-target"])),
        _TEXT,
        "## Tables and figures on images",
        markdown_table(Table(CAPTION, ("in the paper", "what it says", *VERSIONS.values(), "measured on"), images)),
        RULES,
        "### The control",
        markdown_table(control_table(on_images, measured)),
        "### Not run",
        markdown_table(missing_table(on_images, measured)),
        "## Synthetic figures and theory",
        markdown_table(Table(_AGREE, _HEADS, synthetic)),
        _HOW,
        f"```{{toctree}}\n:hidden:\n\n{names}\n```",
    ]  # fmt: skip
    return "\n\n".join(sections) + "\n"


def _image_rows(study: ImageStudy, measured: Mapping[str, Results]) -> list[list[str]]:
    """Return what was found for the tables and figures of one study: a row per statement that was checked."""
    results, link = measured.get(study.name), f"images/{study.name}.md"
    if study.verdict is not None and results is not None:
        return [
            [numbers_of(study.paper), f"[{study.title}]({link})", study.verdict(results), NOT_RUN, "MNIST"]
        ]
    return [
        [number_of(statement.source), f"[{statement.text}]({link})", *found]
        for statement, found in checked_statements(measured, study.name).items()
        if found[-1] != "not run"
    ]


def _agreement(study: Study, record: dict[str, Any]) -> str:
    results = as_results(record)
    return how_many_agree([claim.check(results).agrees for claim in study.claims if claim.source != "ours"])


def _link(name: str) -> str:
    return f"[{name.rpartition('/')[2]}]({name}.md)"
