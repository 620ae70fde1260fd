"""The paper's synthetic figures and its theory, measured afresh.

A study is one file with one :class:`~gmmatch_paper.studies.study.Study`: what varies, what is measured in each
cell, how it is drawn, and which statements of the paper are checked against the numbers.
:func:`~gmmatch_paper.studies.runner.run_study` runs any of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from gmmatch.errors import unknown_name

if TYPE_CHECKING:
    from gmmatch_paper.studies.study import Study

# By the folder that has them.
_STUDIES = {
    "robust-mean": "synthetic",
    "median-landscape": "synthetic",
    "noisy-gaussian": "synthetic",
    "moment-convergence": "synthetic",
    "kernels": "synthetic",
    "median-scaling": "scaling",
    "batch-scaling": "scaling",
    "subsampling": "scaling",
    "breakdown": "synthetic",
    "bounds": "synthetic",
}


def study_names() -> tuple[str, ...]:
    """Return the names of all studies, in the paper's order.

    Examples
    --------
    >>> "noisy-gaussian" in study_names()
    True
    """
    return tuple(_STUDIES)


def load_study(name: str) -> Study:
    """Return a study by its name.

    Examples
    --------
    >>> load_study("robust-mean").paper
    ('fig:toy-moment', 'fig:exp-syn-moment')
    """
    from gmmatch_paper.studies.classification import image_study_names

    key = str(name).lower().replace("_", "-")
    if key not in _STUDIES:
        known = (*_STUDIES, *image_study_names())
        raise unknown_name(
            "name", name, known, "there is no such study; beside 'all' and 'all-images' there are"
        )
    study: Study = import_module(f"{__name__}.{_STUDIES[key]}.{key.replace('-', '_')}").STUDY
    return study
