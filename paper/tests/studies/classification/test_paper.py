"""The paper's numbers: copied without a slip, as far as the tables themselves can tell."""

from __future__ import annotations

import pytest

from gmmatch_paper.studies import image_study_names, load_image_study
from gmmatch_paper.studies.classification.paper import paper_blocks
from gmmatch_paper.studies.image_cells.corruptions import CorruptionSpec
from gmmatch_paper.studies.style import METHOD_NAMES
from gmmatch_paper.training.networks import networks

TABLES = [label for name in image_study_names() for label in load_image_study(name).paper if "tab:" in label]


@pytest.mark.parametrize(
    ("table", "dataset", "corruption", "network", "method", "amount", "printed"),
    [
        ("tab:exp-classification-clean", "CIFAR-100", "none", "resnet50", "gm-matching", "20%", (55.93, 0.48)),
        ("tab:exp-classification-clean", "Tiny-ImageNet", "none", "resnet50", "el2n", "80%", (45.32, 0.27)),
        ("tab:imagenet_accuracy", "ImageNet-1k", "none", "resnet50", "self-supervised", "80%", (90.74, 0.27)),
        ("tab:cifarC", "CIFAR-100", "image:10%", "resnet50", "forgetting", "30%", (47.50, 1.43)),
        ("tab:tinyC", "Tiny-ImageNet", "image:20%", "resnet50", "optimization", "100%", (46.88, 0.43)),
        ("tab:exp-classification-label_noise", "Tiny-ImageNet", "label:35%", "resnet50", "random", "30%",
         (19.41, 0.45)),
        ("tab:exp-classification-label_noise-tinyN", "Tiny-ImageNet", "label:20%", "resnet50", "moderate", "60%",
         (35.79, 0.36)),
        ("tab:exp-classification-Adv", "CIFAR-100", "fgsm:100%", "resnet50", "herding", "20%", (39.92, 1.03)),
        ("tab:cifar100_vit_small", "CIFAR-100", "label:20%", "vit-s", "gm-matching", "20%", (42.11, 0.36)),
        ("tab:exp-nw-clean", "Tiny-ImageNet", "none", "efficientnet-b0", "grand", "30%", (40.02, 0.35)),
        ("tab:exp-nw-corrupt", "Tiny-ImageNet", "pgd:100%", "shufflenetv2", "gm-matching", "30%", (40.91, 0.84)),
        ("tab:exp-clip-cifar", "CIFAR-10", "label:40%", "resnet18", "hard", "1000/class", (51.4, 1.9)),
    ],
)  # fmt: skip
def test_numbers_from_the_corners_of_every_table(
    table: str,
    dataset: str,
    corruption: str,
    network: str,
    method: str,
    amount: str,
    printed: tuple[float, float],
) -> None:
    [block] = [
        block
        for block in paper_blocks([table])
        if (block.dataset, block.corruption, block.network) == (dataset, corruption, network)
    ]
    assert block.at(method, amount) == printed


def test_every_table_is_there_with_every_row_and_column() -> None:
    counts = {
        table: sum(len(row) for block in paper_blocks([table]) for row in block.rows.values())
        for table in TABLES
    }
    assert counts == {
        "tab:exp-classification-clean": 2 * 9 * 6,
        "tab:imagenet_accuracy": 8 * 5,
        "tab:cifarC": 3 * 9 * 6,
        "tab:tinyC": 3 * 9 * 6,
        "tab:exp-classification-label_noise": 2 * 9 * 4,
        "tab:exp-classification-label_noise-tinyN": 9 * 6,
        "tab:exp-classification-Adv": 2 * 9 * 4,
        "tab:cifar100_vit_small": 9 * 4,
        "tab:exp-nw-clean": 2 * 9 * 4,
        "tab:exp-nw-corrupt": 3 * 9 * 4,
        "tab:exp-clip-cifar": 3 * 6 * 3,
    }


def test_the_tiny_imagenet_columns_that_two_tables_print_are_the_same() -> None:
    [wide] = paper_blocks(["tab:exp-classification-label_noise-tinyN"])
    [narrow] = [
        block
        for block in paper_blocks(["tab:exp-classification-label_noise"])
        if (block.dataset, block.corruption) == ("Tiny-ImageNet", "label:20%")
    ]
    for method in narrow.rows:
        assert [narrow.at(method, one) for one in ("20%", "30%")] == [
            wide.at(method, one) for one in ("20%", "30%")
        ]


def test_what_the_blocks_name_is_known_to_the_studies() -> None:
    for block in paper_blocks(TABLES):
        assert CorruptionSpec.parse(block.corruption).text == block.corruption
        assert block.network in networks()
        assert set(block.rows) <= set(METHOD_NAMES)
