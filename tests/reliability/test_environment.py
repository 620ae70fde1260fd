"""What a command meets around it: another command on the same file, a locale, a full pipe, odd settings and names."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gmmatch as gm

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX")


def run(*arguments: object, stdout: object = subprocess.PIPE, **environment: str) -> tuple[int, str]:
    """Run the command line in a process of its own; return its exit status and what it says on stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "gmmatch", *map(str, arguments)], stdout=stdout, stderr=subprocess.PIPE,
        encoding="utf-8", errors="surrogateescape", check=False, env={**os.environ, **environment},
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.fixture
def new(tmp_path):
    np.save(tmp_path / "new.npy", np.random.default_rng(1).normal(size=(40, 3)).astype(np.float32))
    return tmp_path / "new.npy"


@pytest.fixture
def picks(vectors, tmp_path, succeeds):
    succeeds("select", vectors, "-k", 5, "-m", "herding", "-o", tmp_path / "picks.parquet")
    return tmp_path / "picks.parquet"


WAITING = """
import sys, time
from pathlib import Path
from gmmatch.cli.io.files import updating
with updating(Path(sys.argv[1])):
    print("updating", flush=True)
    time.sleep(600)
"""


def test_a_second_update_is_refused_while_the_first_is_at_work_and_not_when_it_was_killed(
    picks, new, tmp_path, refused, succeeds
):
    other = subprocess.Popen([sys.executable, "-c", WAITING, picks], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None and other.stdout.readline() == "updating\n"
        line = refused("update", picks, new)
        assert f"picks.parquet is being written by process {other.pid}" in line
        succeeds("update", picks, new, "-o", tmp_path / "other.parquet")
    finally:
        other.send_signal(signal.SIGKILL)
        other.wait()
    succeeds("update", picks, new)
    assert len(gm.Selection.load(picks).provenance["updates"]) == 1
    assert not list(tmp_path.glob("*.lock"))


@pytest.mark.slow
def test_of_two_updates_at_once_none_is_lost(picks, tmp_path):
    new = [tmp_path / f"{name}.npy" for name in "ab"]
    for number, path in enumerate(new, 1):
        np.save(path, np.random.default_rng(number).normal(size=(40, 3)).astype(np.float32))
    command = [sys.executable, "-m", "gmmatch", "update", str(picks)]
    both = [subprocess.Popen([*command, str(path)], stderr=subprocess.PIPE) for path in new]
    done = [process.communicate() and process.returncode for process in both]
    assert set(done) <= {0, 2} and 0 in done
    assert len(gm.Selection.load(picks).provenance["updates"]) == done.count(0)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["select", "--help"], ["methods"]])
def test_a_full_standard_output_is_one_line(arguments):
    with Path("/dev/full").open("wb") as full:
        status, said = run(*arguments, stdout=full)
    assert (status, said.strip()) == (2, "Error: No space left on device.")


@pytest.mark.parametrize("number", ["x", "0", "-1"])
def test_a_number_of_threads_that_numba_cannot_read_is_one_line(vectors, refused, monkeypatch, number):
    monkeypatch.setenv("NUMBA_NUM_THREADS", number)
    line = refused("select", vectors, "-k", 2, "-m", "easy", "-o", "-")
    assert f"NUMBA_NUM_THREADS={number} in the environment" in line and "at least 1" in line


@pytest.mark.slow
def test_without_utf8_in_the_locale_names_are_the_same(photos, tmp_path):
    (photos / "cat" / "0.png").rename(photos / "cat" / "ü.png")
    plain = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    store, picks = tmp_path / "x.emb", tmp_path / "p.parquet"
    for command in (
        ["embed", photos, "-o", store, "--encoder", "pixels:4x4"],
        ["select", store, "-k", 24, "-m", "easy", "-o", picks],
        ["methods"],
    ):
        assert run(*command, **plain)[0] == 0
    assert "cat/ü.png" in gm.Selection.load(picks).ids.tolist()
    assert run("methods", **plain, PYTHONIOENCODING="ascii") == (0, "")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
@pytest.mark.parametrize(
    "command",
    [["select", "-k", 20, "-m", "easy"], ["duplicates", "--threshold", 0.5], ["screen"]],
    ids=lambda command: command[0],
)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_name_that_is_no_unicode_is_refused_by_tables(photos, tmp_path, succeeds, refused, command, suffix):
    for number in range(12):
        name = os.fsdecode(b"\xff%d.png" % number)
        (photos / "cat" / f"{number}.png").rename(photos / "cat" / name)
    succeeds("embed", photos, "-o", tmp_path / "x.emb", "--encoder", "pixels:4x4")
    line = refused(command[0], tmp_path / "x.emb", *command[1:], "-o", tmp_path / f"out.{suffix}")
    assert "is not valid Unicode, which no table can hold: rename it" in line
    assert not (tmp_path / f"out.{suffix}").exists()


def test_picks_of_a_table_with_ids_are_updated(tmp_path, succeeds):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for seed, name in enumerate("xy"):
        rows = np.random.default_rng(seed).normal(size=(30, 3))
        table = pa.table({"id": [f"{name}{i}" for i in range(30)], "vector": rows.tolist()})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    picks = tmp_path / "p.parquet"
    succeeds("select", tmp_path / "x.parquet", "-k", 3, "-m", "herding", "-o", picks)
    succeeds("update", picks, tmp_path / "y.parquet")
    assert gm.Selection.load(picks).n_rows == 60


def test_commands_ask_nothing_of_a_network(photos, tmp_path, succeeds, monkeypatch):
    import socket

    def refuse(*_, **__):
        pytest.fail("a connection was asked for")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    store, picks = tmp_path / "x.emb", tmp_path / "p.parquet"
    succeeds("embed", photos, "-o", store, "--encoder", "pixels:4x4")
    succeeds("select", store, "-k", 4, "-m", "herding", "-o", picks, "--report", tmp_path / "p.html")
    succeeds("export", picks, photos, "-o", tmp_path / "out")
    succeeds("info", store)
