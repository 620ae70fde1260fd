"""The ``gmmatch`` command.

Every command is one file of this package, ``<name>.py``, with a function of the same name. A file is imported only
when its command is run or described, so it imports whatever is heavy inside its function.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from gmmatch.cli.io.group import CommandGroup

# Threads of OpenBLAS that have nothing to do spin for 2^26 cycles, from when they start: CPU time that shows in small
# commands. After 2^20, a third of a millisecond, they sleep. Read by NumPy's and SciPy's when they are imported.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")

COMMANDS = tuple(sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py")))


def _print_version(wanted: bool) -> None:
    if wanted:
        from gmmatch import __version__

        typer.echo(f"gmmatch {__version__}")
        raise typer.Exit


def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", envvar="GMMATCH_TRACEBACK", help="Show where an error came from.")
    ] = False,
) -> None:
    """Pick the rows of a noisy dataset that are worth training on."""


def build_app() -> typer.Typer:
    """Return the command line as a Typer application."""
    app = typer.Typer(
        name="gmmatch",
        cls=CommandGroup.of(__name__, COMMANDS),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        # Rich would double the time that --help takes; tables and progress bars use it where they appear.
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(options)
    return app


def main() -> None:
    """Run the command that ``sys.argv`` names."""
    build_app()(prog_name="gmmatch")
