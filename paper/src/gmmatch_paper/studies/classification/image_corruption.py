"""Training on picks from partly spoilt images (tab:cifarC, tab:tinyC)."""

from __future__ import annotations

from gmmatch_paper.studies.classification.image_study import ImageStudy, Plan, quick_plan

STUDY = ImageStudy(
    name="image-corruption",
    title="Picking from images of which some are spoilt",
    paper=("tab:cifarC", "tab:tinyC"),
    question="Which picks train best when a part of the images is noisy, occluded, coarse, foggy or blurred?",
    method=(
        "A share of the training images is spoilt, each by one of the paper's five corruptions at random (severity 3 "
        "of 5; the paper does not say how severe). A network trained on these images is the proxy, and another is "
        "trained from scratch on the picks: ResNet-50s in the paper, and where a table says so ResNet-18s. Test "
        "images are clean."
    ),
    full=Plan(
        "uoft-cs/cifar100",
        "in-domain",
        ("image:5%", "image:10%", "image:20%"),
        ("20%", "30%", "40%", "60%", "80%", "100%"),
        networks=("resnet50",),
        proxy_network="resnet50",
        recipe="paper",
    ),
    quick=quick_plan(("image:20%",), methods=("random", "herding", "gm-matching"), encoder="in-domain"),
)
