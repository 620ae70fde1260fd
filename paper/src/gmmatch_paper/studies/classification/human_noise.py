"""Labels that people gave (not in the paper)."""

from __future__ import annotations

from gmmatch_paper.studies.classification.image_study import CONTROLS, NINE, ImageStudy, Plan, quick_plan

STUDY = ImageStudy(
    name="human-noise",
    title="Picking from images with labels that people gave",
    paper=(),
    question="Do methods that withstand wrong labels drawn at random also withstand those that people gave?",
    method=(
        "CIFAR-10N (Wei et al., 2022) has labels of CIFAR-10 from paid workers; in its worst set 40% are wrong, and "
        "the errors lie between classes that look alike. `cifar10.npz` has `x_train`, `y_train`, `x_test`, `y_test` "
        "and these labels as `labels_worse`; `cifar100.npz` has those of CIFAR-100N as `labels_noisy`."
    ),
    differs=(
        "The paper has no such study. The encoder and the recipe are those of [domain transfer](domain-"
        "transfer.md)."
    ),
    found=(
        "Mistakes of people are harder to avoid than random ones: the picks of the authors' version of GM "
        "Matching hold 32% wrong labels, of the text's 39%, of Easy's 24%. From scratch the authors' version "
        "is first, with Easy a point behind. CIFAR-100N was run on frozen features (8,000 images, five seeds), "
        "with a hidden layer that was trained on the given labels as the proxy: the picks of the control, "
        "Herding with unit-length rows and target, hold as many wrong labels as those of the authors' version, "
        "and train at least as well."
    ),
    missing="A network that was trained on the data as the proxy; CIFAR-100N with networks that see images.",
    full=Plan(
        "uoft-cs/cifar10",
        "microsoft/resnet-18",
        ("human:worse",),
        ("2%", "10%", "20%"),
        methods=(*NINE, "easy", "hard", *CONTROLS),
        downstream=("probe", "scratch"),
        recipe="paper",
    ),
    quick=quick_plan(("human:worse",), methods=("random", "easy", "gm-matching")),
)
