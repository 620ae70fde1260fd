"""A cell: what is corrupted, what is picked, what is trained, and what is computed only once."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch_paper.studies.image_cells.amounts import parse_amount
from gmmatch_paper.studies.image_cells.cache import Cache
from gmmatch_paper.studies.image_cells.cell import Given, MeasureCell, Places
from gmmatch_paper.studies.image_cells.corruptions import CorruptionSpec, corrupt_data
from gmmatch_paper.studies.image_cells.data import ImageData, load_images
from gmmatch_paper.studies.image_cells.downstream import train_network
from gmmatch_paper.studies.image_cells.picks import cut_ranking, pick, rank_all
from gmmatch_paper.studies.image_cells.plan import Plan
from gmmatch_paper.studies.image_cells.proxies import Embedded, ProxySpec

pytest.importorskip("torch")

CELL = {
    "dataset": "digits",
    "data": "x",
    "encoder": "pixels",
    "downstream": "probe",
    "network": "linear",
    "recipe": "",
    "corruption": "label:40%",
    "amount": "20%",
    "method": "easy",
    "seed": 0,
}


def places(tmp_path: Path, **changes: object) -> Places:
    plan = Plan("digits", "pixels", ("none",), limit=300, test_limit=100, proxy_network="tiny")
    return Places(replace(plan, **changes), str(tmp_path), "cpu")  # type: ignore[arg-type]


def test_easy_avoids_wrong_labels_and_so_its_probe_is_better_than_randoms(tmp_path: Path) -> None:
    measure = MeasureCell(places(tmp_path))
    found = {method: measure(**{**CELL, "method": method}) for method in ("random", "easy")}
    assert found["easy"]["n_picked"] == found["random"]["n_picked"] == 60
    assert found["easy"]["contamination"] < 0.15 < 0.25 < found["random"]["contamination"]
    assert found["easy"]["accuracy"] > found["random"]["accuracy"] + 0.1


def test_the_same_cell_gives_the_same_numbers(tmp_path: Path) -> None:
    scratch = {**CELL, "downstream": "scratch", "network": "tiny", "recipe": "quick"}
    first = MeasureCell(places(tmp_path / "a"))(**scratch)
    second = MeasureCell(places(tmp_path / "b"))(**scratch)
    assert first["accuracy"] == second["accuracy"]
    assert first["contamination"] == second["contamination"]
    assert first["accuracy"] > 0.1


def test_features_learned_without_labels_do_not_depend_on_them(tmp_path: Path) -> None:
    here = places(tmp_path, encoder="simclr:compact:1", limit=60, test_limit=20)
    kept = [
        Given.of(here, here.plan.proxy, corruption, "", 0).embedded() for corruption in ("none", "label:40%")
    ]
    assert kept[0].train.shape == (60, 256) and np.array_equal(kept[0].train, kept[1].train)
    assert len(list((tmp_path / "simclr").glob("*.npz"))) == 1
    with pytest.raises(InvalidInputError, match="a number of epochs"):
        ProxySpec.parse("simclr:resnet18:many")


@pytest.mark.slow
def test_attacked_images_stay_within_the_ball_and_mislead(tmp_path: Path) -> None:
    from gmmatch_paper.studies.image_cells.attacks import attacked_images

    data = load_images("digits", limit=300, test_limit=100)
    spec = CorruptionSpec.parse("fgsm:50%")
    found = attacked_images(
        data, spec, network="tiny", recipe="quick", seed=0, cache=Cache(tmp_path), device="cpu"
    )
    change = np.abs(found.astype(int) - data.x_train.astype(int)).max(axis=(1, 2, 3))
    assert change.max() == 8
    assert (change > 0).sum() == 150
    noisy = corrupt_data(data, spec, 0, found)
    assert noisy.corrupt.mean() == 0.5
    hit = noisy.corrupt
    right = [_share_right(data, images[hit], data.y_train[hit]) for images in (data.x_train, found)]
    assert right[1] < right[0] - 0.1


def _share_right(data: ImageData, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> float:
    """How often the network that the attacks are made on is right about some images."""
    trained = train_network(
        "tiny",
        data.x_train,
        data.y_train,
        n_classes=10,
        recipe="quick",
        seed=0,
        device="cpu",
        test=(images, labels),
    )
    return trained.accuracy


@pytest.mark.parametrize(
    ("text", "wrong"),
    [("label:0.2", 0.2), ("pair:10%", 0.1), ("image:20%", 0.2), ("image-fog:10%", 0.1), ("none", 0.0)],
)
def test_the_share_of_bad_rows_is_what_the_corruption_says(text: str, wrong: float) -> None:
    data = load_images("digits", limit=300)
    noisy = corrupt_data(data, CorruptionSpec.parse(text), seed=1)
    assert noisy.corrupt.mean() == pytest.approx(wrong)
    touched = (noisy.labels != data.y_train) | (noisy.images != data.x_train).any(axis=(1, 2, 3))
    assert not touched[~noisy.corrupt].any()
    assert touched.sum() >= 0.9 * noisy.corrupt.sum()


@pytest.mark.parametrize(
    "text", ["label", "label:0", "label:120%", "fog:20%", "label-x:20%", "human", "none:1"]
)
def test_corruptions_that_there_are_not(text: str) -> None:
    with pytest.raises(InvalidInputError, match="corruption"):
        CorruptionSpec.parse(text)


@pytest.mark.parametrize("text", ["0", "120%", "x", "0/class", "2"])
def test_amounts_that_there_are_not(text: str) -> None:
    with pytest.raises(InvalidInputError, match="ratio"):
        parse_amount(text)


def test_data_and_features_from_plain_files(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    y = np.arange(40) % 4
    x = random.integers(0, 255, (40, 8, 8, 3), dtype=np.uint8)
    np.savez(
        tmp_path / "tiny.npz", x_train=x, y_train=y, x_test=x[:8], y_test=y[:8], labels_worse=(y + 1) % 4
    )
    rows = np.eye(4)[y] + 0.01 * random.normal(size=(40, 4))
    np.savez(tmp_path / "rows.npz", train=rows.astype(np.float16), test=rows[:8])
    plan = Plan(str(tmp_path / "tiny.npz"), str(tmp_path / "rows.npz"), ("none",))
    where = Places(plan, str(tmp_path / "cache"), "cpu")
    found = MeasureCell(where)(**{**CELL, "corruption": "none", "amount": "2/class"})
    assert found["accuracy"] == 1.0
    assert found["n_picked"] == 8
    assert plan.load().name == "tiny"
    with pytest.raises(InvalidInputError, match="clean images"):
        MeasureCell(where)(**{**CELL, "corruption": "image:20%"})


def test_threads_that_want_the_same_wait_for_the_one_that_makes_it(tmp_path: Path) -> None:
    made: list[int] = []

    def make() -> dict[str, np.ndarray]:
        made.append(1)
        time.sleep(0.05)
        return {"x": np.arange(3)}

    found: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda: found.append(Cache(tmp_path).get("k", {"a": 1}, make)["x"].tolist()))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[0, 1, 2]] * 4
    assert len(made) == 1
    Cache(tmp_path).get("k", {"a": 2}, make)
    assert len(made) == 2


@pytest.mark.parametrize("amount", [{"k": "30%"}, {"k": 12, "per_class": "balanced"}])
def test_a_ranking_cut_to_an_amount_is_what_the_method_picks(amount: dict[str, object]) -> None:
    data = load_images("digits", limit=200)
    rows = Embedded(data.x_train.reshape(200, -1) / 255.0, np.zeros((1, 256)))
    labels = data.y_train % 4
    whole = rank_all(rows, labels, "el2n", seed=3, threads=1)
    cut = cut_ranking(whole, amount)["rows"]
    np.testing.assert_array_equal(cut, pick(rows, labels, amount, "el2n", 3, 1)["rows"])


def test_a_frozen_encoder_sees_every_image_once_and_again_only_those_that_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gmmatch_paper.studies.image_cells import proxies

    encoded: list[int] = []
    real = proxies.encode

    def counted(images: np.ndarray, encoder: object) -> np.ndarray:
        encoded.append(len(images))
        return real(images, encoder)

    monkeypatch.setattr(proxies, "encode", counted)
    measure = MeasureCell(places(tmp_path, encoder="pixels:8x8"))
    own = {**CELL, "encoder": "pixels:8x8"}
    for method in ("random", "easy"):
        for corruption in ("none", "label:40%", "image:20%"):
            measure(**{**own, "method": method, "corruption": corruption})
    assert encoded == [300, 100, 60]
    given = Given.of(measure.places, proxies.ProxySpec.parse("pixels:8x8"), "image:20%", "", 0)
    again = real(given.noisy.images, proxies._encoder("pixels:8x8", "cpu"))
    np.testing.assert_array_equal(given.embedded().train, again)
    data = given.images
    relabeled = replace(data, human={"other": data.y_train}, fingerprint="of other labels")
    encoded.clear()
    replace(given, images=relabeled).embedded()
    assert encoded == []  # the images are the same ones


def test_a_folder_of_images_with_splits(tmp_path: Path) -> None:
    from PIL import Image

    for split, count in (("train", 6), ("test", 2)):
        for name, level in (("cat", 40), ("dog", 200)):
            folder = tmp_path / "pets" / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (12, 12), (level, number, 0)).save(folder / f"{number}.png")
    data = load_images(str(tmp_path / "pets"))
    assert (data.x_train.shape, data.x_test.shape, data.name) == ((12, 12, 12, 3), (4, 12, 12, 3), "pets")
    assert set(data.x_train[data.y_train == 0][:, 0, 0, 0]) == {40}
    assert load_images(str(tmp_path / "pets"), image_size=8).image_size == 8


def test_a_hidden_layer_learns_the_labels_as_they_are_and_the_picks_train_on_the_encoder(
    tmp_path: Path,
) -> None:
    measure = MeasureCell(places(tmp_path, encoder="hidden:pixels"))
    cell = {**CELL, "encoder": "hidden:pixels", "downstream": "head", "network": "head"}
    found = {method: measure(**{**cell, "method": method}) for method in ("random", "easy-unit")}
    assert found["easy-unit"]["contamination"] < 0.2 < found["random"]["contamination"]
    assert found["easy-unit"]["accuracy"] > found["random"]["accuracy"] > 0.2
    [layer] = (tmp_path / "hidden").glob("*.npz")  # made once
    assert np.load(layer)["train"].shape == (300, 128)


def test_a_hidden_layer_needs_an_encoder_that_does_not_move() -> None:
    with pytest.raises(InvalidInputError, match="needs a frozen encoder"):
        ProxySpec.parse("hidden:in-domain")


def test_images_are_corrupted_as_severely_as_in_xia_unless_mild_is_chosen() -> None:
    plan = Plan("digits", "pixels", ("image:20%", "label:20%"))
    assert plan.chosen({}).corruptions == ("image-xia:20%", "label:20%")
    assert plan.chosen({"severity": "mild"}).corruptions == ("image:20%", "label:20%")
    assert plan.chosen({"corruptions": ("image:5%",)}).corruptions == ("image-xia:5%",)
    with pytest.raises(InvalidInputError, match="--severity hard: expected xia or mild"):
        plan.chosen({"severity": "hard"})
