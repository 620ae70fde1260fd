"""A program that writes a store and is killed, again and again; run by test_crashes.py.

It forks, so that every run is a process of its own that can be killed like one, without waiting for
imports. Nothing here starts a thread before a fork: all writing and reading happens in the children.

    python crashing.py every-step FOLDER STRIDE
    python crashing.py at-random FOLDER SEED ROUNDS
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

import numpy as np

from gmmatch import files
from gmmatch.embeddings import StoreWriter, open_store

# Here, once, instead of in every child: PyArrow imports pandas where it finds it.
with contextlib.suppress(ImportError):
    import pandas as pd  # noqa: F401
import pyarrow.parquet  # noqa: F401

N_ROWS, BATCH, PER_SHARD = 34, 5, 8


def vectors(rows):
    """The embeddings of source rows; a function of the row alone, as an encoder's are."""
    return np.stack([np.random.default_rng(row).standard_normal(6) for row in rows])


def write(folder, checkpoint_seconds, pause=0.0):
    """Write a store or go on with one, in the way a user of the package would."""
    writer = StoreWriter(
        folder,
        encoder="random",
        encoder_fingerprint="1",
        source={"format": "none"},
        source_fingerprint="abc",
        rows_per_shard=PER_SHARD,
        checkpoint_seconds=checkpoint_seconds,
    )
    with writer:
        for start in range(writer.resume_at(BATCH), N_ROWS, BATCH):
            rows = [row for row in range(start, min(N_ROWS, start + BATCH)) if row % 13 != 5]
            ids = [f"id\n{row}" for row in rows]
            writer.append(vectors(rows), ids, [row % 3 or None for row in rows], source_rows=rows)
            time.sleep(pause)
        writer.finish()


def contents(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


class KilledAt:
    """Kills its process at the n-th of the steps that touch the disk."""

    def __init__(self, n):
        self.left = n

    def step(self):
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def install(self):
        def killing(function):
            def wrapped(*args, **options):
                self.step()
                result = function(*args, **options)
                self.step()
                return result

            return wrapped

        for name in ("replace", "fsync", "unlink", "mkdir", "ftruncate"):
            setattr(os, name, killing(getattr(os, name)))
        killer = self

        class Digest:
            """Every piece of a file passes through its checksum before it is written."""

            def __init__(self):
                self.inner = hashlib.sha256()

            def update(self, piece):
                killer.step()
                self.inner.update(piece)

            def hexdigest(self):
                return self.inner.hexdigest()

        files.hashlib = type("hashlib", (), {"sha256": Digest})


def in_child(work, *args):
    """Start a forked process that does this work; its exit status is 1 if that raises."""
    child = os.fork()
    if child:
        return child
    try:
        work(*args)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def status_of(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_write(folder, n, checkpoint_seconds):
    KilledAt(n).install()
    write(folder, checkpoint_seconds)


def check_valid(folder):
    """What is on disk at this moment is a store whose rows are the first ones."""
    if not (Path(folder) / "manifest.json").exists():
        return
    store = open_store(folder, verify=True, allow_incomplete=True)
    expected = [row for row in range(N_ROWS) if row % 13 != 5][: len(store)]
    assert store.source_rows.tolist() == expected
    assert store.ids.tolist() == [f"id\n{row}" for row in expected]
    if expected:
        assert np.array_equal(np.asarray(store.as_array()), vectors(expected).astype(np.float16))


def finish_and_compare(folder, reference, checkpoint_seconds):
    check_valid(folder)
    write(folder, checkpoint_seconds)
    result, expected = contents(folder), contents(reference)
    assert result.keys() == expected.keys(), sorted(result)
    assert result == expected


def every_step(folder, stride):
    """Kill the writer at its first step, at a later one, and so on until it is done before."""
    reference = folder / "reference"
    assert status_of(in_child(write, reference, float("inf"))) == 0
    for checkpoint_seconds in (float("inf"), 0.0):
        n = 0
        while True:
            target = folder / f"{checkpoint_seconds}-{n}"
            status = status_of(in_child(killed_write, target, n, checkpoint_seconds))
            assert status in (0, -signal.SIGKILL), status
            assert status_of(in_child(finish_and_compare, target, reference, checkpoint_seconds)) == 0, n
            if status == 0:
                break
            n += stride
        print(f"{n} steps")


def at_random(folder, seed, rounds):
    """Kill the writer at random moments, until it is done in spite of that."""
    draw = random.Random(seed)
    reference = folder / "reference"
    begin = time.monotonic()
    assert status_of(in_child(write, reference, float("inf"), 0.002)) == 0
    # Moments within the time that writing takes on this machine, whether it is fast or busy.
    longest = time.monotonic() - begin
    kills = number = 0
    while number < rounds or kills < rounds:
        target = folder / str(number)
        number += 1
        checkpoint_seconds = draw.choice([0.0, 0.01, float("inf")])
        while True:
            child = in_child(write, target, checkpoint_seconds, 0.002)
            time.sleep(draw.uniform(0.0, longest))
            os.kill(child, signal.SIGKILL)
            if status_of(child) == 0:
                break
            kills += 1
            if kills > 500 * rounds:
                raise RuntimeError("it never gets done")
        assert status_of(in_child(finish_and_compare, target, reference, 0.0)) == 0
    print(f"{kills} kills")


if __name__ == "__main__":
    if sys.argv[1] == "every-step":
        every_step(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        at_random(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
