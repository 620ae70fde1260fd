"""Errors that people confirmed in famous test sets, among the 100 rows that each tool suspects most.

``python -m benchmarks.label_errors CLONE mnist.npz cifar10.npz --json FILE`` reads a clone of
https://github.com/cleanlab/label-errors: labels of the test sets, probabilities of its authors' networks, and what
five people (of a few images of MNIST ten) said of the rows that cleanlab had suspected by these. A file holds a test
set in its original order: labels ``y_test``, and embeddings ``rows`` with a text ``encoder``, or images ``x_test``,
which ``--encoder`` embeds.

An error is confirmed if fewer than three people chose the given label, as its authors count. Of rows that nobody was
shown, nothing is known: they are not judged.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gmmatch as gm
from benchmarks import machine
from benchmarks.audit import QUALITIES, SEEDS, peers
from benchmarks.machine import installed_version
from gmmatch._threads import one_blas_thread
from gmmatch.data import Batch
from gmmatch.encoders import encode_batches
from gmmatch.errors import InvalidInputError

COMMAND = "python -m benchmarks.label_errors CLONE NAME.npz --image-size N --json label-errors.json"
FIRST = 100

Labels, Scores = NDArray[np.int64], NDArray[np.float64]


def read_votes(path: Path, count: int) -> tuple[Labels, Labels]:
    """Return for each row how many people were asked, and how many of them chose the given label."""
    asked, agreed = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    for row in json.loads(path.read_text(encoding="utf-8")):
        asked[row["id"]] = sum(row["mturk"].values())
        agreed[row["id"]] = row["mturk"]["given"]
    return asked, agreed


def read_rows(path: Path, labels: Labels, encoder: str, image_size: int | None) -> tuple[Any, str]:
    """Return the embeddings of a test set, and what made them; its labels show whether its order is the original."""
    with np.load(path) as data:
        if not np.array_equal(data["y_test"], labels):
            raise InvalidInputError(
                f"{path}: its labels are not those of the clone, so its order is another."
            )
        if "rows" in data:
            return data["rows"].astype(np.float32), str(data["encoder"])
        images = data["x_test"]
    from PIL import Image

    size = {} if image_size is None else {"image_size": image_size}
    model: Any = gm.load_encoder(encoder, kind="image", **size)
    pictures = [Image.fromarray(image.squeeze()).convert("RGB") for image in images]
    parts = range(0, len(pictures), model.batch_size)
    batches = (
        Batch(
            part := pictures[start : start + model.batch_size],
            list(range(start, start + len(part))),
            None,
            start,
        )
        for start in parts
    )
    rows = np.concatenate([done.vectors for done in encode_batches(batches, model)]).astype(np.float32)
    return rows, f"{Path(encoder).name}, {image_size} pixels" if image_size else Path(encoder).name


def by_probabilities(p: Scores, labels: Labels) -> Iterator[tuple[str, str, Scores, float]]:
    """Yield how much each tool believes each label by probabilities that are given, and its processor seconds."""
    from cleanlab.rank import get_label_quality_scores

    yield "probability", "of the label", p[np.arange(len(labels)), labels], 0.0
    for quality in QUALITIES:
        start = time.process_time()
        belief = get_label_quality_scores(labels, p, method=quality)
        yield "cleanlab", quality, belief, time.process_time() - start


def measure(
    rows: Any, labels: Labels, votes: tuple[Labels, Labels], p: Scores | None
) -> list[dict[str, Any]]:
    """Return what each tool finds, in each of its settings; gmmatch with its defaults, the mean of three seeds."""
    asked, agreed = votes
    confirmed = (asked > 0) & (agreed < 3)

    def count(belief: Scores, seconds: float) -> dict[str, float]:
        first = np.argsort(belief, kind="stable")[:FIRST]
        return {
            "judged": int((asked[first] > 0).sum()),
            "confirmed": int(confirmed[first].sum()),
            "cpu_seconds": round(seconds, 2),
        }

    runs = []
    for seed in range(SEEDS):
        start = time.process_time()
        result = gm.screen(rows, labels, pred_probs=p, random_state=seed)
        runs.append(count(-result.suspicion, time.process_time() - start))
    found = [
        {
            "tool": "gmmatch",
            "setting": "defaults",
            **{key: round(fmean(run[key] for run in runs), 2) for key in runs[0]},
        }
    ]
    tools = peers(rows, labels) if p is None else by_probabilities(p, labels)
    return found + [
        {"tool": tool, "setting": setting, **count(belief, seconds)}
        for tool, setting, belief, seconds in tools
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the test sets one by one, and keep the JSON file up to date."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.label_errors", description=__doc__)
    parser.add_argument("clone", type=Path, help="a clone of https://github.com/cleanlab/label-errors")
    parser.add_argument(
        "files", nargs="+", type=Path, help="NAME.npz, where NAME is mnist, cifar10 or cifar100"
    )
    parser.add_argument("--encoder", default="efficientnet-lite2", help="a name, or a model's folder")
    parser.add_argument("--image-size", type=int, default=160, help="pixels that the encoder sees")
    parser.add_argument("--json", type=Path, required=True, help="file to write, or to add to")
    options = parser.parse_args(arguments)
    sets: dict[tuple[str, str], Any] = {}
    if options.json.exists():
        known = json.loads(options.json.read_text(encoding="utf-8"))["sets"]
        sets = {(one["name"], one["evidence"]): one for one in known}
    rng = np.random.default_rng(0)
    gm.screen(rng.normal(size=(200, 8)), rng.integers(0, 2, 200))  # compiles
    for path in options.files:
        name = path.stem
        labels = np.load(options.clone / f"original_test_labels/{name}_test_set_original_labels.npy").astype(
            np.int64
        )
        votes = read_votes(options.clone / f"mturk/{name}_mturk.json", len(labels))
        rows, encoder = read_rows(path, labels, options.encoder, options.image_size)
        evidence: dict[str, Any] = {encoder: (rows, None)}
        published = options.clone / f"cross_validated_predicted_probabilities/{name}_test_set_pyx.npy"
        if published.exists():
            evidence["published probabilities"] = (None, np.load(published).astype(np.float64))
        totals = {
            "rows": len(labels),
            "judged": int((votes[0] > 0).sum()),
            "confirmed": int(((votes[0] > 0) & (votes[1] < 3)).sum()),
        }
        for words, (some, p) in evidence.items():
            with warnings.catch_warnings(), one_blas_thread():
                warnings.simplefilter("ignore")
                tools = measure(some, labels, votes, p)
            print(name, words, json.dumps(tools[0]), flush=True)
            sets[name, words] = {"name": name, "evidence": words, **totals, "tools": tools}
        content = {
            "command": COMMAND,
            "machine": machine.describe(),
            "cleanlab": installed_version("cleanlab"),
        }
        content["gmmatch"] = gm.__version__
        content["sets"] = list(sets.values())
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
