"""Are the default encoders good and fast enough for a machine without a network?

``python -m benchmarks.default_encoders CIFAR10.npz`` (arrays ``x_train``, ``y_train``, ``x_test`` and ``y_test``)
trains a linear probe on what EfficientNet-Lite2 makes of 10,000 images, enlarged to 160 pixels, which shows that the
network and its weights fit. It times ``gmmatch embed`` on 500 photographs and 2,000 texts; where others use the
machine, processor time (of two cores) says more. At last it decodes large JPEG files whole, and at the size needed.
"""

from __future__ import annotations

import argparse
import inspect
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine
from gmmatch.data import Batch, load_image
from gmmatch.encoders import EfficientNetEncoder, encode_batches

COMMAND = "python -m benchmarks.default_encoders CIFAR10.npz --json benchmarks/results/default-encoders.json"
LEAST_ACCURACY, MOST_SECONDS = 0.85, 60.0
N_TRAIN, N_TEST, IMAGE_SIZE = 10_000, 2_000, 160
PHOTOGRAPH = (4000, 3000)
N_PHOTOGRAPHS, N_TEXTS, LONGEST_TEXT = 500, 2_000, 500


def probe(path: Path) -> dict[str, Any]:
    """Return the accuracy of a linear probe."""
    from PIL import Image

    vectors, labels = {}, {}
    with np.load(path) as data:
        for split, count in (("train", N_TRAIN), ("test", N_TEST)):
            vectors[split] = encode([Image.fromarray(image) for image in data[f"x_{split}"][:count]])
            labels[split] = data[f"y_{split}"][:count]
    return {
        "train": N_TRAIN,
        "test": N_TEST,
        "image_size": IMAGE_SIZE,
        "accuracy": accuracy(vectors, labels),
        "bar": LEAST_ACCURACY,
    }


def scaled_jpegs(path: Path) -> dict[str, Any]:
    """Return what decoding large JPEG files at a fraction of their size gains and costs: seconds, and accuracy."""
    from PIL import Image

    def enlarged(pixels: Any, *size: int) -> bytes:
        file = io.BytesIO()
        Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
        return file.getvalue()

    edge = 4 * IMAGE_SIZE
    labels: dict[str, Any] = {}
    vectors: dict[str, dict[str, Any]] = {"whole": {}, "scaled": {}}
    with np.load(path) as data:
        for split, count in (("train", N_TRAIN // 10), ("test", N_TEST // 4)):
            files = [enlarged(image, edge, edge) for image in data[f"x_{split}"][:count]]
            vectors["scaled"][split] = encode(files)
            parts = (files[first : first + 32] for first in range(0, count, 32))
            vectors["whole"][split] = np.concatenate([encode([*map(load_image, part)]) for part in parts])
            labels[split] = data[f"y_{split}"][:count]
        photograph = enlarged(data["x_train"][0], *PHOTOGRAPH)
    seconds = {}
    for side, wanted in (("whole", None), ("scaled", IMAGE_SIZE)):
        began = time.process_time()
        for _ in range(10):
            load_image(photograph, wanted)
        seconds[side] = (time.process_time() - began) / 10
    return {
        "train": N_TRAIN // 10,
        "test": N_TEST // 4,
        "edge": edge,
        "accuracy": {side: accuracy(found, labels) for side, found in vectors.items()},
        "photograph": PHOTOGRAPH,
        "processor_seconds": seconds,
    }


def encode(images: list[Any]) -> Any:
    """Return the vectors of images."""
    encoder = _encoder()
    batches = (
        Batch(rows, list(range(first, first + len(rows))), None, first)
        for first in range(0, len(images), encoder.batch_size)
        if (rows := images[first : first + encoder.batch_size])
    )
    return np.concatenate([done.vectors for done in encode_batches(batches, encoder)])


@cache
def _encoder() -> EfficientNetEncoder:
    return EfficientNetEncoder(image_size=IMAGE_SIZE, device="cpu")


def accuracy(vectors: dict[str, Any], labels: dict[str, Any]) -> float:
    """Return the share of test rows that a linear probe of the training rows is right about."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.001, max_iter=200))
    model.fit(vectors["train"], labels["train"])
    return float(model.score(vectors["test"], labels["test"]))


def write_photographs(folder: Path, count: int) -> None:
    """Write JPEG files of 640 × 427 pixels: the two photographs of scikit-learn, turned and cut."""
    from PIL import Image
    from sklearn.datasets import load_sample_image

    random = np.random.default_rng(0)
    photographs = [(name, Image.fromarray(load_sample_image(f"{name}.jpg"))) for name in ("china", "flower")]
    for number in range(count):
        name, photograph = photographs[number % 2]
        left, top = random.integers(0, 200), random.integers(0, 120)
        part = photograph.rotate(float(random.uniform(-10, 10))).crop((left, top, left + 400, top + 280))
        (folder / name).mkdir(parents=True, exist_ok=True)
        part.resize((640, 448)).save(folder / name / f"{number:04d}.jpg", quality=90)


def write_texts(path: Path, count: int) -> None:
    """Write JSON lines: how docstrings begin, of NumPy, SciPy and scikit-learn, whose package is the label."""
    texts = list(islice(docstrings(), count))
    path.write_text("".join(json.dumps(record) + "\n" for record in texts), encoding="utf-8")
    if len(texts) < count:
        raise RuntimeError(f"there are only {len(texts)} docstrings")


def docstrings() -> Iterator[dict[str, str]]:
    """Yield texts and their packages, without copies."""
    from importlib import import_module

    modules = [
        "numpy",
        "numpy.linalg",
        "numpy.ma",
        "scipy.stats",
        "scipy.special",
        "scipy.linalg",
        "scipy.signal",
    ]
    modules += [f"sklearn.{name}" for name in ("linear_model", "cluster", "ensemble", "metrics", "utils")]
    known = set()
    for name in modules:
        for thing in vars(import_module(name)).values():
            for member in (thing, *(vars(thing).values() if inspect.isclass(thing) else ())):
                text = getattr(member, "__doc__", None)
                text = " ".join(text.split())[:LONGEST_TEXT] if isinstance(text, str) else ""
                if len(text) > 40 and text not in known:
                    known.add(text)
                    yield {"text": text, "label": name.partition(".")[0]}


def time_embed(*arguments: str) -> dict[str, Any]:
    """Return what ``gmmatch embed`` says, and how long it took: the work, and with the start."""
    command = [sys.executable, "-m", "gmmatch", "embed", *arguments, "--json"]
    began, used = time.perf_counter(), _children_seconds()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, used = time.perf_counter() - began, _children_seconds() - used
    report = json.loads(done.stdout)
    return {
        "rows": report["n_rows"],
        "features": report["n_features"],
        "seconds": report["seconds"],
        "seconds_with_start": seconds,
        "processor_seconds_with_start": used,
    }


def _children_seconds() -> float:
    used = os.times()
    return used.children_user + used.children_system


def measure(data: Path) -> dict[str, Any]:
    """Return all numbers."""
    with tempfile.TemporaryDirectory() as folder:
        photographs, texts = Path(folder, "photographs"), Path(folder, "texts.jsonl")
        write_photographs(photographs, N_PHOTOGRAPHS)
        write_texts(texts, N_TEXTS)
        embed = {
            "efficientnet-lite2": time_embed(str(photographs), "-o", f"{folder}/photographs.emb"),
            "minilm": time_embed(str(texts), "-o", f"{folder}/texts.emb"),
            "words": time_embed(str(texts), "-o", f"{folder}/words.emb", "--encoder", "words"),
        }
    return {
        "command": COMMAND,
        "machine": machine.describe(),
        "longest_text": LONGEST_TEXT,
        "embed": embed,
        "embed_bar_seconds": MOST_SECONDS,
        "probe": probe(data),
        "scaled_jpegs": scaled_jpegs(data),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write the file that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="CIFAR-10 as .npz")
    parser.add_argument("--json", type=Path, help="file to write")
    options = parser.parse_args(arguments)
    text = json.dumps(measure(options.data), indent=1)
    print(text)
    if options.json is not None:
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
