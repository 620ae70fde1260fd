"""Every command and every block of code in the README and in the documentation runs, and prints what the page says.

How blocks are read is in ``blocks.py``, what stands in for the reader's own data in ``stand_ins.py``.
"""

from __future__ import annotations

import shlex
import socket
from pathlib import Path

import pytest

from .blocks import (
    PYTHON,
    ROOT,
    SESSION,
    SHELL,
    TEXT,
    Block,
    Shell,
    blocks_of,
    check_arguments,
    commands_of,
    inline_commands,
    pages,
    run_block,
    unknown_programs,
)
from .stand_ins import PAGES, make_files, stand_in_for

ALL = {page: blocks_of(page) for page in pages()}
# Begin with one of these, and then say what is special about the block.
REASONS = ("needs a CUDA device", "needs the network", "needs a cluster", "takes ", "your own ", "part of ")
MOST_NOT_RUN = 12


def runnable(page: str) -> list[Block]:
    return [block for block in ALL[page] if block.language not in TEXT and block.reason is None]


def pages_to_run() -> list[str]:
    return [page for page in ALL if runnable(page) and stand_in_for(page).elsewhere is None]


def _connect_here(self, address, _connect=socket.socket.connect):
    """What stands in for a network: only this machine can be reached."""
    if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in (
        "127.0.0.1",
        "::1",
        "localhost",
    ):
        raise OSError(f"a page asked for {address}")
    return _connect(self, address)


@pytest.fixture
def shell(tmp_path, monkeypatch) -> Shell:
    """A folder to run a page in, and what stands in for models of the hub where there is no network."""
    folder = tmp_path / "page"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr(socket.socket, "connect", _connect_here)
    encoder = tmp_path / "lengths.py"
    encoder.write_text(
        "import numpy as np\n"
        "def encode(texts):\n"
        "    return np.array([[len(text), text.count('w')] for text in texts], dtype=np.float32)\n"
    )
    models = {
        "openai/clip-vit-base-patch32": "pixels:4x4",
        "facebook/dinov2-small": "pixels:4x4",
        "sentence-transformers/all-MiniLM-L6-v2": f"{encoder}:encode",
    }
    return Shell(monkeypatch, models)


@pytest.fixture
def no_cache(tmp_path, monkeypatch) -> None:
    """What Hugging Face would keep for later stays in the folder of the test."""
    try:
        import datasets
    except ImportError:
        return
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.mark.slow
@pytest.mark.parametrize("page", pages_to_run())
def test_the_blocks_of_a_page_run_in_their_order(page, shell, no_cache):
    stand_in = stand_in_for(page)
    make_files("\n".join(block.text for block in runnable(page)))
    names = {"__name__": "__main__", **stand_in.names(shell.patch)}
    for block in runnable(page):
        run_block(block, names, shell)
    if stand_in.check is not None:
        stand_in.check(names)


@pytest.mark.parametrize("page", ALL)
def test_commands_are_understood_by_the_command_line(page):
    """Those inside of sentences too, and those of blocks that are not run."""
    shown = [shlex.split(line)[1:] for line in inline_commands(page)]
    for block in ALL[page]:
        if block.language in SHELL:
            shown += [command.words[1:] for command in commands_of(block) if command.words[0] == "gmmatch"]
    for words in shown:
        check_arguments(words)


@pytest.mark.parametrize("page", ALL)
def test_it_is_known_what_each_block_is(page):
    for block in ALL[page]:
        known = PYTHON | SESSION | SHELL | TEXT
        assert block.language in known, f"{block.location}: nobody knows how to run {block.language!r}"
        if block.language in SHELL and block.reason is None:
            unknown = unknown_programs(block)
            assert not unknown, (
                f"{block.location}: {unknown} are no programs that the tests run. Write ```text above what is no "
                "command, or <!-- not run: REASON --> above what cannot be run."
            )


def test_few_blocks_are_not_run_and_each_says_why():
    left_out = [(block.location, block.reason) for blocks in ALL.values() for block in blocks if block.reason]
    assert [pair for pair in left_out if not pair[1].startswith(REASONS)] == []
    assert len(left_out) <= MOST_NOT_RUN, left_out


def test_every_stand_in_is_for_a_page_that_is_there():
    assert set(PAGES) <= set(ALL)
    others = [stand_in.elsewhere for stand_in in PAGES.values() if stand_in.elsewhere]
    assert all(Path(ROOT, test).is_file() for test in others)
