"""What a cluster of Ray needs on the machine of a test."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar
from unittest import mock

Result = TypeVar("Result")

# Ray reads these when its processes start. A machine that is busy with other things is no reason to kill workers.
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


def retry(start: Callable[[], Result], clean_up: Callable[[], object]) -> Result:
    """Start something of Ray, up to three times: a busy machine may take longer than Ray waits for it."""
    for _ in range(2):
        try:
            return start()
        except Exception:
            clean_up()
    return start()


@contextmanager
def ray_folder() -> Iterator[str]:
    """Hold an empty folder for a cluster, and these settings in the environment."""
    folder = tempfile.mkdtemp(prefix="gm")  # short: the names of sockets have a limit
    with mock.patch.dict(os.environ, {**SETTINGS, "RAY_TMPDIR": folder}):
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
