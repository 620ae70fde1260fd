"""Images on a device, and their augmentation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gmmatch.errors import InvalidInputError  # noqa: E402
from gmmatch_paper.training.images import augment, put_images  # noqa: E402
from gmmatch_paper.training.recipes import Recipe  # noqa: E402

PLAIN = Recipe("plain", 1, 4, 0.1, 0.0)


def pictures(n=6, height=5, width=7, channels=3, seed=0):
    return np.random.default_rng(seed).integers(1, 256, (n, height, width, channels), dtype=np.uint8)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_normalised_images_have_mean_zero_and_deviation_one():
    data = put_images(pictures(200), np.zeros(200, int))
    inputs = data.normalized(data.pixels)
    assert inputs.shape == (200, 3, 5, 7)
    assert inputs.is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(inputs.mean(dim=(0, 2, 3)), torch.zeros(3), atol=1e-5)
    assert torch.allclose(inputs.std(dim=(0, 2, 3), correction=0), torch.ones(3), atol=1e-5)


def test_floats_are_rounded_to_the_nearest_byte():
    images = pictures()
    assert torch.equal(put_images(images / 255.0, np.zeros(6, int)).pixels, torch.as_tensor(images))


def test_a_flip_mirrors_left_and_right_half_of_the_time():
    image = torch.as_tensor(pictures(1))
    found = augment(image, torch.zeros(400, dtype=torch.long), replace(PLAIN, flip=True), seeded())
    mirrored = (found == image.flip(2)).flatten(1).all(dim=1)
    same = (found == image).flatten(1).all(dim=1)
    assert bool((mirrored | same).all())
    assert 150 < int(mirrored.sum()) < 250


def test_a_crop_is_a_window_of_the_padded_image():
    image = torch.as_tensor(pictures(1))
    padded = torch.nn.functional.pad(image, (0, 0, 2, 2, 2, 2))
    windows = {
        padded[0, top : top + 5, left : left + 7].numpy().tobytes() for top in range(5) for left in range(5)
    }
    found = augment(image, torch.zeros(600, dtype=torch.long), replace(PLAIN, crop_padding=2), seeded())
    seen = {each.numpy().tobytes() for each in found}
    assert seen == windows  # all 25 of them, and nothing else


def test_a_mirrored_crop_is_a_window_of_the_image_reflected_at_its_border():
    image = torch.as_tensor(pictures(1))
    padded = torch.nn.functional.pad(image.permute(0, 3, 1, 2).float(), (2, 2, 2, 2), mode="reflect")
    padded = padded.permute(0, 2, 3, 1).to(torch.uint8)
    windows = {
        padded[0, top : top + 5, left : left + 7].numpy().tobytes() for top in range(5) for left in range(5)
    }
    recipe = replace(PLAIN, crop_padding=2, crop_fill="mirrored")
    found = augment(image, torch.zeros(600, dtype=torch.long), recipe, seeded())
    assert {each.numpy().tobytes() for each in found} == windows


def test_cutout_blackens_a_square_and_nothing_else():
    image = torch.as_tensor(pictures(1, 12, 12))
    found = augment(image, torch.zeros(50, dtype=torch.long), replace(PLAIN, cutout=3), seeded())
    at_most_a_quarter = augment(image, torch.zeros(50, dtype=torch.long), replace(PLAIN, cutout=8), seeded())
    assert torch.equal(found, at_most_a_quarter)
    black = (found == 0).all(dim=3)
    assert torch.equal(found[~black], image.expand(50, -1, -1, -1)[~black])
    sizes = black.flatten(1).sum(dim=1)
    assert int(sizes.max()) == 9  # no byte of the pictures is 0, so black is the square
    assert int(sizes.min()) >= 4  # clipped at a corner


def test_batches_cover_the_order_and_carry_their_labels():
    data = put_images(pictures(10), np.arange(10))
    order = torch.tensor([4, 1, 9, 0, 3, 7, 2, 8])
    batches = list(data.augmented(order, PLAIN, seeded()))
    assert torch.cat([rows for rows, _, _ in batches]).tolist() == order.tolist()
    for rows, inputs, codes in batches:
        assert codes.tolist() == rows.tolist()
        assert torch.equal(inputs, data.normalized(data.pixels[rows]))


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (np.zeros((2, 3), np.uint8), [0, 1], "images has shape"),
        (np.zeros((2, 3, 3, 2), np.uint8), [0, 1], "images has shape"),
        (np.zeros((0, 3, 3), np.uint8), [], "images is empty"),
        (np.full((2, 3, 3), 16.0), [0, 1], "expected bytes"),
        (np.full((2, 3, 3), np.nan), [0, 1], "expected bytes"),
        (np.zeros((2, 3, 3), np.uint8), [0], "labels has shape"),
        (np.zeros((2, 3, 3), np.uint8), [0, -1], "class numbers from 0"),
        (np.zeros((2, 3, 3), np.uint8), [0.5, 1.0], "class numbers from 0"),
    ],
)
def test_errors_name_the_argument(images, labels, message):
    with pytest.raises(InvalidInputError, match=message):
        put_images(images, labels)
