"""`import gmmatch` and `gmmatch --help` stay cheap: what they load is counted, in a process of its own.

Not timed: a clock in a test fails on a busy machine, and the modules that are loaded are what costs.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"sklearn", "scipy", "numba", "torch", "pyarrow", "pandas", "matplotlib", "jax", "transformers"}
COMMAND_LINE = {"typer", "click", "rich", "pydantic"}


def modules_after(statements: str) -> set[str]:
    """The modules that a fresh interpreter has loaded once it has run the statements."""
    script = f"{statements}\nimport sys\nprint('MODULES', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("MODULES ")[2].split())


def packages(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


HELP = """
import sys
from gmmatch.cli import main
sys.argv = ["gmmatch", *WORDS, "--help"]
try:
    main()
except SystemExit as end:
    assert end.code == 0
"""


def test_importing_the_package_loads_none_of_its_dependencies():
    assert not packages(modules_after("import gmmatch")) & (HEAVY | COMMAND_LINE | {"numpy"})
    assert not packages(modules_after("import gmmatch.data, gmmatch.store")) & (HEAVY | {"PIL", "datasets"})


def test_importing_the_package_adds_few_modules():
    """That of lazy_loader, which reads the public names from the stub."""
    assert (
        len(modules_after("import gmmatch") - modules_after("import ast, importlib.util, inspect, typing"))
        <= 40
    )


@pytest.mark.parametrize("words", [[], ["select"]])
def test_help_loads_typer_but_nothing_that_computes_or_draws(words):
    loaded = packages(modules_after(HELP.replace("WORDS", repr(words))))
    assert "typer" in loaded  # otherwise the script above did not do what it says
    assert not loaded & (HEAVY | {"numpy", "rich"})


def test_help_loads_at_most_half_as_many_modules_again_as_numpy():
    nothing, shown = modules_after("pass"), modules_after(HELP.replace("WORDS", "[]"))
    assert len(shown - nothing) <= 1.5 * len(modules_after("import numpy") - nothing)


SELECT = """
import tempfile
import gmmatch
with tempfile.TemporaryDirectory() as folder:
    rows = [[float(i % 7), float(i % 5)] for i in range(60)]
    gmmatch.select(rows, y=["a", "b"] * 30, k=10).save(f"{folder}/picks.parquet")
"""


def test_selecting_loads_what_it_needs_but_no_package_for_models_or_frames():
    loaded = packages(modules_after(SELECT.replace("k=10)", "k=10, method='gm-matching')")))
    assert {"numba", "pyarrow"} <= loaded  # what is needed is loaded by the first use
    assert not loaded & {"torch", "matplotlib", "PIL", "ray"}
