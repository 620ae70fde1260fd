"""Training on a part of clean data (tab:exp-classification-clean, tab:imagenet_accuracy)."""

from __future__ import annotations

from gmmatch_paper.studies.classification.image_study import ImageStudy, Plan, quick_plan

STUDY = ImageStudy(
    name="clean-classification",
    title="Training on a part of clean images",
    paper=("tab:exp-classification-clean", "tab:imagenet_accuracy"),
    question="How much accuracy is left when a network is trained on the part of a clean set that a method picks?",
    method=(
        "A ResNet-50 trained on all images is the proxy: its features are what the methods see. Another ResNet-50 is "
        "trained from scratch on the picks. The paper has CIFAR-100, Tiny-ImageNet and (top-5) ImageNet-1k."
    ),
    full=Plan(
        "uoft-cs/cifar100",
        "in-domain",
        ("none",),
        ("20%", "30%", "40%", "60%", "80%", "100%"),
        networks=("resnet50",),
        proxy_network="resnet50",
        recipe="paper",
    ),
    quick=quick_plan(("none",), ratios=("20%", "100%"), downstream=("probe", "scratch")),
)
