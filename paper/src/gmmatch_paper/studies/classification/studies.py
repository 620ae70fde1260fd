"""The paper's studies that classify images, by name: what they recompute, and their cells."""

from __future__ import annotations

from dataclasses import replace

from gmmatch_paper.studies.classification.image_study import (
    CLIP,
    CONTROLS,
    NINE,
    SIX,
    TINY,
    ImageStudy,
    paper_plan,
    quick_plan,
)
from gmmatch_paper.studies.classification.maps import MAP_CORRUPTIONS, PICTURES, map_tables, maps_part
from gmmatch_paper.studies.image_cells.plan import Plan

_ALL = ("20%", "30%", "40%", "60%", "80%", "100%")
_MOST = ("60%", "70%", "80%", "90%", "100%")
_LITTLE = ("20%", "30%")
_IMAGES = ("image:5%", "image:10%", "image:20%")
_LABELS = ("label:20%", "label:35%")
_ATTACKS = ("pgd:100%", "fgsm:100%")
_FROZEN = Plan(
    "uoft-cs/cifar10",
    "microsoft/resnet-18",
    ("none", "label:20%", "label:40%"),
    ("1%", "2%", "10%", "20%"),
    methods=(*NINE, "easy", "hard", *CONTROLS),
    downstream=("probe", "scratch"),
    recipe="paper",
)

STUDIES = (
    ImageStudy(
        name="clean-classification",
        title="Training on a part of clean images",
        paper=("tab:exp-classification-clean", "tab:imagenet_accuracy"),
        full=paper_plan(("none",), _ALL),
        more=(
            paper_plan(("none",), _ALL, dataset=TINY),
            paper_plan(("none",), _MOST, dataset="ILSVRC/imagenet-1k", image_size=224),
        ),
        quick=quick_plan(("none",), ratios=("20%", "100%"), downstream=("probe", "scratch")),
    ),
    ImageStudy(
        name="image-corruption",
        title="Picking from images of which some are corrupted",
        paper=("tab:cifarC", "tab:tinyC"),
        full=paper_plan(_IMAGES, _ALL),
        more=(paper_plan(_IMAGES, _ALL, dataset=TINY),),
        quick=quick_plan(("image:20%",), methods=("random", "herding", "gm-matching"), encoder="in-domain"),
    ),
    ImageStudy(
        name="label-noise",
        title="Picking from images of which some have a wrong label",
        paper=("tab:exp-classification-label_noise", "tab:exp-classification-label_noise-tinyN"),
        full=paper_plan(_LABELS, _LITTLE),
        more=(
            paper_plan(_LABELS, _LITTLE, dataset=TINY),
            paper_plan(("label:20%",), _ALL, dataset=TINY),
        ),
        quick=quick_plan(_LABELS, methods=("random", "easy", "gm-matching")),
    ),
    ImageStudy(
        name="adversarial",
        title="Picking from images under attack",
        paper=("tab:exp-classification-Adv",),
        full=paper_plan(_ATTACKS, _LITTLE),
        more=(paper_plan(_ATTACKS, _LITTLE, dataset=TINY),),
        quick=quick_plan(("pgd:100%", "fgsm:20%"), limit=300),
    ),
    ImageStudy(
        name="vit",
        title="A vision transformer trained on the picks",
        paper=("tab:cifar100_vit_small",),
        full=paper_plan(("none", "image:20%", "label:20%", "pgd:100%"), ("20%",), networks=("vit-s",)),
        quick=quick_plan(("none", "label:20%"), downstream=("scratch",), limit=300),
    ),
    ImageStudy(
        name="network-transfer",
        title="Picked with one network, trained with another",
        paper=("tab:exp-nw-clean", "tab:exp-nw-corrupt"),
        full=paper_plan(
            ("none",),
            _LITTLE,
            dataset=TINY,
            networks=("senet18", "efficientnet-b0", "vgg16", "shufflenetv2"),
        ),
        more=(
            paper_plan(
                ("label:20%", "image:20%", "pgd:100%"),
                _LITTLE,
                dataset=TINY,
                networks=("vgg16", "shufflenetv2"),
            ),
        ),
        quick=quick_plan(
            ("none", "label:20%"),
            encoder="in-domain",
            networks=("tiny-wide",),
            downstream=("scratch",),
            limit=300,
        ),
    ),
    ImageStudy(
        name="domain-transfer",
        title="Picked with an encoder that never saw the data",
        paper=("fig:exp-domain-vanilla", "fig:exp-domain-lp"),
        full=_FROZEN,
        quick=quick_plan(("none", "label:40%"), methods=SIX),
    ),
    ImageStudy(
        name="clip-transfer",
        title="Picked with CLIP, trained with a ResNet-18",
        paper=("tab:exp-clip-cifar",),
        full=Plan(
            "uoft-cs/cifar10",
            CLIP,
            ("none", "label:20%", "label:40%"),
            ("10/class", "100/class", "1000/class"),
            methods=(*SIX, *CONTROLS),
            recipe="paper",
        ),
        quick=quick_plan(("none", "label:20%"), ratios=("3/class", "10/class")),
    ),
    ImageStudy(
        name="embedding-maps",
        title="Where corrupted images lie among the others",
        paper=("fig:diffusion_noise_samples_mnist", "fig:diffusion_noise_samples_tsne_mnist"),
        verdict=lambda results: "drawn; the paper states no number",
        full=Plan("ylecun/mnist", CLIP, MAP_CORRUPTIONS, seeds=1, limit=1000, test_limit=1),
        quick=quick_plan(MAP_CORRUPTIONS, limit=200, test_limit=1),
        lacks=("ratios", "methods", "recipe", "downstream", "networks", "test_limit", "best_epoch"),
        part=maps_part,
        tables=map_tables,
        pictures=PICTURES,
    ),
    ImageStudy(
        name="human-noise",
        title="Picking from images with labels that people gave",
        paper=(),
        full=replace(_FROZEN, corruptions=("human:worse",), ratios=("2%", "10%", "20%")),
        quick=quick_plan(("human:worse",), methods=("random", "easy", "gm-matching")),
    ),
)
