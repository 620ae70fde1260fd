"""The paper's figures and tables and its theory, measured afresh.

A study is one file with one :class:`~gmmatch_paper.studies.study.Study`: what varies, what is measured in each
cell, how it is drawn, and which statements of the paper are checked against the numbers. What is asked, done and
found stands on its page, ``docs/studies/NAME.md``. :func:`~gmmatch_paper.studies.runner.run_study` runs any of them.
One on images is an :class:`~gmmatch_paper.studies.classification.image_study.ImageStudy`, which has options.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from gmmatch.errors import unknown_name

if TYPE_CHECKING:
    from gmmatch_paper.studies.classification.image_study import ImageStudy
    from gmmatch_paper.studies.study import Study

_STUDIES = {
    "robust-mean": "synthetic.robust_mean",
    "median-landscape": "synthetic.median_landscape",
    "noisy-gaussian": "synthetic.noisy_gaussian",
    "moment-convergence": "synthetic.moment_convergence",
    "kernels": "synthetic.kernels",
    "median-scaling": "scaling.median_scaling",
    "batch-scaling": "scaling.batch_scaling",
    "subsampling": "scaling.subsampling",
    "breakdown": "synthetic.breakdown",
    "bounds": "synthetic.bounds",
    "unit-target": "synthetic.unit_target",
}
_ON_IMAGES = (
    "clean-classification", "image-corruption", "label-noise", "adversarial", "vit", "network-transfer",
    "domain-transfer", "clip-transfer", "embedding-maps", "human-noise", "generation",
)  # fmt: skip


def study_names() -> tuple[str, ...]:
    """Return the names of all studies without images, in the paper's order."""
    return tuple(_STUDIES)


def image_study_names() -> tuple[str, ...]:
    """Return the names of the studies on images, in the paper's order."""
    return _ON_IMAGES


def load_study(name: str) -> Study:
    """Return a study without images by its name."""
    key = str(name).lower().replace("_", "-")
    if key not in _STUDIES:
        known = (*_STUDIES, *_ON_IMAGES)
        raise unknown_name(
            "name", name, known, "there is no such study; beside 'all' and 'all-images' there are"
        )
    study: Study = import_module(f"{__name__}.{_STUDIES[key]}").STUDY
    return study


def load_image_study(name: str) -> ImageStudy:
    """Return a study on images by its name, one of :func:`image_study_names`."""
    from gmmatch_paper.studies.classification.studies import STUDIES
    from gmmatch_paper.studies.generation.study import STUDY

    return next(study for study in (*STUDIES, STUDY) if study.name == name)
