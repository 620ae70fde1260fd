"""Results on disk: a journal while a study runs, one JSON file when it is done.

The journal gets a line per finished cell, so a study that is killed resumes. The JSON file
is written under a temporary name and renamed: it is whole or not there.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import gmmatch
from gmmatch.errors import DataFileNotFoundError, InvalidInputError
from gmmatch.files import write_file
from gmmatch_paper.studies import image_study_names, study_names
from gmmatch_paper.studies.results import Cells, Results
from gmmatch_paper.studies.study import Part

SCHEMA = 1

_LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn", "matplotlib")


def plain(value: Any) -> Any:
    """Return a measured value as JSON holds it: plain types, floats with six digits.

    Rounding happens once, before anything is drawn or checked, so that a figure drawn from a file is the
    figure that was drawn from the run.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        if not math.isfinite(value):
            raise InvalidInputError(f"A study measured {value}, which JSON cannot hold.")
        return float(f"{float(value):.6g}")
    if value is None or isinstance(value, str):
        return value
    raise InvalidInputError(f"A study measured a {type(value).__name__}, which JSON cannot hold.")


def cell_key(part: str, code: str, fixed: Mapping[str, Any], cell: Mapping[str, Any]) -> str:
    """Return a text that is equal for two cells exactly when one can stand in for the other."""
    return json.dumps([part, code, plain(fixed), plain(cell)], sort_keys=True)


@lru_cache(maxsize=1)
def source_commit() -> str | None:
    """Return the commit of the source that runs, or None where it is no checkout."""
    asked = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--abbrev=10", "--dirty"]
    try:
        found = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()


def part_code(part: Part) -> str:
    """Return what stands for the code of a part: what its author says, or the version and a hash of the source."""
    if part.code is not None:
        return part.code
    module = sys.modules[part.measure.__module__]
    used = {str(getattr(value, "__module__", "")) for value in vars(module).values()}
    names = sorted({module.__name__, *(name for name in used if name.startswith(_PACKAGE))})
    sources = "\n".join(inspect.getsource(sys.modules[name]) for name in names)
    return f"{gmmatch.__version__} {hashlib.sha256(sources.encode()).hexdigest()[:12]}"


_PACKAGE = __name__.partition(".")[0]


class Journal:
    """Finished cells of a study that is running, one line each.

    Parameters
    ----------
    path : Path
        ``NAME.partial.jsonl``; removed when the study is done.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, dict[str, Any]]:
        """Return what is finished, by key. A last line that was cut off is left out."""
        if not self.path.exists():
            return {}
        found = {}
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
                found[entry["key"]] = entry["measured"]
            except (json.JSONDecodeError, KeyError, TypeError):
                continue
        return found

    def append(self, key: str, measured: Mapping[str, Any]) -> None:
        """Add a finished cell, at once and for good."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"key": key, "measured": measured})
        # The line break goes first: after a cut-off line, this one is still whole.
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n" + line)
            file.flush()
            os.fsync(file.fileno())

    def remove(self) -> None:
        """Forget the journal."""
        self.path.unlink(missing_ok=True)


def provenance(command: str, jobs: int, seeds: Mapping[str, int]) -> dict[str, Any]:
    """Return how the numbers came about, without the name of the machine or of any folder on it."""
    return {
        "gmmatch": gmmatch.__version__,
        "command": command,
        "seeds": dict(seeds),
        "jobs": jobs,
        "cpu": _cpu_model(),
        "cores": os.cpu_count() or 1,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "libraries": {name: _version_of(name) for name in _LIBRARIES},
    }


def write_results(path: Path, record: Mapping[str, Any]) -> None:
    """Write a study's record as JSON, one line per cell; whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, _as_text(record).encode())


def read_record(path: Path) -> dict[str, Any]:
    """Read a study's record."""
    if not path.exists():
        raise DataFileNotFoundError(f"No results at {path}: {_how_to_measure(path.stem)}.")
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise InvalidInputError(
            f"{path} is not JSON ({error}); delete it and run the study again."
        ) from error
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        raise InvalidInputError(f"{path} was not written by this version of gmmatch; run the study again.")
    return record


def _how_to_measure(name: str) -> str:
    if name in (*study_names(), *image_study_names()):
        return f"run `gmmatch reproduce {name}` first"
    return "no study is called that; `gmmatch reproduce --list` says which there are"


def as_results(record: Mapping[str, Any]) -> Results:
    """Return a record as results to ask questions of."""
    return Results(
        study=record["study"],
        size=record["size"],
        parts={name: Cells(part["cells"]) for name, part in record["parts"].items()},
        fixed={name: part["fixed"] for name, part in record["parts"].items()},
        provenance=record["provenance"],
    )


def _as_text(record: Mapping[str, Any]) -> str:
    # json's own indentation would give every number of every list its own line.
    lines = []
    for key, value in record.items():
        if key != "parts":
            lines.append(f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
            continue
        parts = []
        for name, part in value.items():
            head = {field: item for field, item in part.items() if field != "cells"}
            cells = ",\n".join("        " + json.dumps(cell, ensure_ascii=False) for cell in part["cells"])
            opening = json.dumps(head, ensure_ascii=False)[:-1]
            parts.append(f'    {json.dumps(name)}: {opening}, "cells": [\n{cells}\n      ]}}')
        lines.append('  "parts": {\n' + ",\n".join(parts) + "\n  }")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
