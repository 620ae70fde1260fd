"""The engine of this machine: workers that are threads."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from gmmatch.backends.cluster.compute import check_device
from gmmatch.backends.cluster.on_device import usable_gpus
from gmmatch.backends.cluster.pieces import WorkerSpec
from gmmatch.backends.cluster.placement import Placement
from gmmatch.backends.cluster.worker import ShardWorker
from gmmatch.rows.parallel import resolve_jobs


class LocalEngine:
    """Run workers as threads of this process.

    The compiled loops do not hold Python's lock, so threads are all that is needed.

    Parameters
    ----------
    workers : int
        How many; -1 for one per core, or per GPU if they compute there. The picks do not depend on it.
    device : "cpu", "cuda" or "auto"
        Where they compute: on this machine's cores, on its GPUs (through torch, with as many rows there as fit), or
        on GPUs if there are any.

    Examples
    --------
    >>> LocalEngine(workers=2).workers
    2
    """

    name = "local"

    def __init__(self, workers: int = -1, device: str = "cpu") -> None:
        gpus = usable_gpus()[0] if check_device(device) != "cpu" else 0
        self.workers = gpus if gpus and workers == -1 else resolve_jobs(workers)
        self.device = device

    def place(self, specs: Sequence[WorkerSpec]) -> LocalPlacement:
        """Make a worker of each spec."""
        return LocalPlacement([replace(spec, device=self.device) for spec in specs])

    def __enter__(self) -> LocalEngine:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is left to end."""


class LocalPlacement(Placement):
    """Workers of this process, a thread for each."""

    def __init__(self, specs: Sequence[WorkerSpec]) -> None:
        super().__init__(specs)
        self.objects = [self.made(spec) for spec in self.specs]
        self._pool = ThreadPoolExecutor(max(1, len(self.specs)), thread_name_prefix="gmmatch-worker")

    def start(self, number: int) -> None:
        """Make a worker again, without what it knew."""
        self.objects[number] = self.made(self.specs[number])

    def made(self, spec: WorkerSpec) -> ShardWorker:
        """Return the worker of a spec."""
        return ShardWorker(spec)

    def ask(self, number: int, method: str, arguments: tuple[Any, ...]) -> Future[Any]:
        """Begin a call."""
        return self._pool.submit(getattr(self.objects[number], method), *arguments)

    def wait(self, number: int, pending: Future[Any]) -> Any:
        """Return a call's result."""
        return pending.result()

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)
