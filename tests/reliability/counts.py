"""What the commands of this folder count: written as JSON, printed as their last line, and read back by tests."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gmmatch import __version__

HERE = Path(__file__).parent
RESULTS = HERE / "results"
# What each command counts with: counts say by which of its versions they were made.
HARNESS = {
    "kills": ("kills", "killed_commands"),
    "disks": ("disks", "kills", "killed_commands"),
    "cluster": ("cluster",),
    "load": ("load",),
    "fuzz": ("fuzz", "fuzzed_arguments"),
}


def parser_of(module: str, about: str | None) -> ArgumentParser:
    """Return a parser for a command of this folder, with the option that all of them have."""
    parser = ArgumentParser(prog=f"python -m tests.reliability.{module}", description=about)
    parser.add_argument("--json", type=lambda name: Path(name).absolute(), help="write the counts here")
    return parser


def harness_version(module: str) -> str:
    """Return a hash of the files that a command of this folder consists of."""
    digest = hashlib.sha256()
    for name in HARNESS[module]:
        digest.update((HERE / f"{name}.py").read_bytes())
    return digest.hexdigest()[:12]


def report(module: str, counts: dict[str, Any], path: Path | None) -> None:
    """Write what was counted, and with what, to a file, if one is given, and print it in one line."""
    counts = {"version": __version__, "harness": harness_version(module), **counts}
    if path is not None:
        path.write_text(json.dumps(counts, indent=1) + "\n")
    print(json.dumps(counts))


def run(
    module: str, *arguments: object, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command of this folder in a process of its own."""
    command = [sys.executable, "-m", f"tests.reliability.{module}", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=RESULTS.parents[2],
        env={**os.environ, **(environment or {})},
    )  # fmt: skip


def counted(module: str, *arguments: object, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run a command of this folder, which must keep its promise, and return what it counts."""
    done = run(module, *arguments, environment=environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def committed(name: str) -> dict[str, Any]:
    """Return the counts of the full run."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found
