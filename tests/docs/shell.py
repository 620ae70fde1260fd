"""Commands of a page, run in this process where that is possible, or checked where they would take too long."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import metadata
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from gmmatch.cli import build_app

from .blocks import ROOT, Block

# Programs that do no more than look, copy and make folders.
HARMLESS = {"cat", "cp", "echo", "head", "ls", "mkdir", "tail", "wc"}
PROGRAMS = {"gmmatch", "python", "make", "pip", "export", "ray", "cd", *HARMLESS}


@dataclass(frozen=True)
class Command:
    """A line of a block, and what the page says that it prints (None if it does not say)."""

    words: list[str]
    line: str
    output: str | None = None


def commands_of(block: Block) -> list[Command]:
    """The commands of a block; of a ``console`` with the lines that each is said to print."""
    text = re.sub(r"\\\n\s*", " ", block.text)
    if block.language == "console" or text.startswith("$ "):
        commands = []
        for prompt in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            line, _, output = prompt.partition("\n")
            commands.append(Command(_split(line), line, output if output.strip() else None))
        return commands
    lines = [line for line in text.splitlines() if _split(line)]
    shown = [None] * (len(lines) - 1) + [block.output]
    return [Command(_split(line), line, output) for line, output in zip(lines, shown, strict=True)]


def _split(line: str) -> list[str]:
    return shlex.split(line, comments=True)


def unknown_programs(block: Block) -> list[str]:
    """First words of lines that are no programs which a page may call."""
    first = [command.words[0] for command in commands_of(block)]
    return [word for word in first if word not in PROGRAMS]


@dataclass
class Shell:
    """Runs commands in the current folder.

    Attributes
    ----------
    patch
        Undoes what ``export`` and ``cd`` do.
    models
        What stands in for models that would have to be fetched.
    """

    patch: pytest.MonkeyPatch
    models: dict[str, str] = field(default_factory=dict)

    def run(self, command: Command) -> str:
        """Run a command, or check it if it would take minutes; return what it printed."""
        words = command.words
        if {"|", ">", "&&", ";"} & set(words):
            return self._by_bash(command.line)
        known: dict[str, Callable[[list[str]], str]] = {
            "gmmatch": self._gmmatch,
            "python": self._python,
            "make": self._make,
            "pip": check_requirement,
            "export": self._export,
            "cd": self._cd,
        }
        run = known.get(words[0])
        return self._by_bash(command.line) if run is None else run(words[1:])

    def _gmmatch(self, words: list[str]) -> str:
        if takes_long(words):
            check_arguments(words)
            return ""
        arguments = [self.models.get(word, word) for word in words]
        result = CliRunner().invoke(build_app(), arguments)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, f"gmmatch {shlex.join(arguments)}\n{result.stderr}"
        return result.stdout

    def _python(self, words: list[str]) -> str:
        if words[0] == "-m" and words[1].split(".")[0] in ("benchmarks", "tests"):
            check_module_options(words[1], words[2:])
            return ""
        if words[0].startswith("examples/"):
            assert (ROOT / words[0]).is_file(), f"there is no {words[0]}"  # tests/examples runs them all
            return ""
        return self._finished([sys.executable, *words])

    def _make(self, words: list[str]) -> str:
        if shutil.which("make") is None:
            pytest.skip("needs make")
        self._finished(["make", "--dry-run", "--directory", str(ROOT), *words])
        return ""

    def _export(self, words: list[str]) -> str:
        for word in words:
            name, _, value = word.partition("=")
            self.patch.setenv(name, value)
        return ""

    def _cd(self, words: list[str]) -> str:
        self.patch.chdir(words[0])
        return ""

    def _by_bash(self, line: str) -> str:
        self.patch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
        return self._finished(["bash", "-c", f"set -eo pipefail\n{line}"])

    def _finished(self, command: list[str]) -> str:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}"
        return done.stdout


def takes_long(words: list[str]) -> bool:
    """Whether a command recomputes the paper's results, in minutes to days, or fetches its datasets."""
    return words[0] == "reproduce" and ("--full" in words or "--dataset" in words)


def check_arguments(words: list[str]) -> None:
    """Fail unless the command line understands the words; nothing is run.

    A command alone, or one with "…" in it, is spoken of rather than given: it must exist.
    """
    app = typer.main.get_command(build_app())
    with app.make_context("gmmatch", words[:1]) as context:
        command = app.get_command(context, words[0])  # type: ignore[attr-defined]
        assert command is not None, f"there is no gmmatch {words[0]}"
        if len(words) == 1 or {"…", "..."} & set(words):
            return
        with command.make_context(words[0], words[1:], parent=context):
            pass


@cache
def _help_of(module: str) -> str:
    command = [sys.executable, "-m", module, "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_module_options(module: str, words: list[str]) -> None:
    """Fail unless a module of the project can be run, and its help names the options that are given to it."""
    if not words and module.startswith("tests."):  # without options, and so without a help
        assert (ROOT / f"{module.replace('.', '/')}.py").is_file(), f"there is no module {module}"
        return
    known = set(re.findall(r"--[\w-]+", _help_of(module)))
    given = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert given <= known, f"python -m {module} has no {sorted(given - known)}"


def check_requirement(words: list[str]) -> str:
    """Fail unless what ``pip install`` names are known extras of gmmatch, or packages without a path."""
    assert words[0] == "install", words
    extras = set(metadata("gmmatch").get_all("Provides-Extra") or [])
    for asked in re.findall(r"(?:^|\s)(?:\.|gmmatch)\[([\w,-]+)\]", " ".join(words[1:])):
        unknown = set(asked.split(",")) - extras
        assert not unknown, f"gmmatch has no extras {sorted(unknown)}"
    return ""
