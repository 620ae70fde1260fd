"""``gmmatch reproduce`` for the studies on images."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from gmmatch.cli import build_app
from gmmatch_paper.studies import image_study_names

pytest.importorskip("torch")


def reproduce(*arguments: str) -> Result:
    return CliRunner().invoke(build_app(), ["reproduce", *arguments])


@pytest.mark.slow
def test_every_study_runs_in_its_quick_form_and_then_repeats_nothing(tmp_path: Path) -> None:
    first = reproduce("all-images", "--jobs", "1", "--output", str(tmp_path))
    assert first.exit_code == 0, first.output
    assert "failed" not in first.stderr
    for name in image_study_names():
        record = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
        [part] = record["parts"].values()
        assert part["cells"] and not any("error" in cell for cell in part["cells"])
        if name not in ("embedding-maps", "generation"):
            assert all(0.0 <= cell["accuracy"] <= 1.0 for cell in part["cells"])
        assert (tmp_path / f"{name}.png").stat().st_size > 5_000
    again = reproduce("all-images", "--jobs", "1", "--output", str(tmp_path))
    assert "cells per minute" not in again.stderr
    assert again.stdout == first.stdout


def test_a_dry_run_counts_trainings_and_trains_nothing(tmp_path: Path) -> None:
    result = reproduce(
        "image-corruption", "--dry-run", "--seeds", "2", "--output", str(tmp_path), "--device", "cpu"
    )
    assert result.exit_code == 0, result.output
    # Three methods and two seeds; one proxy per seed, as there is one corruption.
    assert "6 cells, 0 of them measured" in result.stdout
    assert "6 × linear probe" in result.stdout
    assert "2 × tiny as proxy or target (quick)" in result.stdout
    assert "in one process" in result.stdout
    assert not list(tmp_path.iterdir())


def test_the_command_in_the_results_names_no_folder_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gmmatch_paper.studies.classification.running import typed_command

    monkeypatch.chdir(tmp_path)
    for name in ("mnist.npz", "inception-2015-12-05.pt", "encoders/mobilenet/config.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    choices = {
        "dataset": str(tmp_path / "mnist.npz"),
        "encoder": "encoders/mobilenet",
        "ratios": ("10/class", "40%"),
        "downstream": ("classifier", str(tmp_path / "inception-2015-12-05.pt")),
    }
    assert typed_command("generation", "full", choices) == (
        "gmmatch reproduce generation --full --dataset mnist.npz --encoder mobilenet --ratios 10/class,40% "
        "--downstream classifier,inception-2015-12-05.pt"
    )
    layer = {"encoder": f"hidden:{tmp_path / 'encoders' / 'mobilenet'}"}
    assert typed_command("vit", "full", layer).endswith(" --encoder hidden:mobilenet")
    hub = {"dataset": "ylecun/mnist", "encoder": "openai/clip-vit-base-patch32"}
    assert typed_command("generation", "full", hub).endswith(
        "--dataset ylecun/mnist --encoder openai/clip-vit-base-patch32"
    )


def test_options_choose_the_cells(tmp_path: Path) -> None:
    options = ["--quick", "--corruptions", "label:10%", "--ratios", "0.1,5/class", "--methods", "random,hard",
               "--seeds", "1", "--jobs", "1", "-o", str(tmp_path)]  # fmt: skip
    first = reproduce("label-noise", *options)
    assert first.exit_code == 0, first.output
    cells = json.loads((tmp_path / "label-noise.json").read_text())["parts"]["cells"]["cells"]
    assert {(cell["corruption"], cell["amount"], cell["method"]) for cell in cells} == {
        ("label:10%", amount, method) for amount in ("10%", "5/class") for method in ("random", "hard")
    }
    assert "4 cells in" in first.stderr and "cells per minute" in first.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["robust-mean", "--dataset", "x.npz"], "--dataset is an option of the studies on images"),
        (["robust-mean", "--dry-run"], "--dry-run"),
        (["embedding-maps", "--ratios", "0.2"], "--ratios is not an option of the study 'embedding-maps'"),
        (["label-nose"], "'label-noise'"),
        (["label-noise", "--recipe", "slow"], "--recipe 'slow'"),
        (["label-noise", "--downstream", "both"], "--downstream both"),
        (["label-noise", "--methods", "esy"], "'easy'"),
        (["label-noise", "--networks", "resnet19"], "resnet19"),
        (["label-noise", "--dataset", "nowhere.npz"], "nowhere.npz"),
        (["label-noise", "--corruptions", "fog"], "--corruptions fog"),
        (["label-noise", "--ratios", "0"], "--ratios 0"),
    ],
)
def test_mistakes_end_in_one_line_that_helps(arguments: list[str], said: str, tmp_path: Path) -> None:
    result = reproduce(*arguments, "-o", str(tmp_path))
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_cell_that_fails_is_told_and_the_others_are_measured(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    y = np.arange(40) % 4
    x = random.integers(0, 255, (40, 8, 8, 3), dtype=np.uint8)
    np.savez(tmp_path / "tiny.npz", x_train=x, y_train=y, x_test=x[:8], y_test=y[:8])
    result = reproduce(
        "domain-transfer", "--dataset", str(tmp_path / "tiny.npz"), "--encoder", "pixels", "--downstream", "probe",
        "--corruptions", "none,human:worse", "--ratios", "50%", "--methods", "random", "--seeds", "1",
        "--jobs", "1", "-o", str(tmp_path / "out"),
    )  # fmt: skip
    assert result.exit_code == 1, result.output
    assert "failed: human:worse" in result.stderr
    text = (tmp_path / "out" / "domain-transfer.json").read_text()
    cells = json.loads(text)["parts"]["cells"]["cells"]
    assert [("error" in cell, cell["corruption"]) for cell in cells] == [
        (False, "none"),
        (True, "human:worse"),
    ]
    assert str(tmp_path) not in text
    assert "--dataset tiny.npz" in json.loads(text)["provenance"]["command"]


def test_full_has_the_other_halves_of_the_tables_unless_data_are_chosen() -> None:
    from gmmatch_paper.studies import load_image_study
    from gmmatch_paper.studies.classification.paper import paper_blocks
    from gmmatch_paper.studies.image_cells.corruptions import in_the_paper

    names = {"CIFAR-10": "uoft-cs/cifar10", "CIFAR-100": "uoft-cs/cifar100", "Tiny-ImageNet": "zh-plus/tiny-imagenet",
             "ImageNet-1k": "ILSVRC/imagenet-1k"}  # fmt: skip
    tables = (
        "clip-transfer",
        "clean-classification",
        "image-corruption",
        "label-noise",
        "adversarial",
        "vit",
        "network-transfer",
    )
    for study in map(load_image_study, tables):
        plans = study.plans("full", {})
        for block in paper_blocks(study.paper):
            assert any(
                plan.dataset == names[block.dataset]
                and block.corruption in map(in_the_paper, plan.corruptions)
                and block.network in plan.networks
                and set(block.amounts) <= set(plan.ratios)
                and set(block.rows) <= set(plan.methods)
                and {"gm-matching-authors", "herding-authors", "easy-unit"} <= set(plan.methods)
                and plan.recipe == "paper"
                for plan in plans
            ), f"no plan of {study.name} has {block.table} on {block.dataset}, {block.corruption}"
        assert len(study.plans("full", {"dataset": "digits"})) == 1
