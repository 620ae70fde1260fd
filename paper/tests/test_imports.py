"""gmmatch-paper is built on what gmmatch shows: no private module, and no private name of a public one."""

from __future__ import annotations

import ast
from pathlib import Path

import gmmatch_paper

FILES = sorted(Path(gmmatch_paper.__file__).parent.rglob("*.py"))


def imported_names(path: Path) -> list[str]:
    """Return the dotted names that a file imports from gmmatch."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "gmmatch":
            found += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.partition(".")[0] == "gmmatch"]
    return found


def test_only_public_names_of_gmmatch_are_imported() -> None:
    names = {name: path for path in FILES for name in imported_names(path)}
    assert "gmmatch.errors.InvalidInputError" in names  # the walk finds imports
    private = [
        name
        for name in names
        if any(part[0] == "_" for part in name.split(".")) and name != "gmmatch.__version__"
    ]
    assert private == []


def test_private_attributes_of_gmmatch_are_not_used() -> None:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "gm":
                assert not node.attr.startswith("_"), f"{path.name}: gm.{node.attr}"
