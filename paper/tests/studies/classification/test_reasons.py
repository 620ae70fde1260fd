"""The study of reasons measures what it says: one change at a time, from the same data."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from gmmatch_paper.studies.classification.corruptions import CorruptionSpec, NoisyImages, corrupt_data
from gmmatch_paper.studies.classification.data import ImageData, load_images
from gmmatch_paper.studies.classification.proxies import Embedded
from gmmatch_paper.studies.classification.reason_cells import Bench, Setting, draw_with_wrong, train_layer
from gmmatch_paper.studies.classification.reasons import (
    BASE,
    CONTROLS,
    CORRUPTIONS,
    METHODS,
    SETTINGS,
    kept,
    main,
)

NOISE = CorruptionSpec.parse("label:40%")


@pytest.fixture(scope="module")
def images() -> ImageData:
    return load_images("digits", limit=300, test_limit=100)


def pixels(images: ImageData) -> Embedded:
    train, test = (x.reshape(len(x), -1).astype(np.float32) / 255.0 for x in (images.x_train, images.x_test))
    return Embedded(train, test)


def scaled(embedded: Embedded) -> Embedded:
    # Powers of two, so that dividing by the length again leaves no rounding behind.
    lengths = np.random.default_rng(0).choice([0.5, 1.0, 2.0], (len(embedded.train), 1)).astype(np.float32)
    return Embedded(embedded.train * lengths, embedded.test)


def setting(name: str) -> Setting:
    [found] = [each for each in SETTINGS if each.name == name]
    return found


def test_every_setting_changes_one_thing_and_the_last_one_two() -> None:
    def facts(each: Setting) -> dict[str, object]:
        return {key: value for key, value in asdict(each).items() if key not in ("name", "label", "words")}

    start = facts(setting(BASE))
    changes = [sum(facts(each)[key] != start[key] for key in start) for each in SETTINGS]
    assert changes == [0, *[1] * (len(SETTINGS) - 2), 2]
    assert len({each.name for each in SETTINGS}) == len({each.label for each in SETTINGS}) == len(SETTINGS)


def test_all_methods_are_measured_at_the_start_and_the_compared_ones_everywhere_under_heavy_noise() -> None:
    for method in METHODS:
        for corruption in CORRUPTIONS:
            assert kept({"setting": BASE, "corruption": corruption, "method": method})
    for each in SETTINGS:
        for method in ("random", "easy", "moderate", "herding", "gm-matching", "gm-matching-authors"):
            assert kept({"setting": each.name, "corruption": "label:40%", "method": method})
    assert not kept({"setting": "unit", "corruption": "label:40%", "method": CONTROLS[0]})


@pytest.mark.parametrize(("share", "wrong"), [(0.0, 0), (0.3, 3), (1.0, 10)])
def test_a_draw_has_the_share_of_wrong_labels_in_every_class(share: float, wrong: int) -> None:
    corrupt = np.tile([True, False, False, False], 20)
    noisy = NoisyImages(np.zeros((80, 1, 1, 1), np.uint8), np.repeat([0, 1], 40), corrupt)
    rows = draw_with_wrong(noisy, "25%", share, seed=3)
    assert len(np.unique(rows)) == 20
    assert np.bincount(noisy.labels[rows]).tolist() == [10, 10]
    assert [int(corrupt[rows][noisy.labels[rows] == label].sum()) for label in (0, 1)] == [wrong] * 2


def test_fewer_wrong_rows_than_asked_for_are_all_taken() -> None:
    corrupt = np.arange(40) < 2
    noisy = NoisyImages(np.zeros((40, 1, 1, 1), np.uint8), np.zeros(40, dtype=np.int64), corrupt)
    rows = draw_with_wrong(noisy, 10, 0.8, seed=0)
    assert len(rows) == 10 and corrupt[rows].sum() == 2


def test_with_unit_rows_lengths_do_not_matter_and_without_they_do(images: ImageData) -> None:
    plain = pixels(images)
    longer = scaled(plain)
    # Trained on the same rows either way: what differs is what the method sees.
    first = Bench(images, plain, plain)
    other = Bench(images, plain, longer)
    unit, raw = Setting("u", "", "", unit=True), Setting("r", "", "")
    unit_other, raw_other = (
        Setting("u", "", "", space="other", unit=True),
        Setting("r", "", "", space="other"),
    )
    assert first.measure(unit, NOISE, "herding", 0) == other.measure(unit_other, NOISE, "herding", 0)
    assert first.measure(raw, NOISE, "herding", 0) != other.measure(raw_other, NOISE, "herding", 0)


def test_picked_together_the_noise_of_the_labels_does_not_matter(images: ImageData) -> None:
    """Without classes the picks are the same, so what differs between two draws of noise is which of them are bad."""
    bench = Bench(images, pixels(images), pixels(images))
    together = setting("together")
    bad = [
        corrupt_data(images, NOISE, seed).corrupt.mean()
        - bench.measure(together, NOISE, "easy", seed)["contamination"]
        for seed in range(6)
    ]
    # No label was seen, so bad labels come at their own rate: far from Easy's among the rows of a class.
    per_class = bench.measure(setting(BASE), NOISE, "easy", 0)["contamination"]
    assert abs(float(np.mean(bad))) < 0.08
    assert per_class < 0.2


def test_how_much_is_picked(images: ImageData) -> None:
    bench = Bench(images, pixels(images), pixels(images))
    counts = {
        name: bench.measure(setting(name), NOISE, "easy", 0)["n_picked"] for name in (BASE, "2%", "few")
    }
    # Of 300 rows; with few, 500 per class would be more than there are, so half of them.
    assert counts == {BASE: 60, "2%": 6, "few": 30}


def test_random_picks_are_the_same_in_every_space(images: ImageData) -> None:
    plain = pixels(images)
    bench = Bench(images, plain, scaled(plain))
    same = [bench.measure(setting(name), NOISE, "random", 1) for name in (BASE, "other", "unit")]
    assert same[0] == same[1] == same[2]


def test_a_longer_training_repeats_more_of_the_wrong_labels(images: ImageData) -> None:
    noisy = corrupt_data(images, NOISE, 0)
    rows = pixels(images).train
    short, long = (train_layer(rows, noisy.labels, epochs, 0).repeats for epochs in (3, 100))
    assert short < 0.8 < long


@pytest.mark.slow
def test_stopped_or_done_it_repeats_no_cell(tmp_path: Path) -> None:
    options = [
        "--limit",
        "100",
        "--test-limit",
        "50",
        "--corruptions",
        "label:40%",
        "--output",
        str(tmp_path),
    ]
    main(options)
    first = json.loads((tmp_path / "reasons.json").read_text(encoding="utf-8"))
    cells = first["parts"]["cells"]["cells"]
    assert {cell["setting"] for cell in cells} == {each.name for each in SETTINGS}
    assert not any("error" in cell for cell in cells)
    assert "--limit 100 --test-limit 50 --corruptions label:40% --seeds 1" in first["provenance"]["command"]
    main(options)
    assert json.loads((tmp_path / "reasons.json").read_text(encoding="utf-8"))["parts"] == first["parts"]
