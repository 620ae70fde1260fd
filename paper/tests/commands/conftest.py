"""Small data that the commands are tried on."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from gmmatch.cli import build_app


@pytest.fixture
def gmmatch() -> Callable[..., Result]:
    """Run the command line in this process; an unexpected error comes through."""

    def run(*arguments: object) -> Result:
        result = CliRunner().invoke(build_app(), [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture
def succeeds(gmmatch) -> Callable[..., Any]:
    """Run a command that must succeed; return what it printed, parsed if it was asked for JSON."""

    def run(*arguments: object) -> Any:
        result = gmmatch(*arguments)
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout) if "--json" in arguments else result.stdout

    return run


@pytest.fixture
def refused(gmmatch) -> Callable[..., str]:
    """Run a command that must end in one line and exit code 2; return that line."""

    def run(*arguments: object) -> str:
        result = gmmatch(*arguments)
        errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
        assert result.exit_code == 2, result.stdout + result.stderr
        assert len(errors) == 1 and result.stderr.rstrip().endswith(errors[0]), result.stderr
        assert "Traceback" not in result.stderr and result.stdout == ""
        return errors[0]

    return run


@pytest.fixture
def photos(tmp_path) -> Path:
    """A folder of 24 pictures in two classes."""
    from PIL import Image

    random = np.random.default_rng(0)
    folder = tmp_path / "photos"
    for label, shade in (("cat", 60), ("dog", 180)):
        (folder / label).mkdir(parents=True)
        for number in range(12):
            pixels = random.integers(0, 60, (9, 11, 3)) + shade
            Image.fromarray(pixels.astype(np.uint8)).save(folder / label / f"{number}.png")
    return folder


@pytest.fixture
def vectors(tmp_path) -> Path:
    """A file of 40 vectors."""
    path = tmp_path / "vectors.npy"
    np.save(path, np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32))
    return path


@pytest.fixture
def texts(tmp_path) -> Path:
    """A JSON-lines file of 20 texts without labels."""
    path = tmp_path / "texts.jsonl"
    records = [{"key": f"t{i}", "body": "word " * (i + 1), "other": "x", "note": None} for i in range(20)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A folder on a disk of 256 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("mounting a small disk needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], capture_output=True, check=False)
