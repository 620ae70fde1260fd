"""The shape of the package: who imports whom, which words are used, how far a call goes, what an import loads."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gmmatch as gm

ROOT = Path(gm.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
BANNED = {
    "beside", "told", "found", "part", "one", "place", "mine", "theirs", "spread", "walk", "drift", "apart",
    "seen", "rivals", "tops", "lows", "traits", "waves", "widths", "stars", "yardsticks", "knock", "begun",
}  # fmt: skip


def imported_rooms(path: Path) -> set[str]:
    """The rooms that a file imports, also inside functions and for type checking."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gmmatch."):
            rooms.add(node.module.split(".")[1])
        elif isinstance(node, ast.ImportFrom) and node.module == "gmmatch":
            rooms |= {alias.name for alias in node.names} - {"__version__"}
    return rooms


def test_rooms_are_imported_in_one_direction():
    graph: dict[str, set[str]] = {}
    for path in FILES:
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts not in (("__init__",), ("__main__",)):
            graph.setdefault(parts[0], set()).update(imported_rooms(path) - {parts[0]})
    order: list[str] = []
    while graph:
        free = [name for name, needs in graph.items() if needs <= set(order)]
        assert free, f"a circle among {sorted(graph)}"
        order += sorted(free)
        graph = {name: needs for name, needs in graph.items() if name not in order}
    assert order.index("rows") < order.index("problem") < order.index("methods") < order.index("cli")


def test_only_rooms_of_rows_know_the_backends():
    backends = {"FileRows", "TensorRows", "RayRows"}
    for path in FILES:
        if path.parent.name not in ("rows", "store"):
            text = path.read_text()
            assert not backends & set(re.findall(r"\w+", text)), path
            assert "hasattr(rows" not in text, path


def test_names_are_words_of_the_field():
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(node, "name", None) or getattr(node, "id", None) or getattr(node, "arg", None)
            assert str(name).lower().strip("_") not in BANNED, f"{path.name}: {name}"


def test_nothing_of_the_library_imports_gmmatch_paper():
    for path in FILES:
        assert "gmmatch_paper" not in path.read_text(), path


def trace(call):
    """Return the functions of the package that a call enters, and the kinds of its objects that are made."""
    functions, kinds = set(), set()

    def profile(frame, event, argument):
        code = frame.f_code
        if event != "call":
            return
        if code.co_name == "__init__" and "self" in frame.f_locals:
            kind = type(frame.f_locals["self"])  # the constructors of dataclasses have no file
            if kind.__module__.startswith("gmmatch."):
                kinds.add(kind.__name__)
        if code.co_filename.startswith(str(ROOT)) and not code.co_name.startswith("<"):  # no comprehensions
            functions.add(code)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return functions, kinds


@pytest.mark.parametrize(
    ("method", "most_functions", "most_kinds"), [("gm-matching", 120, 14), ("robust", 240, 40)]
)
def test_one_selection_does_not_go_far(method, most_functions, most_kinds):
    random = np.random.default_rng(0)
    y = random.integers(0, 5, 600)
    X = random.standard_normal((600, 16)) + 3.0 * np.eye(5, 16)[y]

    def call():
        gm.select(X, y, k="10%", method=method, random_state=0)

    call()
    functions, kinds = trace(call)
    assert len(functions) <= most_functions, sorted(code.co_qualname for code in functions)
    assert len(kinds) <= most_kinds, sorted(kinds)


IMPORT_ALL = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:  # an optional package may be missing, ours may not
        assert error.name.partition(".")[0] != "gmmatch", error
import gmmatch
for name in gmmatch.__all__:
    getattr(gmmatch, name)
"""


@pytest.mark.slow
def test_every_module_can_be_imported():
    names = [".".join(("gmmatch", *path.relative_to(ROOT).with_suffix("").parts)) for path in FILES]
    modules = [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *modules], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


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
