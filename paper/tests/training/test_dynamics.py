"""The library's recorder and scores work with the laboratory's loop and networks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gmmatch import Dynamics  # noqa: E402
from gmmatch_paper.training.loop import train  # noqa: E402
from gmmatch_paper.training.recipes import FAST  # noqa: E402


def test_the_training_loop_of_this_package_feeds_it():
    labels = np.arange(64) % 2
    images = np.random.default_rng(0).integers(0, 60, (64, 8, 8, 3)) + 150 * labels[:, None, None, None]
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 2))
    recorder = Dynamics(64)
    recipe = replace(FAST, name="short", epochs=3, min_steps=0)
    train(network, images.astype(np.uint8), labels, recipe=recipe, device="cpu", on_batch=recorder.update)
    assert recorder.presentations.tolist() == [3] * 64
    assert np.isfinite(recorder.el2n()).all()


def test_grand_is_recorded_from_the_input_of_the_last_layer():
    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head = torch.nn.Linear(192, 2)

        def forward(self, x):
            return self.head(x.flatten(1))

    images = np.random.default_rng(0).integers(0, 255, (16, 8, 8, 3)).astype(np.uint8)
    recorder, products = Dynamics(16), {}

    def record(rows, logits, codes, features):
        recorder.update(rows, logits, codes, features)
        errors = logits.softmax(1) - torch.nn.functional.one_hot(codes, 2)
        gradients = torch.einsum("nc,nf->ncf", errors, features)
        lengths = (gradients.square().sum((1, 2)) + errors.square().sum(1)).sqrt()
        products.update(zip(rows.tolist(), lengths.tolist(), strict=True))

    recipe = replace(FAST, name="short", epochs=1, min_steps=0, batch_size=8)
    model = Network()
    train(model, images, np.arange(16) % 2, recipe=recipe, device="cpu", on_batch=record)
    np.testing.assert_allclose(recorder.grand(), [products[row] for row in range(16)], rtol=1e-4)
    assert not model.head._forward_pre_hooks
