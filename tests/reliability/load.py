"""Mixed work for a long time under a memory limit: ``python -m tests.reliability.load --minutes 60``.

One process embeds images into stores, selects from them by several methods, saves, loads and updates the picks, again
and again. Its resident memory, open files and threads are noted every few seconds: they must not grow. Allocations
beyond the limit, which is set once everything is loaded, fail.
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
from PIL import Image

import gmmatch as gm
from gmmatch.data import open_source
from tests.reliability.counts import parser_of, report

METHODS = ("gm-matching", "robust", "moderate", "herding", "kernel-herding", "random")
LARGE = np.random.default_rng(0).standard_normal((20_000, 32))  # a selection of its rows takes 40 MB
# What may be gained between the second quarter of the notes and the last one: noise of the allocator alone.
MOST = {"megabytes": 30.0, "files": 0, "threads": 0}


def make_images(folder: Path, n: int) -> None:
    """Write small images in folders by class."""
    random = np.random.default_rng(0)
    for number in range(n):
        path = folder / f"class-{number % 4}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, size=(24, 24, 3), dtype=np.uint8)).save(path)


def one_round(images: Path, work: Path, number: int) -> None:
    """Embed all images again, select by one method, and update the picks with some of the rows as new ones."""
    path, encoder = work / f"{number}.emb", gm.load_encoder("pixels:8x8")
    gm.embed(open_source(images), encoder, path, batch_size=64, workers=2, rows_per_shard=100)
    store = gm.open_store(path, verify=number % 10 == 0)
    rows, labels = store.to_numpy(), store.labels
    picks = gm.select(store, k=40, method=METHODS[number % len(METHODS)], per_class=None, random_state=number)
    picks.save(work / "picks.parquet")
    assert gm.Selection.load(work / "picks.parquet") == picks
    first = gm.select(rows[:200], labels[:200], k=20, method="gm-matching")
    assert gm.update(first, first.apply(rows[:200]), rows[200:], labels[200:]).k == 20
    gm.duplicates(rows)
    gm.select(LARGE, y=np.arange(len(LARGE)) % 5, k=50, method="gm-matching")
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
        for number in range(2 * len(METHODS)):  # all that is loaded once
            one_round(images, work, number)
        limit_memory(megabytes)
        begun, notes = time.monotonic(), [{"seconds": 0, **state()}]
        for number in count():
            one_round(images, work, number)
            elapsed = time.monotonic() - begun
            if elapsed >= min(seconds, notes[-1]["seconds"] + every):
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
    gains = {name: gained(found["notes"], name) for name in MOST}
    report("load", {"minutes": options.minutes, "gained": gains, **found}, options.json)
    sys.exit(any(gains[name] > most for name, most in MOST.items()))


if __name__ == "__main__":
    main()
