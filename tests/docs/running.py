"""Running the blocks of a page one after another, in one namespace."""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
from typing import Any

from .blocks import PYTHON, SHELL, Block
from .shell import Shell, commands_of

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
