"""Picks of one network, training of another (tab:exp-nw-clean, tab:exp-nw-corrupt)."""

from __future__ import annotations

from gmmatch_paper.studies.classification.image_study import ImageStudy, Plan, quick_plan

STUDY = ImageStudy(
    name="network-transfer",
    title="Picked with one network, trained with another",
    paper=("tab:exp-nw-clean", "tab:exp-nw-corrupt"),
    question="Do picks made with the features of a ResNet-50 serve networks of other kinds?",
    method=(
        "In the paper a ResNet-50 trained on the data as it is, corruption included, is the proxy. SENet, "
        "EfficientNet-B0, VGG-16 and ShuffleNetV2 are trained from scratch on the picks."
    ),
    differs=(
        "CIFAR-10 instead of Tiny-ImageNet; a frozen ImageNet ResNet-50 instead of one trained on the data; the "
        "recipe `fast`; four methods, 20% label noise alone."
    ),
    found="No method is clearly above Random: all lie within a point and a deviation or two of each other.",
    missing=(
        "Tiny-ImageNet, clean and attacked images, 30% kept, SENet and EfficientNet-B0, the other methods and the "
        "authors' version of GM Matching."
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
