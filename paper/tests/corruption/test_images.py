"""Corrupted images: which, how much, and the same in whatever pieces they come."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits, load_sample_image

from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch_paper.corruption import (
    CLASSIFICATION_KINDS,
    GENERATION_KINDS,
    Cutout,
    Fog,
    ImageCorruption,
    LowResolution,
    MotionBlur,
    Occlusion,
    image_kinds,
)
from gmmatch_paper.corruption.blurring import line_kernel
from gmmatch_paper.corruption.kinds import XIA
from gmmatch_paper.corruption.patches import rectangles

SINGLE = tuple(name for name in image_kinds() if "mixture" not in name and name != "xia")


def photos(side: int, count: int = 24) -> np.ndarray:
    """Pieces of the photos that ship with scikit-learn, reduced threefold."""
    random, found = np.random.default_rng(0), []
    for number in range(count):
        photo = load_sample_image(("china.jpg", "flower.jpg")[number % 2])
        top, left = (int(random.integers(0, length - 3 * side)) for length in photo.shape[:2])
        square = photo[top : top + 3 * side, left : left + 3 * side]
        found.append(square.reshape(side, 3, side, 3, 3).mean(axis=(1, 3)))
    return np.rint(np.stack(found)).astype(np.uint8)


def image_sets() -> dict[str, np.ndarray]:
    digits = np.rint(load_digits().images[:24] * (255 / 16)).astype(np.uint8)
    return {
        "digits 8x8": digits,
        "gray 28x28": photos(28)[..., 0],
        "color 32x32": photos(32),
        "color 64x64": photos(64),
        "noise 31x45": np.random.default_rng(1).integers(0, 256, (24, 31, 45, 3), dtype=np.uint8),
    }


def distances(images: np.ndarray, corrupted: np.ndarray) -> np.ndarray:
    """Root mean squared difference of every image, on the scale from 0 to 1."""
    difference = (corrupted.astype(np.float64) - images) / (255.0 if images.dtype == np.uint8 else 1.0)
    return np.sqrt((difference.reshape(len(images), -1) ** 2).mean(axis=1))


@pytest.mark.grid
@pytest.mark.parametrize("kind", [name for name in SINGLE if name != "random-image"])
@pytest.mark.parametrize("name", image_sets())
def test_the_distance_grows_with_the_severity(kind, name):
    images = image_sets()[name]
    per_image = np.array(
        [
            distances(images, ImageCorruption(kind=kind, severity=severity, seed=1).apply(images).data)
            for severity in (1, 2, 3, 4, 5)
        ]
    )
    mean = per_image.mean(axis=1)
    assert mean[0] > 0.0
    if name == "digits 8x8":  # with so few pixels two severities can be the same patch
        assert (np.diff(mean) >= 0.0).all() and mean[4] > 1.5 * mean[0]
    else:
        assert (np.diff(mean) > 0.0).all()
    # Every single image gets worse too, to within the rounding to whole numbers.
    assert (np.diff(per_image, axis=0) > -1.0 / 255.0).all()


@pytest.mark.parametrize("kind", image_kinds())
def test_only_the_masked_images_change_and_the_input_does_not(kind):
    images = photos(32)
    before = images.copy()
    result = ImageCorruption(kind=kind, rate=0.5, severity=4, seed=0).apply(images)
    assert np.array_equal(images, before) and not np.shares_memory(images, result.data)
    assert result.data.dtype == np.uint8 and result.data.shape == images.shape
    assert result.mask.sum() == 12
    assert np.array_equal((result.data != images).reshape(24, -1).any(axis=1), result.mask)
    assert np.array_equal(result.kinds != "", result.mask)


@pytest.mark.parametrize(
    ("mixture", "kinds"), [("mixture", CLASSIFICATION_KINDS), ("generation-mixture", GENERATION_KINDS)]
)
def test_a_mixture_uses_its_five_kinds_equally_often(mixture, kinds):
    corruption = ImageCorruption(kind=mixture, rate=1.0, seed=0)
    counts = corruption.apply(np.zeros((5_000, 4, 4), dtype=np.uint8)).counts
    assert counts.keys() == set(kinds)
    # Binomial with 5,000 trials and a fifth: five standard deviations are 141.
    assert max(abs(count - 1_000) for count in counts.values()) < 141


def test_the_recorded_kind_is_what_was_done():
    images = np.full((40, 16, 16), 200, dtype=np.uint8)
    kinds = ["random-image", Cutout()]
    result = ImageCorruption(kind=kinds, severity=3, seed=0).apply(images)
    assert result.counts.keys() == {"cutout", "random-image"} and sum(result.counts.values()) == 40
    for image, kind in zip(result.data, result.kinds, strict=True):
        assert (set(np.unique(image)) == {0, 200}) == (kind == "cutout")


def test_pictures_of_many_sizes_come_back_as_pictures():
    array = photos(32, 6)
    pictures = [Image.fromarray(array[0]), Image.fromarray(array[1, :20]), Image.fromarray(array[2, ..., 0])]
    result = ImageCorruption(kind="gaussian-noise", seed=0).apply(pictures)
    assert [(p.mode, p.size) for p in result.data] == [("RGB", (32, 32)), ("RGB", (32, 20)), ("L", (32, 32))]
    same = ImageCorruption(kind="gaussian-noise", seed=0).apply(array[:1])
    assert np.array_equal(np.asarray(result.data[0]), same.data[0])
    assert np.array_equal(np.asarray(pictures[0]), array[0])


def test_occlusion_is_black_or_noise_and_leaves_the_rest_alone():
    images = np.full((200, 20, 20), 100, dtype=np.uint8)
    for fill in ("black", "noise", "either"):
        corrupted = ImageCorruption(kind=Occlusion(fill=fill), severity=3, seed=0).apply(images).data
        hidden = corrupted != 100
        area = hidden.mean(axis=(1, 2))
        assert area.min() > 0.1 and area.max() < 0.3 and abs(area.mean() - 0.2) < 0.02
        black = np.array([set(np.unique(image)) == {0, 100} for image in corrupted])
        assert (
            black.all() if fill == "black" else not black.any() if fill == "noise" else 60 < black.sum() < 140
        )


def test_patches_are_inside_nested_and_of_the_asked_size():
    places = np.random.default_rng(0).random((50, 1, 2))
    before = None
    for share in (0.1, 0.25, 0.5, 0.9):
        sides = np.full((50, 1), share)
        covered = rectangles((20, 30), places, sides, sides)
        assert (covered.sum(axis=(1, 2)) == round(20 * share) * round(30 * share)).all()
        assert before is None or (covered >= before).all()
        before = covered
    assert rectangles((20, 30), places, np.ones((50, 1)), np.ones((50, 1))).all()


def test_fog_mixes_an_image_with_its_brightness():
    gray = np.full((3, 16, 16), 0.5)
    foggy = ImageCorruption(kind=Fog(brightness=1.0, thinnest=0.2), severity=5, seed=0).apply(gray).data
    # (1 − a) · 0.5 + a · 1, where the opacity a goes from 0.2 · 0.9 to 0.9.
    assert foggy.min(axis=(1, 2)) == pytest.approx(0.5 + 0.18 * 0.5)
    assert foggy.max(axis=(1, 2)) == pytest.approx(0.5 + 0.9 * 0.5)
    same = ImageCorruption(kind=Fog(brightness=0.5), severity=5).apply(gray).data
    assert same == pytest.approx(gray)


def test_low_resolution_leaves_blocks_with_the_mean_of_their_pixels():
    images = np.random.default_rng(0).random((5, 32, 32))
    coarse = ImageCorruption(kind=LowResolution(), severity=3, seed=0).apply(images).data
    blocks = images.reshape(5, 8, 4, 8, 4).mean(axis=(2, 4))
    assert np.abs(coarse - np.kron(blocks, np.ones((1, 4, 4)))).max() < 1e-12
    ragged = ImageCorruption(kind=LowResolution(), severity=3, seed=0).apply(images[:, :30, :27]).data
    assert ragged[0, 29, 26] == pytest.approx(images[0, 28:30, 24:27].mean())


@pytest.mark.parametrize("degrees", [0, 30, 45, 90, 135, 179])
@pytest.mark.parametrize("length", [0.3, 1.0, 4.5, 12.0])
def test_a_line_of_motion_has_its_length_and_direction(length, degrees):
    kernel = line_kernel(length, degrees)
    offsets, weights = np.array(list(kernel)), np.array(list(kernel.values()))
    assert weights.sum() == pytest.approx(1.0) and weights.min() > 0.0
    assert weights @ offsets == pytest.approx([0.0, 0.0], abs=1e-9)
    along = offsets @ [np.sin(np.deg2rad(degrees)), np.cos(np.deg2rad(degrees))]
    # The variance of a line is L²/12; sharing a point among pixels adds at most 1/4 per axis.
    variance = weights @ along**2
    assert length**2 / 12 - 1e-9 <= variance <= (length + 1.0) ** 2 / 12 + 0.5


def test_motion_blur_by_hand():
    class Horizontal(np.random.Generator):
        def integers(self, *arguments, **more):
            return np.int64(0)

    image = np.zeros((1, 3, 7, 1))
    image[0, 1, 3, 0] = 1.0
    blur = MotionBlur(lengths=(2 / 3,) * 5)  # of a shorter side of 3: two pixels
    found = blur(image, 1, [Horizontal(np.random.PCG64(0))])[0, :, :, 0]
    weights = [line_kernel(2.0, 0.0)[0, offset] for offset in (-1, 0, 1)]
    assert found[1, 2:5] == pytest.approx(weights) and found.sum() == pytest.approx(1.0)
    assert (found[[0, 2]] == 0.0).all()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ImageCorruption(severity=0), InvalidInputError, "severity=0"),
        (lambda: ImageCorruption(severity=2.5), InvalidInputError, "severity=2.5"),
        (lambda: ImageCorruption(kind="fogg"), InvalidInputError, "Did you mean 'fog'"),
        (lambda: ImageCorruption(kind=[]), InvalidInputError, "at least one"),
        (lambda: ImageCorruption(kind=3), InvalidTypeError, "type int"),
        (lambda: Occlusion(fill="white"), InvalidInputError, "fill='white'"),
        (lambda: ImageCorruption().apply(np.zeros((5, 784))), InvalidInputError, "reshape"),
        (lambda: ImageCorruption().apply(np.zeros((5, 3, 32, 32))), InvalidInputError, "transpose"),
        (lambda: ImageCorruption().apply(np.full((5, 8, 8), 2.0)), InvalidInputError, "from 0 to 1"),
        (lambda: ImageCorruption().apply(np.full((5, 8, 8), np.nan)), InvalidInputError, "from 0 to 1"),
        (lambda: ImageCorruption().apply(np.zeros((5, 8, 8), dtype=np.int64)), InvalidTypeError, "int64"),
        (lambda: ImageCorruption().apply("photo.png"), InvalidTypeError, "type str"),
    ],
)
def test_what_cannot_be_done_is_explained(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_the_kinds_of_xia_are_as_severe_as_theirs() -> None:
    noise, box, coarse, fog, blur = XIA
    streams = [np.random.default_rng(number) for number in range(200)]
    images = np.random.default_rng(0).uniform(0.2, 0.8, (200, 32, 32, 3))
    drawn = np.stack(
        [np.random.default_rng(n).standard_normal((32, 32, 3), dtype=np.float32) for n in range(200)]
    )
    np.testing.assert_allclose(noise(images, 1, streams), np.clip(images + 0.2 + drawn, 0.0, 1.0), atol=1e-6)
    hidden = (box(images, 1, streams) == 0.0).all(axis=3)
    assert (hidden.sum(axis=(1, 2)) == 16 * 16).all()
    blocks = coarse(images, 1, streams).reshape(200, 8, 4, 8, 4, 3)
    assert np.ptp(blocks, axis=(2, 4)).max() < 1e-9
    assert np.abs(fog(images, 1, streams) - 0.5).max() < 0.05  # of 0.3 before
    assert len(set(line_kernel(blur.lengths[0] * 32, 0.0))) in (15, 17)
