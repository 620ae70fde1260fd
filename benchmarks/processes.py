"""Running parts of a benchmark in fresh interpreters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_REPOSITORY = Path(__file__).resolve().parent.parent


class ProcessFailed(RuntimeError):  # noqa: N818
    """A child process ended with an error."""


def run_module(module: str, *arguments: object, environment: dict[str, str] | None = None) -> Any:
    """Run ``python -m module`` and return the JSON of its last line."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(
        command, cwd=_REPOSITORY, env=_with(environment), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ProcessFailed(f"{module} failed: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def wall_time(command: list[str]) -> float:
    """Return the seconds a command takes from its start to its end."""
    start = time.perf_counter()
    done = subprocess.run(command, cwd=_REPOSITORY, capture_output=True, text=True, check=False)
    elapsed = time.perf_counter() - start
    if done.returncode != 0:
        raise ProcessFailed(f"exit status {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
    return elapsed


def _with(environment: dict[str, str] | None) -> dict[str, str]:
    return {**os.environ, **(environment or {})}
