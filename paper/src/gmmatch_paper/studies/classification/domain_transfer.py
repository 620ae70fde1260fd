"""Picks by an encoder of another domain (fig:exp-domain-vanilla, fig:exp-domain-lp)."""

from __future__ import annotations

from gmmatch_paper.studies.classification.image_study import ImageStudy, Plan, quick_plan

STUDY = ImageStudy(
    name="domain-transfer",
    title="Picked with an encoder that never saw the data",
    paper=("fig:exp-domain-vanilla", "fig:exp-domain-lp"),
    question="Do picks made with a frozen ImageNet encoder serve CIFAR-10, clean and with wrong labels?",
    method=(
        "The methods see features of a frozen encoder; cells picked `in-domain`, in a network that was trained on "
        "the data with their wrong labels, stand beside them to tell what the encoder does. On the picks a ResNet-18 "
        "is trained from scratch (fig:exp-domain-vanilla), or a linear classifier on the same features "
        "(fig:exp-domain-lp). The paper's encoder is a ResNet-18 trained on ImageNet-1k. Its figures print no "
        "numbers; its text says that GM Matching outperforms all others in every one of them."
    ),
    full=Plan(
        "uoft-cs/cifar10",
        "microsoft/resnet-18",
        ("none", "label:20%", "label:40%"),
        ("1%", "2%", "10%", "20%"),
        downstream=("probe", "scratch"),
        recipe="paper",
    ),
    quick=quick_plan(
        ("none", "label:40%"), methods=("random", "easy", "hard", "moderate", "herding", "gm-matching")
    ),
)
