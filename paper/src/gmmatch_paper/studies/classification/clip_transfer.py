"""Picks by CLIP, training of a ResNet-18 (tab:exp-clip-cifar)."""

from __future__ import annotations

from gmmatch_paper.studies.classification.image_study import CLIP, SIX, ImageStudy, Plan, quick_plan

STUDY = ImageStudy(
    name="clip-transfer",
    title="Picked with CLIP, trained with a ResNet-18",
    paper=("tab:exp-clip-cifar",),
    question="Do a few picks per class, made with the features of CLIP, serve a ResNet-18?",
    method=(
        "Ten, a hundred or a thousand images per class are picked in the features of CLIP ViT-B/32, and a ResNet-18 "
        "is trained on them from scratch."
    ),
    differs=(
        "Nothing was run. CLIP was not at hand; `--encoder` takes any other model's folder or hub name in its "
        "place."
    ),
    found="Nothing yet.",
    missing="Everything; the command below runs it.",
    full=Plan(
        "uoft-cs/cifar10",
        CLIP,
        ("none", "label:20%", "label:40%"),
        ("10/class", "100/class", "1000/class"),
        methods=SIX,
        recipe="paper",
    ),
    quick=quick_plan(("none", "label:20%"), ratios=("3/class", "10/class")),
)
