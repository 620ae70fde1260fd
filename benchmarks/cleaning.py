"""What a person gains by `clean`, by a review of 150 rows, and by `clean` with the decisions.

``python -m benchmarks.cleaning TEST.parquet`` takes small labeled images (columns ``image`` and ``label``, as Hugging
Face lays CIFAR-10 out), enlarges 2,900 of them to photographs in folders, and makes a quarter of their labels wrong,
half of these into the class that looks most like the right one. It adds 50 copies, half of them shrunk and with
another label, and 50 files of noise, darkness or broken bytes. Then it plays the person: the commands as they are
typed, and keys pressed in Chromium by somebody who knows the right answers.

At each step: wrong labels, copies and files that belong nowhere among those that stay, the right ones that are gone,
the accuracy of a linear probe on 2,000 other images, and the processor time.
"""

from __future__ import annotations

import argparse
import io
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from PIL import Image

import gmmatch as gm
from benchmarks import machine
from gmmatch_paper.training.probe import fit_linear_probe

COMMAND = "python -m benchmarks.cleaning cifar10/test.parquet --json benchmarks/results/cleaning.json"
SIDE, PHOTOS, COPIES, JUNK, TEST, ANSWERS = 128, 2_900, 50, 50, 2_000, 150
WRONG = 0.25
# The class that looks most like each of CIFAR-10's.
NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
LOOKS_LIKE = np.array([8, 9, 0, 5, 7, 3, 2, 4, 0, 1])


@dataclass
class Address:
    """An address where ``Browser.open`` expects a file."""

    uri: str

    def resolve(self) -> Address:
        return self

    def as_uri(self) -> str:
        return self.uri


def make_photos(images: list[Image.Image], labels: Any, folder: Path, seed: int) -> dict[str, str]:
    """Write the folder; return the right label by file name of all that belongs somewhere, copies included."""
    random = np.random.default_rng(seed)
    wrong = random.permutation(PHOTOS)[: round(WRONG * PHOTOS)]
    given = labels[:PHOTOS].copy()
    given[wrong] = (given[wrong] + random.integers(1, 10, len(wrong))) % 10
    alike = wrong[: len(wrong) // 2]
    given[alike] = LOOKS_LIKE[labels[alike]]
    truth = {}
    for number in range(PHOTOS):
        _save(images[number], folder / NAMES[given[number]] / f"{number:04}.jpg")
        truth[f"{number:04}.jpg"] = NAMES[labels[number]]
    right = np.setdiff1d(np.arange(PHOTOS), wrong)
    for position, number in enumerate(random.permutation(right)[:COPIES].tolist()):
        name = f"{number:04} copy.jpg"
        if position % 2:
            shutil.copy(
                folder / NAMES[given[number]] / f"{number:04}.jpg", folder / NAMES[given[number]] / name
            )
        else:
            small = images[number].resize((SIDE - 16, SIDE - 16))
            small.save(folder / NAMES[(given[number] + 1) % 10] / name, quality=80)
        truth[name] = NAMES[labels[number]]
    for number in range(JUNK):
        path = folder / NAMES[number % 10] / f"junk {number}.jpg"
        if number < 20:
            _save(Image.fromarray(random.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)), path)
        elif number < 30:
            Image.fromarray((np.asarray(images[PHOTOS + number]) // 12).astype(np.uint8)).save(path)
        else:
            path.write_bytes((folder / NAMES[given[number]] / f"{number:04}.jpg").read_bytes()[:400])
    return truth


def _save(image: Image.Image, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, quality=92)


def load_images(path: Path) -> tuple[list[Image.Image], Any]:
    """Return the images, enlarged, and their labels."""
    table = pq.read_table(path).slice(0, PHOTOS + JUNK + TEST)
    images = [
        Image.open(io.BytesIO(cell["bytes"])).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        for cell in table["image"].to_pylist()
    ]
    return images, table["label"].to_numpy()


def run(*command: str | Path) -> float:
    """Run a command of gmmatch; return its processor time in seconds."""
    before = _children()
    subprocess.run([sys.executable, "-m", "gmmatch", *map(str, command)], check=True)
    print(f"{_children() - before:.1f} s of processor time", flush=True)
    return _children() - before


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def review(store: Path, output: Path, truth: dict[str, str]) -> float:
    """Answer 150 questions in the browser; return the processor time of server and browser, in seconds."""
    from tests.report.browser import Browser, find_browser
    from tests.report.person import answer_like_a_person

    before = _children()
    command = [sys.executable, "-u", "-m", "gmmatch", "review", str(store), "-o", str(output), "--no-open"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        url = next(line.split()[2] for line in server.stderr if line.startswith("Decide at "))
        browser = Browser(str(find_browser()))
        try:
            browser.open(Address(url))  # type: ignore[arg-type]
            for _ in range(ANSWERS):
                answer_like_a_person(browser, truth)
            browser.click("#done")
            server.wait()
        finally:
            browser.close()
    return _children() - before


class Judge:
    """Compares folders with the truth; embeddings are those of the first run."""

    def __init__(self, truth: dict[str, str], store: Path, test: Path) -> None:
        self.truth, opened, tested = truth, gm.open_store(store), gm.open_store(test)
        self.vectors = {
            str(name).rpartition("/")[2]: vector
            for name, vector in zip(opened.ids, _rows(opened), strict=True)
        }
        self.test_rows, self.test_labels = _rows(tested), tested.labels

    def of_files(self, labels: dict[str, str]) -> dict[str, Any]:
        """Return the figures of files with these labels, by their name."""
        photos = [name for name in labels if name in self.truth]
        wrong = [name for name in photos if labels[name] != self.truth[name]]
        rows = [name for name in labels if name in self.vectors]
        probe = fit_linear_probe(
            np.stack([self.vectors[name] for name in rows]), np.array([labels[name] for name in rows])
        )
        numbers = {name[:4] for name in photos}
        return {
            "files": len(labels),
            "right_photos": len(numbers - {name[:4] for name in wrong}),
            "wrong_labels": len(wrong),
            "copies": len(photos) - len(numbers),
            "junk": len(labels) - len(photos),
            "probe": float(probe.accuracy(self.test_rows, self.test_labels)),
        }

    def of_folder(self, folder: Path) -> dict[str, Any]:
        """Return the figures of a folder with a sub-folder for each class."""
        return self.of_files({path.name: path.parent.name for path in folder.rglob("*.jpg")})


def _rows(store: gm.Store) -> Any:
    with gm.open_rows(store) as rows:
        return rows.take(np.arange(len(store)))


def play(path: Path, work: Path, seed: int) -> dict[str, Any]:
    """Play the person once; return what there is to say of each step."""
    images, labels = load_images(path)
    truth = make_photos(images, labels, work / "photos", seed)
    for number in range(PHOTOS + JUNK, len(images)):
        _save(images[number], work / "test" / NAMES[labels[number]] / f"{number:04}.jpg")
    run("embed", work / "test", "-o", work / "test.emb")
    store, decisions = work / "clean.emb", work / "decisions.csv"
    seconds = {"clean": run("clean", work / "photos", "-o", work / "clean")}
    seconds["review"] = review(store, decisions, truth)
    variants = {
        "clean --relabel": ["--relabel"],
        "clean --decisions": ["--decisions", decisions],
        "clean --decisions --relabel": ["--decisions", decisions, "--relabel"],
    }
    folders = {"as they are": work / "photos", "clean": work / "clean"}
    for name, options in variants.items():
        folders[name] = work / name.replace(" ", "")
        seconds[name] = run("clean", store, "-o", folders[name], *options)
    judge = Judge(truth, store, work / "test.emb")
    steps = {name: judge.of_folder(folder) for name, folder in folders.items()}
    steps["every label right"] = judge.of_files(
        {name: label for name, label in truth.items() if "copy" not in name}
    )
    for name, used in seconds.items():
        steps.setdefault(name, {})["processor_seconds"] = round(used, 1)
    steps["review"]["answers"] = gm.read_decisions(decisions).counts
    return {"seed": seed, "steps": steps}


def main(arguments: Sequence[str] | None = None) -> None:
    """Play, print and write the file that was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cleaning", description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--work", type=Path, help="a new folder that stays; a temporary one by default")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", gm.errors.GMMatchWarning)
    surroundings = machine.describe()
    with tempfile.TemporaryDirectory() as folder:
        found = play(options.data, options.work or Path(folder), options.seed)
    content = {"command": COMMAND, "machine": surroundings, **found}
    print(json.dumps(content, indent=1))
    if options.json is not None:
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
