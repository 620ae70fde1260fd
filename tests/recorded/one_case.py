"""What a recorded case is, and what it needs to run."""

from __future__ import annotations

import contextlib
import hashlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tests.ray_processes import ray_folder


@dataclass(frozen=True)
class Place:
    """Where a case runs: an empty folder of its own, and how many threads (None for what is usual)."""

    folder: Path
    jobs: int | None = None


@dataclass(frozen=True)
class Case:
    """A call that returns row numbers; ``needs`` names what it cannot do without."""

    name: str
    call: Callable[[Place], Any]
    needs: tuple[str, ...] = ()
    note: str = ""

    def record(self, place: Place) -> dict[str, Any]:
        """Make the call and describe its row numbers as the JSON file does."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            order = np.ascontiguousarray(self.call(place), dtype="<i8")
        found = {
            "hash": hashlib.sha256(order.tobytes()).hexdigest(),
            "first": order[:5].tolist(),
            "k": len(order),
        }
        return {**found, "note": self.note} if self.note else found


def missing(case: Case) -> str | None:
    """Return what a case needs and this machine does not have."""
    for need in case.needs:
        if need == "cuda":
            if find_spec("torch") is None:
                return "torch"
            import torch

            if not torch.cuda.is_available():
                return "a CUDA device"
        elif find_spec(need) is None:
            return need
    return None


@contextlib.contextmanager
def ray_cluster() -> Iterator[None]:
    """Hold a cluster of two CPUs on this machine, which the Ray engine then uses."""
    import ray

    if ray.is_initialized():
        yield
        return
    with ray_folder() as folder:
        try:
            ray.init(
                address="local", num_cpus=2, num_gpus=0, object_store_memory=80_000_000,
                include_dashboard=False, log_to_driver=False, logging_level="ERROR", _temp_dir=folder,
            )  # fmt: skip
            yield
        finally:
            ray.shutdown()
