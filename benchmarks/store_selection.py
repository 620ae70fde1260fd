"""Selecting from a store that is larger than the memory allowed: how much is taken, and is the disk the limit?

Run by hand, because it writes gigabytes::

    python -m benchmarks.store_selection --gigabytes 6 --memory 1.5GB

It makes a store of float16 rows in a temporary folder, reads its files once from front to back without the
page cache, runs ``gmmatch select -k 1%`` in a process of its own, and deletes the store. Printed as JSON: the peak
of anonymous memory (what the process cannot do without, unlike the page cache behind a memory map), the bytes
that were read through the store, and their throughput in relation to the plain read.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np


def make_store(folder: Path, gigabytes: float, n_features: int, seed: int = 0) -> int:
    """Write a store of Gaussian rows, of which 30% form a cluster elsewhere; return its number of rows."""
    from gmmatch.store import StoreWriter

    n_rows = int(gigabytes * 1e9 / (2 * n_features))
    random = np.random.default_rng(seed)
    with StoreWriter(folder, encoder="made", encoder_fingerprint="1", dtype="float16") as writer:
        for start in range(0, n_rows, 1 << 15):
            count = min(1 << 15, n_rows - start)
            rows = random.standard_normal((count, n_features), dtype=np.float32)
            rows[random.random(count) < 0.3] += 2.0
            writer.append(rows.astype(np.float16), ids=np.arange(start, start + count))
        writer.finish()
    return n_rows


def forget_cache(folder: Path) -> None:
    """Ask the system to drop the files of a folder from the page cache."""
    for path in folder.iterdir():
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def sequential_read(folder: Path) -> tuple[int, float]:
    """Return the bytes of all shards of a store, and the seconds that reading them in order takes."""
    buffer, total, began = bytearray(1 << 22), 0, time.perf_counter()
    for path in sorted(folder.glob("*.arrow")):
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                total += count
    return total, time.perf_counter() - began


class Observer:
    """Samples this process's anonymous memory, and counts the bytes that are read through stores."""

    def __init__(self) -> None:
        from gmmatch.rows.files import FileRows

        self.peak, self.bytes_read = 0, 0
        self._ended, self._guard = threading.Event(), threading.Lock()
        plain = FileRows.block

        def counted(rows: Any, first: int, stop: int) -> Any:
            with self._guard:
                self.bytes_read += (stop - first) * rows.n_features * 2  # stores hold float16 here
            return plain(rows, first, stop)

        FileRows.block = counted  # type: ignore[method-assign]
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._ended.wait(0.02):
            self.peak = max(self.peak, anonymous_bytes())

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()


def anonymous_bytes(process: int | str = "self") -> int:
    """Return a process's resident memory that no file stands behind."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("this system does not tell anonymous memory apart")


def select_and_observe(arguments: list[str]) -> dict[str, Any]:
    """Run ``gmmatch select`` in this process and return what it took."""
    from gmmatch.cli import build_app

    observer, began = Observer(), time.perf_counter()
    build_app()(["select", *arguments], standalone_mode=False)
    seconds = time.perf_counter() - began
    observer.stop()
    return {"peak_anonymous_bytes": observer.peak, "bytes_read": observer.bytes_read, "seconds": seconds}


def in_a_process(*arguments: str) -> dict[str, Any]:
    """Run :func:`select_and_observe` in a fresh interpreter."""
    command = [sys.executable, "-m", "benchmarks.store_selection", "--observe", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Run the benchmark."""
    if "--observe" in sys.argv:
        print(json.dumps(select_and_observe(sys.argv[sys.argv.index("--observe") + 1 :])))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=6.0)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--memory", default="1.5GB")
    parser.add_argument("--folder", help="where the temporary folder goes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        store = Path(folder) / "rows.emb"
        n_rows = make_store(store, options.gigabytes, options.features)
        forget_cache(store)
        size, cold = sequential_read(store)
        _, warm = sequential_read(store)
        forget_cache(store)
        picks = str(Path(folder) / "picks.parquet")
        found = in_a_process(
            str(store), "-k", "1%", "--method", "gm-matching", "-o", picks, "--memory", options.memory
        )
        from gmmatch import Selection

        selection = Selection.load(picks)
    throughput = found["bytes_read"] / found["seconds"]
    print(
        json.dumps(
            {
                "rows": n_rows,
                "features": options.features,
                "store_bytes": size,
                "memory": options.memory,
                **found,
                "picked": selection.k,
                "residual": selection.residual[None],
                "median": selection.provenance["targets"],
                "times_the_store_was_read": found["bytes_read"] / size,
                "read_GB_per_s": throughput / 1e9,
                "sequential_GB_per_s_without_cache": size / cold / 1e9,
                "sequential_GB_per_s_with_cache": size / warm / 1e9,
                "ratio_to_sequential_without_cache": throughput * cold / size,
                "ratio_to_sequential_with_cache": throughput * warm / size,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
