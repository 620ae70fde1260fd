"""The examples run by themselves, and what they print and draw shows what they are about."""

from __future__ import annotations

import re
import runpy
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py"))


@dataclass(frozen=True)
class Ran:
    """What an example has printed, its names at the end, and how many pictures it has drawn."""

    printed: str
    names: dict
    pictures: int

    def number(self, before: str) -> float:
        """The first number after some words; a percentage as a share."""
        match = re.search(re.escape(before) + r"\s*([\d.]*\d)(%?)", self.printed)
        assert match is not None, f"{before!r} is not in\n{self.printed}"
        return float(match[1]) / (100 if match[2] else 1)


def picks_come_nearer_than_chance(ran: Ran) -> None:
    assert ran.number("with 64 picks: ") < 0.5 * ran.number("at random: ")
    assert ran.names["X_small"].shape == (180, 64) and ran.pictures == 1


def robust_avoids_wrong_labels(ran: Ran) -> None:
    assert ran.number("in the data: ") == pytest.approx(1 / 3, abs=1e-3)
    assert ran.number("picked by robust ") < 0.1 < 0.2 < ran.number("picked by gm-matching ")
    assert ran.number("of the wrong labels, ") > 0.8 and ran.number("of the right labels, ") < 0.1
    assert ran.number("of those detected, ") > 0.8 and ran.pictures == 1


def the_median_stays_and_robust_avoids_corrupted_rows(ran: Ran) -> None:
    assert ran.number("geometric median is off by") < 0.5 * ran.number("mean of all rows is off by")
    off = {
        name: ran.number(f"{name:12} mean of the picks off by")
        for name in ("herding", "gm-matching", "robust")
    }
    assert off["robust"] < off["gm-matching"] < off["herding"]
    assert ran.number("robust       mean of the picks off by ") < 0.5 and ran.pictures == 1


def methods_differ_in_accuracy(ran: Ran) -> None:
    results = ran.names["results"]
    assert all(len(values) == 4 for values in results.values())
    assert results["robust"][1] > results["random"][1] + 0.1
    assert results["gm-matching"][1] > results["random"][1] + 0.1
    assert f"{ran.names['everything']:.1%}" in ran.printed and ran.pictures == 1


def own_scores_decide(ran: Ran) -> None:
    ink, boldest, picks = ran.names["ink"], ran.names["boldest"], ran.names["picks"]
    assert ran.number("mean ink of the picks ") > ran.number("of all rows ")
    fours = np.flatnonzero(ran.names["y"] == 4)
    kept = np.intersect1d(fours, boldest.indices)
    assert ink[kept].min() >= ink[np.setdiff1d(fours, kept)].max()
    assert picks.provenance["method"] == "densest" and picks.k == 36 and ran.pictures == 1


def the_target_is_met_from_disk(ran: Ran) -> None:
    assert "120,000 rows of 32 numbers, 10 MB" in ran.printed and ran.pictures == 1
    assert ran.number("mean of the picks to the target: ") < 0.2 * ran.number("of as many random rows: ")


def images_are_exported(ran: Ran) -> None:
    assert "30 images exported, the first of them picked/digit-0/" in ran.printed
    assert re.search(r"the files: digit-\d/\d{3}\.png", ran.printed)
    assert ran.number("the page is one file of ") < 10 and ran.pictures == 1


def garbage_is_counted(ran: Ran) -> None:
    assert ran.number("garbage in the data: ") == 0.2
    # As the guide to texts says: nonsense lies near the center of everything else.
    assert ran.number("easy         keeps ") > 0.5 > 0.1 > ran.number("moderate     keeps ")
    assert ran.printed.count("\n- ") == 5 and ran.pictures == 1


def margins_tell_wrong_labels(ran: Ran) -> None:
    wrong = ran.number("in the data: ")
    assert wrong == pytest.approx(0.2, abs=1e-3)
    assert ran.number("most often forgotten: ") > 1.5 * wrong
    assert ran.number("of largest margin: ") < 0.05 and ran.pictures == 1


def corrupted_images_are_counted(ran: Ran) -> None:
    assert sum(ran.names["bad"].counts.values()) == round(0.3 * 1797)
    assert ran.number("in the data ") == pytest.approx(0.3, abs=1e-3)
    assert ran.number("easy ") < 0.5 * ran.number("random ") and ran.pictures == 1


def workers_do_not_matter(ran: Ran) -> None:
    assert "the same picks without an engine, with 1 and with 2 workers: True" in ran.printed
    assert ran.number("to the geometric median: ") < 0.1 and ran.pictures == 1


@dataclass(frozen=True)
class Example:
    """What must come out of an example, what it needs, and whether it takes more than a few seconds."""

    check: Callable[[Ran], None]
    needs: tuple[str, ...] = ("matplotlib",)
    slow: bool = False


EXAMPLES = {
    "compare_methods": Example(methods_differ_in_accuracy, slow=True),
    "corrupt_images": Example(corrupted_images_are_counted, slow=True),
    "image_folder": Example(images_are_exported, ("matplotlib", "PIL", "jinja2"), slow=True),
    "larger_than_memory": Example(the_target_is_met_from_disk, slow=True),
    "no_labels": Example(the_median_stays_and_robust_avoids_corrupted_rows),
    "noisy_labels": Example(robust_avoids_wrong_labels, slow=True),
    "pick_from_arrays": Example(picks_come_nearer_than_chance),
    "ray_cluster": Example(workers_do_not_matter, ("matplotlib", "ray"), slow=True),
    "texts": Example(garbage_is_counted),
    "training_loop": Example(margins_tell_wrong_labels, ("matplotlib", "torch"), slow=True),
    "your_own_score": Example(own_scores_decide),
}


def drawn_pictures() -> int:
    """How many of the open figures show more than one color."""
    import matplotlib.pyplot as plt

    count = 0
    for number in plt.get_fignums():
        canvas = plt.figure(number).canvas
        canvas.draw()
        count += np.asarray(canvas.buffer_rgba()).std() > 5
    return count


def run_example(name: str, capsys, monkeypatch, folder: Path) -> Ran:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    draws = "plt." in (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    if draws:
        import matplotlib

        monkeypatch.setenv("MPLBACKEND", "agg")
        matplotlib.use("agg", force=True)
        import matplotlib.pyplot as plt

        plt.close("all")
        monkeypatch.setattr(plt, "show", lambda: None)
    names = runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    pictures = drawn_pictures() if draws else 0
    if draws:
        plt.close("all")
    return Ran(capsys.readouterr().out, names, pictures)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if example.slow else [])
        for name, example in EXAMPLES.items()
    ],
)
def test_an_example_shows_what_it_is_about(name, capsys, monkeypatch, tmp_path, request):
    for package in EXAMPLES[name].needs:
        pytest.importorskip(package, reason=f"the example {name} needs {package}")
    if "ray" in EXAMPLES[name].needs:
        request.getfixturevalue("ray_cluster")
    EXAMPLES[name].check(run_example(name, capsys, monkeypatch, tmp_path))
    left = [path.name for path in tmp_path.iterdir()]
    assert [name for name in left if not name.startswith("torchinductor")] == []  # torch keeps a cache


def test_every_example_is_run():
    assert set(EXAMPLES) == set(SCRIPTS)
