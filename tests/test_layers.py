"""The library stands without the laboratory, and its modules import each other in one direction."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import gmmatch

FOLDER = Path(gmmatch.__file__).parent


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in sorted(FOLDER.rglob("*.py"))}


def imports(node: ast.AST, *, in_functions: bool) -> Iterator[str]:
    """What a module imports, except for types alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        elif in_functions or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imports(child, in_functions=in_functions)


def test_nothing_of_the_library_imports_the_laboratory():
    for name, path in MODULES.items():
        imported = imports(ast.parse(path.read_text(encoding="utf-8")), in_functions=True)
        assert not [one for one in imported if one.partition(".")[0] == "gmmatch_paper"], name


def test_no_module_is_imported_by_what_it_imports():
    graph = {}
    for name, path in MODULES.items():
        imported = imports(ast.parse(path.read_text(encoding="utf-8")), in_functions=False)
        known = {one if one in MODULES else one.rpartition(".")[0] for one in imported}
        graph[name] = {one for one in known if one in MODULES and one != name}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" imports ".join(reversed(error.args[1]))) from None


IMPORT_ALL = """
import importlib, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "gmmatch_paper":
            raise AssertionError(f"{name} was imported")

sys.meta_path.insert(0, Blocked())
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:  # an optional package may be missing, ours may not
        assert error.name.partition(".")[0] not in ("gmmatch", "gmmatch_paper"), error
import gmmatch
for name in gmmatch.__all__:
    getattr(gmmatch, name)
"""


def test_every_module_is_imported_without_the_laboratory():
    command = [sys.executable, "-c", IMPORT_ALL, *MODULES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
