"""Networks by name, and what is said about names, sizes and options that do not work."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from gmmatch.errors import InvalidInputError
from gmmatch_paper.training.networks import build_network


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("resnet-18", "'resnet18'"),
        ("senet", "'senet"),
        ("efficientnet", "'efficientnet-b0'"),
        ("vit", "'vit-s'"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(wrong, near):
    with pytest.raises(InvalidInputError, match=f"network='{wrong}': .*Did you mean .*{near}"):
        build_network(wrong, 10)


@pytest.mark.parametrize("argument", ["n_classes", "image_size", "channels"])
@pytest.mark.parametrize("value", [0, -1, 2.0, True, "32", None])
def test_counts_must_be_positive_integers(argument, value):
    with pytest.raises(InvalidInputError, match=f"{argument}=.*at least 1"):
        build_network("resnet18", **{"n_classes": 10, argument: value})


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("resnet18", 5),
        ("senet50", 5),
        ("shufflenetv2", 5),
        ("efficientnet-b0", 5),
        ("vgg16", 17),
        ("vit-s", 7),
    ],
)
def test_images_below_the_least_size_are_refused_and_those_of_it_work(name, least):
    with torch.device("meta"):
        with pytest.raises(InvalidInputError, match=f"image_size={least - 1}"):
            build_network(name, 10, image_size=least - 1)
        network = build_network(name, 10, image_size=least)
        assert network(torch.empty(2, 3, least, least)).shape == (2, 10)


@pytest.mark.parametrize("size", [6, 33, 1024])
def test_a_transformer_says_which_sizes_it_cannot_cut(size):
    with pytest.raises(InvalidInputError, match=f"image_size={size} cannot be cut"):
        build_network("vit-s", 10, image_size=size)


def test_a_transformer_refuses_images_of_another_size(settled):
    with pytest.raises(InvalidInputError, match=r"images of 28 x 28; .* 32 x 32"):
        settled("vit-s")(torch.zeros(1, 3, 28, 28))


def test_the_names_can_be_had_without_loading_torch():
    script = (
        "import sys; from gmmatch_paper.training.networks import networks; networks(); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
