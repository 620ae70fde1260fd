"""Labels that people gave (not in the paper)."""

from __future__ import annotations

from gmmatch_paper.studies.classification.image_study import ImageStudy, Plan, quick_plan

STUDY = ImageStudy(
    name="human-noise",
    title="Picking from images with labels that people gave",
    paper=(),
    question="Do methods that stand wrong labels drawn at random also stand those that people gave?",
    method=(
        "CIFAR-10N (Wei et al., 2022) has labels of CIFAR-10 from paid workers; in its worst set 40% are wrong, and "
        "the errors lie between classes that look alike. The paper has no such study."
    ),
    full=Plan(
        "uoft-cs/cifar10",
        "microsoft/resnet-18",
        ("human:worse",),
        ("2%", "10%", "20%"),
        downstream=("probe", "scratch"),
        recipe="paper",
    ),
    quick=quick_plan(("human:worse",), methods=("random", "easy", "gm-matching")),
)
