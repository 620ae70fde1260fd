"""The code blocks of a Markdown page, and what the page says about them.

A block is run by its language:

=====================================  ======================================================================
``python``                             run, with the names that earlier blocks of the page have made
``pycon``, or ``>>>`` in the block     run as a doctest: what it prints is compared
``bash``, ``sh``, none                 every line is a command, and is run
``console``                            lines after ``$`` are commands, the others are what the last one prints
``text``, ``output``                   not code; right after a block that is run, it is what that prints
=====================================  ======================================================================

``<!-- not run: REASON -->`` just above a block says why it cannot be run. There is no other way to leave one out.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest
import typer
from markdown_it import MarkdownIt
from markdown_it.token import Token
from typer.testing import CliRunner

from gmmatch.cli import build_app

ROOT = Path(__file__).parents[2]

PYTHON = {"python", "py", "python3"}
SESSION = {"pycon", "doctest"}
SHELL = {"bash", "sh", "shell", "console", ""}
# Shown as they are. Text right after a block that runs is its output.
TEXT = {"text", "output", "json", "toml", "yaml", "ini", "csv", "html", "bibtex", "css", "math", "mermaid"}
# Sphinx writes these.
_GENERATED = {"_build", "auto_examples", "gallery", "generated", "_autosummary"}
# Directives whose body is the code that their argument names.
_CODE_DIRECTIVES = {"{code-block}", "{code}", "{sourcecode}", "{code-cell}"}
_NOT_RUN = re.compile(r"<!--\s*not run:\s*(.*?)\s*-->", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: where it is, what it says, why it is not run, and what the page says that it prints."""

    page: str
    line: int
    language: str
    text: str
    reason: str | None = None
    output: str | None = None

    @property
    def location(self) -> str:
        """Page and line, as compilers write them."""
        return f"{self.page}:{self.line}"

    @property
    def is_session(self) -> bool:
        """Whether it shows an interactive session of Python."""
        prompted = re.match(r"\s*>>> ", self.text) is not None
        return self.language in SESSION or (self.language in PYTHON and prompted)


def pages() -> list[str]:
    """The README and all pages of the documentation that people write, as paths from the root."""
    files = [path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md")]
    written = [path for path in files if not _GENERATED & set(path.parts)]
    return ["README.md", *sorted(path.as_posix() for path in written)]


def blocks_of(page: str) -> list[Block]:
    """The code blocks of a page, in their order."""
    return list(read_blocks((ROOT / page).read_text(encoding="utf-8"), page))


def read_blocks(text: str, page: str = "page.md", first_line: int = 0) -> Iterator[Block]:
    """The code blocks of a text in Markdown; those inside of directives as well."""
    tokens = [
        token for token in MarkdownIt().parse(text) if token.type in ("fence", "html_block") or token.map
    ]
    for number, token in enumerate(tokens):
        if token.type != "fence":
            continue
        language, _, argument = token.info.strip().partition(" ")
        line = first_line + (token.map or [0])[0] + 1
        if language in _CODE_DIRECTIVES:
            language = argument.strip()
        elif language.startswith("{"):
            yield from read_blocks(token.content, page, line)
            continue
        if language in TEXT and number and _runs(tokens[number - 1]):
            continue  # it is the output of the block before
        after = tokens[number + 1] if number + 1 < len(tokens) else None
        shows_output = (
            after is not None and after.type == "fence" and after.info.strip() in ("text", "output")
        )
        yield Block(
            page=page,
            line=line + 1,
            language=language.lower(),
            text=_without_options(token.content) if token.info.startswith("{") else token.content,
            reason=_reason(tokens[number - 1]) if number else None,
            output=after.content if shows_output and after is not None and _runs(token) else None,
        )


def inline_commands(page: str) -> list[str]:
    """The commands of gmmatch that stand between backticks in the text of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    children = [
        child
        for token in MarkdownIt("commonmark").enable("table").parse(text)
        for child in token.children or []
    ]
    return [
        child.content
        for child in children
        if child.type == "code_inline" and child.content.startswith("gmmatch ")
    ]


def _runs(token: Token) -> bool:
    return token.type == "fence" and token.info.strip().lower() in PYTHON | SESSION | SHELL


def _reason(before: Token) -> str | None:
    match = _NOT_RUN.search(before.content) if before.type == "html_block" else None
    return None if match is None else " ".join(match[1].split())


def _without_options(text: str) -> str:
    """The body of a directive without the lines such as ``:linenos:`` at its top."""
    return re.sub(r"\A(:[\w-]+:.*\n)+\n?", "", text)


# As in the docstrings of the package: runs of blanks are alike, and "..." stands for whatever is there.
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run_block(block: Block, names: dict[str, Any], shell: Shell) -> None:
    """Run a block and compare what it prints with what the page says, if it says it."""
    if block.is_session:
        _run_session(block, names)
    elif block.language in PYTHON:
        printed = _run_python(block, names)
        if block.output is not None:
            check_output(block.location, block.output, printed)
    elif block.language in SHELL:
        for command in commands_of(block):
            printed = shell.run(command)
            if command.output is not None:
                check_output(f"{block.location}: {command.line}", command.output, printed)


def check_output(location: str, said: str, printed: str) -> None:
    """Fail unless what was printed is what the page says."""
    agrees = doctest.OutputChecker().check_output(said, printed, FLAGS)
    assert agrees, f"{location} is said to print\n{said}\nand prints\n{printed}"


def _run_python(block: Block, names: dict[str, Any]) -> str:
    printed = io.StringIO()
    # Line numbers of errors are those of the page.
    tree = ast.increment_lineno(ast.parse(block.text, block.location), block.line - 1)
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, block.page, "exec"), names)
    return printed.getvalue()


def _run_session(block: Block, names: dict[str, Any]) -> None:
    test = doctest.DocTestParser().get_doctest(block.text, names, block.location, block.page, block.line - 1)
    assert test.examples, f"{block.location}: there is no line after >>>"
    said = io.StringIO()
    result = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.write, clear_globs=False)
    assert result.failed == 0, said.getvalue()
    names |= test.globs


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
    """Runs commands in the current folder, some of ``models`` in place of those that would have to be fetched."""

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
