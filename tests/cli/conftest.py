"""Small data that the commands are tried on."""

from __future__ import annotations

import json
from collections.abc import Callable
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
def store(photos, tmp_path, succeeds) -> Path:
    """A store of the pictures."""
    succeeds("embed", photos, "-o", tmp_path / "photos.emb", "--encoder", "pixels:4x4")
    return tmp_path / "photos.emb"


@pytest.fixture
def vectors(tmp_path) -> Path:
    """A file of 40 vectors."""
    path = tmp_path / "vectors.npy"
    np.save(path, np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32))
    return path


@pytest.fixture
def labels(tmp_path) -> Path:
    """A table of labels for the vectors, in another order."""
    path = tmp_path / "labels.csv"
    path.write_text("id,label\n" + "".join(f"{row},{'ab'[row % 2]}\n" for row in reversed(range(40))))
    return path


@pytest.fixture
def texts(tmp_path) -> Path:
    """A JSON-lines file of 20 texts, with columns that have nothing to do with them."""
    path = tmp_path / "texts.jsonl"
    records = [{"key": f"t{i}", "body": "word " * (i + 1), "other": "x", "note": None} for i in range(20)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


@pytest.fixture
def text_encoder(tmp_path) -> str:
    """A function in a file that makes two numbers of a text."""
    path = tmp_path / "lengths.py"
    path.write_text(
        "import numpy as np\n"
        "def encode(texts):\n"
        "    return np.array([[len(text), text.count('w')] for text in texts], dtype=np.float32)\n"
    )
    return f"{path}:encode"
