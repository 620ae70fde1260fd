"""Mixed work for a long time under a memory limit: ``python -m tests.reliability.load --minutes 60``.

One process embeds images into stores, selects from them by several methods, updates and saves the picks, again and
again. Its resident memory, open files and threads are noted every few seconds: they must not grow. Allocations beyond
the limit, which is set once everything is loaded, fail.
"""

from __future__ import annotations

import resource
import shutil
import sys
import tempfile
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

import gmmatch as gm
from gmmatch.data import open_source
from gmmatch.encoders import load_encoder
from gmmatch.store import open_store
from gmmatch.store.run import embed
from tests.reliability.counts import parser_of, report

METHODS = ("gm-matching", "robust", "moderate", "herding", "kernel-herding", "self-supervised", "random")
WARM_UP = 2  # rounds of all methods before the limit is set and the first note is taken
# What may be gained between the second quarter of the notes and the last one: noise of the allocator alone.
MOST_MEGABYTES, MOST_FILES, MOST_THREADS = 30.0, 0, 0


def make_images(folder: Path, n: int) -> None:
    """Write small images in folders by class."""
    from PIL import Image

    random = np.random.default_rng(0)
    for number in range(n):
        place = folder / f"class-{number % 4}"
        place.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 256, size=(24, 24, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(place / f"{number}.png")


def one_round(images: Path, work: Path, number: int) -> None:
    """Embed all images anew, select by one method, and update half of the picks with the other half of the rows."""
    method = METHODS[number % len(METHODS)]
    path = work / f"{number}.emb"
    embed(open_source(images), load_encoder("pixels:8x8"), path, batch_size=64, workers=2, rows_per_shard=100)
    store = open_store(path, verify=number % 10 == 0)
    rows, labels = store.as_array(), store.labels
    picks = gm.select(rows, y=labels, k=40, method=method, ids=store.ids_of, random_state=number)
    picks.save(work / "picks.parquet")
    assert gm.Selection.load(work / "picks.parquet").order.tolist() == picks.order.tolist()
    half = len(store) // 2
    X = np.asarray(rows[:])
    first = gm.select(X[:half], y=labels[:half], k=20, method="gm-matching", updatable=True)
    updated = first.update(X[half:], labels[half:])
    assert len(set(updated.order.tolist())) == 20
    if number % 5 == 0:
        gm.select(path, y=labels, k=20, method="herding", engine="local")
        gm.duplicates(X)
    del rows, store
    shutil.rmtree(path)


def state() -> dict[str, float]:
    """Return the megabytes in memory, the open files and the threads of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "megabytes": round(pages * resource.getpagesize() / 1e6, 1),
        "files": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
    }


def limit_memory(megabytes: int) -> None:
    """Let this process allocate so much more than it has, and no more."""
    words = Path("/proc/self/status").read_text().split()
    data = int(words[words.index("VmData:") + 1]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (data + (megabytes << 20), resource.RLIM_INFINITY))


def run_load(seconds: float, megabytes: int, every: float) -> dict[str, Any]:
    """Work for so long; return how many rounds there were, and the notes."""
    with tempfile.TemporaryDirectory() as folder:
        images, work = Path(folder) / "images", Path(folder) / "work"
        make_images(images, 400)
        work.mkdir()
        for number in range(WARM_UP * len(METHODS)):
            one_round(images, work, number)
        limit_memory(megabytes)
        begun = time.monotonic()
        notes = [{"seconds": 0, **state()}]
        for number in count():
            one_round(images, work, number)
            elapsed = time.monotonic() - begun
            if elapsed >= notes[-1]["seconds"] + every or elapsed >= seconds:
                notes.append({"seconds": round(elapsed), **state()})
            if elapsed >= seconds:
                return {"rounds": number + 1, "limit_megabytes_more": megabytes, "notes": notes}
    raise AssertionError


def gained(notes: list[dict[str, Any]], name: str) -> float:
    """Return what the last quarter of the notes has more than the second, by their medians."""
    values, quarter = [note[name] for note in notes], max(1, len(notes) // 4)
    return round(float(np.median(values[-quarter:]) - np.median(values[quarter : 2 * quarter])), 1)


def main() -> None:
    """Run as a command."""
    parser = parser_of("load", __doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--memory", type=int, default=300, help="megabytes beyond what is loaded")
    parser.add_argument("--every", type=float, default=30.0, help="seconds between two notes")
    options = parser.parse_args()
    found = run_load(60.0 * options.minutes, options.memory, options.every)
    gains = {name: gained(found["notes"], name) for name in ("megabytes", "files", "threads")}
    result = {"minutes": options.minutes, "gained": gains, **found}
    report("load", result, options.json)
    flat = (
        gains["megabytes"] <= MOST_MEGABYTES
        and gains["files"] <= MOST_FILES
        and gains["threads"] <= MOST_THREADS
    )
    sys.exit(not flat)


if __name__ == "__main__":
    main()
