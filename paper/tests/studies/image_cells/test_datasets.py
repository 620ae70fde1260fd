"""Data sets in the layouts that the hub has, and what is trained and shown for them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from typer.testing import CliRunner

from gmmatch.cli import build_app
from gmmatch.errors import InvalidInputError
from gmmatch_paper.studies import load_image_study
from gmmatch_paper.studies.classification.image_study import cells_part
from gmmatch_paper.studies.classification.tables import study_tables
from gmmatch_paper.studies.image_cells import proxies
from gmmatch_paper.studies.image_cells.cell import MeasureCell, Places
from gmmatch_paper.studies.image_cells.data import load_images
from gmmatch_paper.studies.results import Cells, Results


def write_split(folder: Path, split: str, mode: str, image: str, labels: dict[str, list[int]]) -> None:
    """Write a split as the hub lays such sets out: encoded images and whole numbers."""
    random = np.random.default_rng(0)
    encoded = []
    for _ in next(iter(labels.values())):
        buffer = io.BytesIO()
        shape = (8, 8) if mode == "L" else (8, 8, 3)
        Image.fromarray(random.integers(0, 255, shape, dtype=np.uint8)).save(buffer, format="PNG")
        encoded.append({"bytes": buffer.getvalue(), "path": None})
    columns = {image: pa.array(encoded, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))}
    folder.mkdir(exist_ok=True)
    pq.write_table(
        pa.table(columns | {name: pa.array(values) for name, values in labels.items()}),
        folder / f"{split}-00000-of-00001.parquet",
    )


@pytest.fixture
def cifar100(tmp_path: Path) -> str:
    fine = [number % 4 for number in range(24)]
    for split in ("train", "test"):
        labels = {"fine_label": fine, "coarse_label": [number // 2 for number in fine]}
        write_split(tmp_path / "cifar100", split, "RGB", "img", labels)
    return str(tmp_path / "cifar100")


def test_cifar100_of_the_hub_has_its_hundred_classes_and_says_so(cifar100: str, tmp_path: Path) -> None:
    data = load_images(cifar100)
    assert data.n_classes == 4 and "'fine_label'" in data.how
    assert load_images(cifar100, label_column="coarse_label").n_classes == 2
    result = CliRunner().invoke(
        build_app(),
        ["reproduce", "clean-classification", "--dataset", cifar100, "--encoder", "pixels", "--downstream", "probe",
         "--ratios", "50%", "--methods", "random", "--seeds", "1", "--jobs", "1", "-o", str(tmp_path / "out")],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "labels in column 'fine_label'" in " ".join(result.stderr.split())


def test_a_label_column_that_there_is_not(cifar100: str) -> None:
    with pytest.raises(InvalidInputError, match="nothing"):
        load_images(cifar100, label_column="nothing")
    with pytest.raises(InvalidInputError, match="--label-column fine_label: --dataset digits has no columns"):
        load_images("digits", label_column="fine_label")


def test_gray_images_stay_gray(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write_split(tmp_path / "mnist", split, "L", "image", {"label": [0, 1] * 4})
    data = load_images(str(tmp_path / "mnist"))
    assert data.x_train.shape == (8, 8, 8, 1) and data.x_test.shape == (8, 8, 8, 1)


def test_a_limit_reads_no_more(cifar100: str) -> None:
    data = load_images(cifar100, limit=5, test_limit=3)
    assert (len(data.x_train), len(data.x_test)) == (5, 3)


def test_the_proxy_of_a_vit_is_trained_by_a_recipe_that_suits_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = load_image_study("vit")
    plan = study.plan(
        "full",
        {
            "dataset": "digits",
            "corruptions": ("none",),
            "methods": ("easy",),
            "seeds": 1,
            "limit": 60,
            "recipe": "fast",
        },
    )
    places = Places(plan, str(tmp_path), "cpu")
    [chosen] = cells_part(places, plan.load()).cells("full")
    assert (chosen["encoder"], chosen["recipe"]) == ("in-domain:resnet50:fast", "fast-adamw")
    trained = []

    def recorded(network: str, *arguments: Any, recipe: str, **options: Any) -> Any:
        trained.append((network, recipe))
        raise InterruptedError

    monkeypatch.setattr(proxies, "train_network", recorded)
    with pytest.raises(InterruptedError):
        MeasureCell(places)(**chosen)
    assert trained == [("resnet50", "fast")]


def test_imagenet_is_shown_in_top_5_as_the_paper_prints_it() -> None:
    one = {
        "dataset": "imagenet-1k",
        "encoder": "in-domain:resnet50",
        "downstream": "scratch",
        "network": "resnet50",
        "recipe": "paper-imagenet",
        "corruption": "none",
        "amount": "60%",
        "method": "random",
        "seed": 0,
        "accuracy": 0.70,
        "top_5": 0.89,
        "contamination": 0.0,
    }
    results = Results("clean-classification", "full", {"cells": Cells([one])}, {"cells": {}}, {})
    table = study_tables(results, ("tab:imagenet_accuracy",))[0]
    [row] = [dict(zip(table.columns, row, strict=True)) for row in table.rows if row[0] == "Random"]
    assert "89.0" in row["60% kept"] and row["paper, 60% kept"] == "87.9 ± 0.4" and "top-5" in table.caption


def test_tiny_imagenet_is_read_from_the_folder_that_is_published(tmp_path: Path) -> None:
    root = tmp_path / "tiny-imagenet-200"
    random = np.random.default_rng(0)

    def save(path: Path) -> np.ndarray:
        path.parent.mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray(random.integers(0, 255, (64, 64, 3), dtype=np.uint8))
        picture.save(path)
        with Image.open(path) as written:
            return np.asarray(written.convert("RGB"))

    for name in ("n02", "n01"):
        for number in range(3):
            save(root / "train" / name / "images" / f"{name}_{number}.JPEG")
    second = save(root / "val" / "images" / "val_1.JPEG")
    first = save(root / "val" / "images" / "val_0.JPEG")
    lines = ["val_0.JPEG\tn02\t0\t0\t9\t9", "val_1.JPEG\tn01\t0\t0\t9\t9"]
    (root / "val" / "val_annotations.txt").write_text("\n".join(lines) + "\n")
    data = load_images(str(tmp_path), limit=4)
    assert data.x_train.shape == (4, 64, 64, 3)
    assert data.y_train.tolist() == [0, 1, 0, 1]  # of every class in turn
    assert data.y_test.tolist() == [0, 1]
    np.testing.assert_array_equal(data.x_test, [second, first])
    assert data.image_size == 64
