"""The compact SimCLR trainer: its loss by hand, its views, and that it learns what labels would say."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gmmatch.errors import InvalidInputError  # noqa: E402
from gmmatch_paper.training.contrastive import nt_xent, train_simclr  # noqa: E402
from gmmatch_paper.training.evaluation import predict  # noqa: E402
from gmmatch_paper.training.images import put_images  # noqa: E402
from gmmatch_paper.training.views import cropped, random_views, recoloured  # noqa: E402


def bars(n, size=16, seed=0):
    """Gray pictures of two classes, at random places: stripes lying and stripes standing."""
    random = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    phase = random.uniform(0, 2 * np.pi, size=(n, 1))
    waves = 127 + 90 * np.sin(np.arange(size) * 2 * np.pi / 4 + phase)
    lying = np.broadcast_to(waves[:, :, None], (n, size, size))
    images = np.where(labels[:, None, None] == 0, lying, lying.transpose(0, 2, 1))
    return np.clip(images + random.normal(scale=20, size=images.shape), 0, 255).astype(np.uint8), labels


def nearest_neighbour_accuracy(vectors, labels):
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    alike = unit @ unit.T
    np.fill_diagonal(alike, -np.inf)
    return np.mean(labels[alike.argmax(axis=1)] == labels)


# ------------------------------------------------------------------------------------------------ loss


def test_nt_xent_of_two_images_by_hand():
    """Views at 0° and 60° of one image, at 90° and 180° of another; cosines are 1/2, 0, −1, ..."""
    angles = torch.deg2rad(torch.tensor([0.0, 90.0, 60.0, 180.0]))
    views = torch.stack([angles.cos(), angles.sin()], dim=1)
    first, second = 3.0 * views[:2], 0.5 * views[2:]  # lengths do not matter
    tau = 0.7
    cosine = {}
    for i, a in enumerate([0, 90, 60, 180]):
        for j, b in enumerate([0, 90, 60, 180]):
            cosine[i, j] = math.cos(math.radians(a - b))
    partner = {0: 2, 1: 3, 2: 0, 3: 1}
    by_hand = 0.0
    for i in range(4):
        total = sum(math.exp(cosine[i, j] / tau) for j in range(4) if j != i)
        by_hand -= math.log(math.exp(cosine[i, partner[i]] / tau) / total) / 4
    assert float(nt_xent(first, second, tau)) == pytest.approx(by_hand, rel=1e-6)


# ----------------------------------------------------------------------------------------------- views


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_views_are_seeded_differ_and_stay_in_range():
    images, _ = bars(20)
    pixels = torch.from_numpy(images)[..., None].expand(-1, -1, -1, 3)
    before = pixels.clone()
    first, again, other = (random_views(pixels, generator(seed)) for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(pixels, before)
    assert first.shape == pixels.shape and first.min() >= 0 and first.max() <= 255
    assert not torch.equal(first[0], first[2])


def test_a_crop_shows_a_part_of_the_image_maybe_mirrored():
    """On a ramp from left to right a crop is a shorter ramp, rising, or falling where it is mirrored."""
    ramp = torch.arange(32.0).expand(200, 1, 32, 32)
    found = cropped(ramp, generator())
    slopes = (found[..., 24] - found[..., 8]).mean(dim=(1, 2)) / 16
    assert slopes.abs().max() <= 1.01 and slopes.abs().min() > 0.25
    assert 70 < int((slopes < 0).sum()) < 130
    assert found.min() >= 0 and found.max() <= 31
    starts = torch.minimum(found[..., 0], found[..., -1]).mean(dim=(1, 2))
    assert starts.max() > 5  # crops lie elsewhere too


def test_colours_change_together_and_some_images_lose_theirs():
    random = torch.rand(300, 3, 4, 4, generator=generator(5)) * 100 + 60
    found = recoloured(random, generator())
    gray = ((found - found.mean(dim=1, keepdim=True)).abs().amax(dim=(1, 2, 3)) < 1e-3).sum()
    same = (found == random).all(dim=(1, 2, 3)).sum()
    assert 30 < int(gray) < 90  # a fifth of them
    assert 20 < int(same) < 80  # a fifth, of which four fifths keep their colours
    single = recoloured(random[:, :1], generator())
    assert single.shape == (300, 1, 4, 4) and not torch.equal(single, random[:, :1])


# -------------------------------------------------------------------------------------------- training


def features_of(network, images):
    data = put_images(images, np.zeros(len(images), dtype=np.int64))
    return predict(network, data, of=network.features).numpy()


@pytest.fixture(scope="module")
def trained():
    images, labels = bars(128)
    return images, labels, *train_simclr(images, epochs=6, batch_size=64, device="cpu", seed=3)


def test_it_learns_to_tell_images_apart_and_with_them_the_classes(trained):
    images, labels, network, losses = trained
    assert losses[-1] < losses[0] < math.log(2 * 64 - 1)
    assert nearest_neighbour_accuracy(features_of(network, images), labels) > 0.95
    new_images, new_labels = bars(60, seed=9)
    assert nearest_neighbour_accuracy(features_of(network, new_images), new_labels) > 0.9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epochs": 0}, "epochs=0: expected a whole number of at least 1"),
        ({"batch_size": 1.5}, "batch_size=1.5"),
        ({"temperature": 0.0}, r"temperature=0.0: expected a finite number above 0"),
        ({"device": "abacus"}, "device='abacus'"),
        ({"network": "resnet"}, "network='resnet': there is no such network"),
        ({"images": np.zeros((1, 8, 8), dtype=np.uint8)}, "images has 1 of them: at least 2"),
        ({"images": np.full((4, 8, 8), 300.0)}, "expected bytes"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        train_simclr(**{"images": np.zeros((4, 8, 8), dtype=np.uint8), "device": "cpu", **arguments})
