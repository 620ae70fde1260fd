"""Training on picks from data with wrong labels (both tables of label noise)."""

from __future__ import annotations

from gmmatch_paper.studies.classification.image_study import ImageStudy, Plan, quick_plan

STUDY = ImageStudy(
    name="label-noise",
    title="Picking from images of which some have a wrong label",
    paper=("tab:exp-classification-label_noise", "tab:exp-classification-label_noise-tinyN"),
    question="Which picks train best when a part of the labels has been turned into other classes at random?",
    method=(
        "Exactly the given share of the labels of every class turns into another class, all others equally likely. "
        "Methods pick per class of the noisy labels, and training sees the noisy labels; test labels are true. A "
        "ResNet-50 trained on the noisy labels is the paper's proxy."
    ),
    full=Plan(
        "uoft-cs/cifar100",
        "in-domain",
        ("label:20%", "label:35%"),
        ("20%", "30%"),
        networks=("resnet50",),
        proxy_network="resnet50",
        recipe="paper",
    ),
    quick=quick_plan(("label:20%", "label:35%"), methods=("random", "easy", "gm-matching")),
)
