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

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

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
    """A fenced block.

    Attributes
    ----------
    page, line
        Where it is: the path from the root of the project, and its first line.
    language, text
        What the fence says, in lower case, and what is inside it.
    reason
        Why it is not run; None if it is.
    output
        What the page says that it prints; None if it does not say.
    """

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
