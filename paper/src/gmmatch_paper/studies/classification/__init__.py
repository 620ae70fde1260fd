"""The paper's image-classification studies: one short file each, and how they are run and shown."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gmmatch_paper.studies.classification.image_study import ImageStudy

_STUDIES = (
    "clean-classification",
    "image-corruption",
    "label-noise",
    "adversarial",
    "vit",
    "network-transfer",
    "domain-transfer",
    "clip-transfer",
    "embedding-maps",
    "human-noise",
    "generation",
)

_ELSEWHERE = {"generation": "gmmatch_paper.studies.generation.study"}


def image_study_names() -> tuple[str, ...]:
    """Return the names of the studies on images, in the paper's order.

    Examples
    --------
    >>> "label-noise" in image_study_names()
    True
    """
    return _STUDIES


def load_image_study(name: str) -> ImageStudy:
    """Return a study on images by its name, one of :func:`image_study_names`.

    Examples
    --------
    >>> load_image_study("label-noise").paper[0]
    'tab:exp-classification-label_noise'
    """
    module = _ELSEWHERE.get(name, f"gmmatch_paper.studies.classification.{name.replace('-', '_')}")
    study: ImageStudy = import_module(module).STUDY
    return study
