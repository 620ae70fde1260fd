"""Picks of one network, training of another (tab:exp-nw-clean, tab:exp-nw-corrupt)."""

from __future__ import annotations

from gmmatch_paper.studies.classification.image_study import ImageStudy, Plan, quick_plan

STUDY = ImageStudy(
    name="network-transfer",
    title="Picked with one network, trained with another",
    paper=("tab:exp-nw-clean", "tab:exp-nw-corrupt"),
    question="Do picks made with the features of a ResNet-50 serve networks of other kinds?",
    method=(
        "In the paper a ResNet-50 trained on the data as it is, corruption included, is the proxy; each table names "
        "its own, which may be a frozen encoder. SENet, EfficientNet-B0, VGG-16 and ShuffleNetV2 are trained from "
        "scratch on the picks."
    ),
    full=Plan(
        "zh-plus/tiny-imagenet",
        "in-domain",
        ("none", "label:20%", "image:20%", "pgd:100%"),
        ("20%", "30%"),
        networks=("senet50", "efficientnet-b0", "vgg16", "shufflenetv2"),
        proxy_network="resnet50",
        recipe="paper",
    ),
    quick=quick_plan(
        ("none", "label:20%"),
        encoder="in-domain",
        networks=("tiny-wide",),
        downstream=("scratch",),
        limit=300,
    ),
)
