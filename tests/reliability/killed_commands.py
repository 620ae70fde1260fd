"""The commands that :mod:`tests.reliability.kills` kills: what they read, what they replace, who reads the result."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np

from gmmatch.errors import GMMatchError

N_ROWS = 60


def gmmatch(*arguments: object) -> None:
    """Run a command in this process, as the installed script does; an error is raised, not printed."""
    from gmmatch.cli import build_app

    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        status = build_app()(
            ["--traceback", *map(str, arguments)], prog_name="gmmatch", standalone_mode=False
        )
    assert not status, status


@dataclass(frozen=True)
class Command:
    """One command in a folder of its own.

    ``before`` are commands whose results it replaces or reads. ``outputs`` are what it writes: each of them is at
    any moment the old one, the new one or not there. ``reads`` raises if one of them is half done, or if one is old
    and another new; None if that must never be. ``beside`` are names that are there only while it works.
    """

    name: str
    arguments: tuple[object, ...]
    outputs: tuple[str, ...]
    before: tuple[tuple[object, ...] | Callable[[], None], ...] = ()
    reads: Callable[[], object] | None = None
    together: bool = True
    beside: tuple[str, ...] = ()

    def run(self) -> None:
        """Do what is to be killed."""
        if self.arguments[0] == "embed":
            from gmmatch.store import run

            # Many small shards, each of them written as soon as there are rows: more steps to be killed at.
            run.embed.__kwdefaults__.update(rows_per_shard=16, checkpoint_seconds=0.0)
        gmmatch(*self.arguments)


def prepare(command: Command, folder: Path) -> None:
    """Make what a command reads, and what stands in its place before it."""
    os.chdir(folder)
    photos(range(N_ROWS))
    random = np.random.default_rng(0)
    rows = random.normal(size=(N_ROWS, 3)).astype(np.float32)
    rows[1] = rows[0]
    np.save("rows.npy", rows)
    np.save("more.npy", random.normal(size=(N_ROWS, 3)).astype(np.float32))
    for step in command.before:
        gmmatch(*step) if isinstance(step, tuple) else step()


def photos(numbers: range) -> None:
    from PIL import Image

    for number in numbers:
        place = Path("photos", ("cat", "dog")[number % 2])
        place.mkdir(parents=True, exist_ok=True)
        shade = np.random.default_rng(number).integers(0, 60, (6, 6, 3)) + 120 * (number % 2)
        Image.fromarray(shade.astype(np.uint8)).save(place / f"{number}.png")


def new_photos() -> None:
    """Add photos that are older than the store, as copies of old photos are."""
    photos(range(N_ROWS, N_ROWS + 20))
    for path in Path("photos").rglob("*.png"):
        os.utime(path, (0, 0))


def opens(name: str) -> Callable[[], object]:
    def read() -> object:
        from gmmatch.store import open_store

        open_store(name, verify=True, allow_incomplete=True)  # what is there is sound, ...
        return open_store(name)  # ... but it is not the whole

    return read


def _select(k: int, output: str, *more: object) -> tuple[object, ...]:
    return ("select", "rows.npy", "-k", k, "-o", output, "--method", "gm-matching", "--force", *more)


def _corrupt(source: str, output: str, kind: str, seed: int) -> tuple[object, ...]:
    return ("corrupt", source, "-o", output, "--kind", kind, "--rate", 0.4, "--seed", seed, "--force")


EMBED = ("embed", "photos", "-o", "photos.emb", "--encoder", "pixels:4x4", "--batch-size", 12)
PICKED = (EMBED, ("select", "photos.emb", "-k", 20, "-o", "picks.parquet", "--method", "easy"))

COMMANDS = (
    Command("embed", EMBED, ("photos.emb",), reads=opens("photos.emb")),
    Command(
        "embed, new images",
        EMBED,
        ("photos.emb",),
        (EMBED, new_photos),
        reads=opens("photos.emb"),
        beside=("photos.emb.adding", "photos.emb.joined", "photos.emb.old"),
    ),
    Command("select", _select(8, "picks.parquet"), ("picks.parquet",), (_select(6, "picks.parquet"),)),
    Command(
        "select, with a page",
        _select(8, "picks.parquet", "--report", "picks.html"),
        ("picks.parquet", "picks.html"),
        (_select(6, "picks.parquet", "--report", "picks.html"),),
        together=False,  # a page has its picks in it
    ),
    Command(
        "export",
        ("export", "picks.parquet", "photos", "-o", "picked", "--force"),
        ("picked",),
        (
            *PICKED,
            ("select", "photos.emb", "-k", 9, "-o", "few.parquet", "--method", "easy"),
            ("export", "few.parquet", "photos", "-o", "picked"),
        ),
    ),
    Command(
        "corrupt, images",
        _corrupt("photos", "bad", "fog", 2),
        ("bad", "bad.mask.parquet"),
        (_corrupt("photos", "bad", "fog", 1),),
    ),
    Command(
        "corrupt, vectors",
        _corrupt("rows.npy", "bad.npy", "far-cluster", 2),
        ("bad.npy", "bad.npy.mask.parquet"),
        (_corrupt("rows.npy", "bad.npy", "far-cluster", 1),),
    ),
    Command(
        "duplicates",
        ("duplicates", "rows.npy", "-o", "groups.parquet", "--threshold", 0.99, "--force"),
        ("groups.parquet",),
        (("duplicates", "rows.npy", "-o", "groups.parquet", "--threshold", 0.5),),
    ),
    Command(
        "update",
        ("update", "picks.parquet", "more.npy"),
        ("picks.parquet",),
        (_select(8, "picks.parquet"),),
        beside=("picks.parquet.lock",),
    ),
)


@dataclass(frozen=True)
class Writing(Command):
    """A store that a user of the library writes batch by batch, with rows left out and labels missing."""

    checkpoint_seconds: float = 0.0

    def run(self) -> None:
        """Write it, or go on with what is there."""
        from gmmatch.store import StoreWriter

        with StoreWriter(
            "x.emb", encoder="random", encoder_fingerprint="1", source={"format": "none"}, source_fingerprint="abc",
            rows_per_shard=8, checkpoint_seconds=self.checkpoint_seconds,
        ) as writer:  # fmt: skip
            for start in range(writer.resume_at(5), 34, 5):
                rows = [row for row in range(start, min(34, start + 5)) if row in KEPT]
                writer.append(
                    vectors(rows), [f"id\n{row}" for row in rows], [row % 3 or None for row in rows],
                    source_rows=rows,
                )  # fmt: skip
            writer.finish()


KEPT = [row for row in range(34) if row % 13 != 5]


def vectors(rows: list[int]) -> np.ndarray:
    """The embeddings of source rows; a function of the row alone, as an encoder's are."""
    return np.stack([np.random.default_rng(row).standard_normal(6) for row in rows])


def begun() -> object:
    """Read a store that may be half written: its rows are the first ones."""
    from gmmatch.store import open_store

    store = open_store("x.emb", verify=True, allow_incomplete=True)
    expected = KEPT[: len(store)]
    assert store.source_rows.tolist() == expected
    assert store.ids.tolist() == [f"id\n{row}" for row in expected]
    if expected:
        assert np.array_equal(store.to_numpy(), vectors(expected).astype(np.float16))
    return open_store("x.emb")


STORES = (
    Writing("StoreWriter, whole shards", (), ("x.emb",), reads=begun, checkpoint_seconds=float("inf")),
    Writing("StoreWriter, every batch", (), ("x.emb",), reads=begun),
)


def refused(command: Command) -> bool:
    """Tell whether whoever reads the result of a command refuses what is there now."""
    if command.reads is None:
        return False
    try:
        command.reads()
    except GMMatchError:
        return True
    return False
