"""The study of generation: features that tell digits from noise, statements that can fail, cells from end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

torch = pytest.importorskip("torch")

from gmmatch.cli import build_app  # noqa: E402
from gmmatch.errors import DataFileNotFoundError, InvalidInputError  # noqa: E402
from gmmatch_paper.studies.generation.blocks import blocks_of  # noqa: E402
from gmmatch_paper.studies.generation.claims import CLAIMS, GM, SHARES  # noqa: E402
from gmmatch_paper.studies.generation.features import feature_space, inception_features, space_name  # noqa: E402
from gmmatch_paper.studies.generation.study import SPOILT, STUDY  # noqa: E402
from gmmatch_paper.studies.generation.tables import generation_tables  # noqa: E402
from gmmatch_paper.studies.image_cells.cache import Cache  # noqa: E402
from gmmatch_paper.studies.image_cells.cell import Places  # noqa: E402
from gmmatch_paper.studies.image_cells.data import load_images  # noqa: E402
from gmmatch_paper.studies.results import Cells, Results  # noqa: E402
from gmmatch_paper.studies.style import draw_pictures  # noqa: E402

METHODS = ("random", "easy", "hard", "moderate", "herding", "gm-matching", "robust")


def reproduce(*arguments: str) -> Result:
    return CliRunner().invoke(build_app(), ["reproduce", *arguments])


def made_up(distances: dict[tuple[str, str, str], float], seeds: int = 2) -> Results:
    """Return results with given distances by corruption, amount and method; seeds differ by 0.1 and more."""
    from gmmatch_paper.studies.classification.maps import packed

    picture = np.zeros((10, 8, 8, 1), dtype=np.uint8)
    picture[:, 2:6] = 255
    cells = []
    for (corruption, amount, method), distance in distances.items():
        for seed in range(seeds):
            cell = {
                "dataset": "digits", "encoder": "pixels", "features": "classifier", "recipe": "quick",
                "corruption": corruption, "amount": amount, "method": method, "seed": seed,
                "frechet": distance + 0.1 * seed, "frechet_real": 0.5, "features_fingerprint": "abc",
                "features_accuracy": 0.99, "contamination": 0.25,
            }  # fmt: skip
            if seed == 0:
                cell |= {"shown": packed(picture), "shown_shape": list(picture.shape)}
            cells.append(cell)
    return Results("generation", "full", {"generation": Cells(cells)}, {"generation": {}}, {})


def as_the_paper_says() -> dict[tuple[str, str, str], float]:
    distances: dict[tuple[str, str, str], float] = {}
    for corruption, added in (("none", 0.0), (f"{SPOILT}:20%", 5.0), (f"{SPOILT}:30%", 10.0)):
        for amount in SHARES:
            for method in METHODS:
                distances[corruption, amount, method] = 10.0 + added
            distances[corruption, amount, "hard"] = 11.0 + 2.0 * added
            distances[corruption, amount, "gm-matching"] = 8.0 + 0.1 * added
            distances[corruption, amount, "robust"] = 7.0 + 0.1 * added
    return distances


def verdicts(results: Results) -> list[str | None]:
    [block] = blocks_of(results)
    found = [claim.check(block) for claim in CLAIMS]
    return [None if each is None else each.word for each in found]


def test_numbers_as_the_paper_has_them_agree_with_every_statement() -> None:
    assert verdicts(made_up(as_the_paper_says())) == ["agrees"] * len(CLAIMS)


@pytest.mark.parametrize(
    ("cell", "distance", "fails"),
    [
        (("none", "10%", "random"), 8.5, 0),  # better, but not by a tenth
        ((f"{SPOILT}:20%", "40%", "easy"), 6.0, 1),
        ((f"{SPOILT}:30%", "10%", "herding"), 8.0, 2),
        ((f"{SPOILT}:30%", "40%", "hard"), 12.0, 3),
        ((f"{SPOILT}:30%", "40%", "gm-matching"), 11.0, 4),
        (("none", "40%", "moderate"), 30.0, 5),
        ((f"{SPOILT}:30%", "40%", "easy"), 8.0, 6),
    ],
)
def test_a_number_that_contradicts_a_statement_is_seen(
    cell: tuple[str, str, str], distance: float, fails: int
) -> None:
    assert verdicts(made_up({**as_the_paper_says(), cell: distance}))[fails] == "disagrees"


def test_statements_about_what_was_not_run_say_so() -> None:
    some = {key: value for key, value in as_the_paper_says().items() if key[0] == "none" and key[1] == "40%"}
    assert verdicts(made_up(some)) == [None] * 5 + ["agrees", None]


def test_what_is_said_of_all_is_not_confirmed_by_some() -> None:
    everything = as_the_paper_says()
    few = {key: value for key, value in everything.items() if key[1] == "40%" or key[2] in ("random", GM)}
    assert verdicts(made_up(few))[:3] == ["agrees, as far as run"] * 3
    [block] = blocks_of(made_up(few))
    found = CLAIMS[0].check(block)
    assert found is not None
    assert found.measured.startswith(
        "10% kept: GM Matching 8.05, Random 10.05 (Easy, Hard, Moderate, Herding not run); 20% kept"
    )
    assert verdicts(made_up({**few, ("none", "10%", "random"): 1.0}))[0] == "disagrees"
    del few["none", "40%", "herding"], few[f"{SPOILT}:30%", "40%", "herding"]
    words = verdicts(made_up(few))
    assert words[5] == "agrees, as far as run"
    assert words[6] == "agrees"  # it is not about herding


def test_tables_show_means_and_the_best_of_what_was_run() -> None:
    tables = generation_tables(made_up(as_the_paper_says()))
    clean = next(table for table in tables if table.caption.startswith("No corruption"))
    assert "over 2 seeds" in clean.caption and "0.50" in clean.caption
    rows = {row[0]: dict(zip(clean.columns, row, strict=True)) for row in clean.rows}
    assert rows["Robust"]["40% kept"] == "**7.05 ± 0.07**"
    assert rows["GM Matching"]["40% kept"] == "8.05 ± 0.07"
    assert "100% kept" not in rows["Random"]
    corrupted = tables[-1]
    assert corrupted.caption.startswith("Corrupted images") and corrupted.rows[0][1] == "25.0"
    only_clean = {key: value for key, value in as_the_paper_says().items() if key[0] == "none"}
    assert not any("30% of" in one.caption for one in generation_tables(made_up(only_clean)))
    once = generation_tables(made_up(only_clean, seeds=1))
    assert any("One seed;" in one.caption for one in once)
    assert not any("±" in cell for one in once for row in one.rows for cell in row)


def test_figures_are_drawn_and_small(tmp_path: Path) -> None:
    results = made_up(as_the_paper_says())
    draw_pictures(STUDY.named_pictures(), results, tmp_path)
    for name in STUDY.named_pictures():
        assert 3_000 < (tmp_path / name).stat().st_size < 200_000


@pytest.mark.slow
def test_the_classifier_tells_digits_from_noise_and_is_the_same_again(tmp_path: Path) -> None:
    data = load_images("digits", limit=400, test_limit=300)
    space = feature_space("classifier", data, Cache(tmp_path / "a"), "cpu")
    assert space.accuracy is not None and space.accuracy > 0.8
    noise = np.random.default_rng(0).integers(0, 256, (300, 16, 16, 1), dtype=np.uint8)
    real, corrupted = data.x_train[:300], data.x_train[:300].copy()
    corrupted[:150] = noise[:150]
    distances = [space.distance(images) for images in (real, corrupted, noise)]
    assert 3.0 * distances[0] < distances[1] < distances[2]
    again = feature_space("classifier", data, Cache(tmp_path / "b"), "cpu")
    assert again.fingerprint == space.fingerprint
    assert again.distance(real) == pytest.approx(distances[0], rel=1e-9)


class Means(torch.nn.Module):
    """Stands for Inception: called as that is, it returns the means of the three channels."""

    def forward(self, images: torch.Tensor, return_features: bool = False) -> torch.Tensor:
        assert images.dtype == torch.uint8 and return_features
        return images.float().mean(dim=(2, 3))


def test_inception_is_taken_from_a_file_and_named_by_what_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "inception-2015-12-05.pt"
    torch.jit.script(Means()).save(str(path))
    gray = np.arange(3, dtype=np.uint8)[:, None, None, None].repeat(4, axis=1).repeat(4, axis=2)
    found = inception_features(str(path), "cpu")(gray)
    assert found.tolist() == [[0.0] * 3, [1.0] * 3, [2.0] * 3]
    name, _, digest = space_name(str(path)).partition(":")
    assert name == "inception-2015-12-05" and len(digest) == 12
    data = load_images("digits", limit=60, test_limit=50)
    space = feature_space(str(path), data, Cache(tmp_path), "cpu")
    assert space.distance(data.x_test) == pytest.approx(0.0, abs=1e-6) and space.accuracy is None
    with pytest.raises(DataFileNotFoundError, match="inception"):
        space_name(str(tmp_path / "missing.pt"))
    (tmp_path / "text.pt").write_text("no network")
    with pytest.raises(InvalidInputError, match="TorchScript"):
        inception_features(str(tmp_path / "text.pt"), "cpu")


def test_the_full_study_has_the_paper_cells_and_everything_once() -> None:
    plan = STUDY.plan("full", {"dataset": "digits", "encoder": "pixels", "seeds": 1})
    [part] = STUDY.as_study(Places(plan), plan.load()).parts
    cells = part.cells("full")
    assert {cell["corruption"] for cell in cells} == {"none", f"{SPOILT}:20%", f"{SPOILT}:30%"}
    assert {cell["method"] for cell in cells} == {
        *METHODS,
        "gm-matching-authors",
        "herding-authors",
        "easy-unit",
    }
    assert len(cells) == 3 * (5 * 10 + 1)
    assert len(part.cells("full")) == len({json.dumps(cell) for cell in cells})


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"networks": ("resnet18",)}, "--networks"),
        ({"encoder": "in-domain"}, "in-domain"),
        ({"recipe": "slow"}, "--recipe slow"),
        ({"downstream": ("missing.pt",)}, "missing.pt"),
    ],
)
def test_what_the_study_cannot_do_is_refused(choices: dict[str, Any], words: str) -> None:
    with pytest.raises((InvalidInputError, DataFileNotFoundError), match=words):
        STUDY.plan("quick", choices)


@pytest.mark.slow
def test_cells_from_end_to_end(tmp_path: Path) -> None:
    options = ["--recipe", "quick:5", "--limit", "80", "--test-limit", "60", "--device", "cpu", "--jobs", "1",
               "-o", str(tmp_path)]  # fmt: skip
    first = reproduce("generation", *options)
    assert first.exit_code == 0, first.output
    record = json.loads((tmp_path / "generation.json").read_text(encoding="utf-8"))
    cells = record["parts"]["generation"]["cells"]
    assert len(cells) == 4
    for cell in cells:
        assert cell["n_picked"] == 32 and 0.0 < cell["frechet_real"] < cell["frechet"]
        assert cell["contamination"] == 0.0 or cell["corruption"] != "none"
    assert len({cell["features_fingerprint"] for cell in cells}) == 1
    assert any(cell["contamination"] > 0.1 for cell in cells)
    again = reproduce("generation", *options)
    assert "cells per minute" not in again.stderr and again.stdout == first.stdout
