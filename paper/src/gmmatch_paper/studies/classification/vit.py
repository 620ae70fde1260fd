"""A vision transformer trained on the picks (tab:cifar100_vit_small)."""

from __future__ import annotations

from gmmatch_paper.studies.classification.image_study import ImageStudy, Plan, quick_plan

STUDY = ImageStudy(
    name="vit",
    title="A vision transformer trained on the picks",
    paper=("tab:cifar100_vit_small",),
    question="Do the picks also serve a ViT-S, clean and under each kind of corruption?",
    method=(
        "A fifth is kept. A ResNet-50 is the proxy, trained by a recipe for ResNets, and a ViT-S is trained on the "
        "picks. The paper names no rates; we take 20% of images or labels, and attack all images by PGD."
    ),
    differs=(
        "Nothing was run. The paper's caption says that ResNet-50 is the downstream classifier too, which "
        "contradicts its title: the command trains a ViT-S."
    ),
    found="Nothing yet.",
    missing="Everything; the command below runs it.",
    full=Plan(
        "uoft-cs/cifar100",
        "in-domain",
        ("none", "image:20%", "label:20%", "pgd:100%"),
        ("20%",),
        networks=("vit-s",),
        proxy_network="resnet50",
    ),
    quick=quick_plan(("none", "label:20%"), downstream=("scratch",), limit=300),
)
