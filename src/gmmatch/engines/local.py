"""The engine of this machine: workers that are threads."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from gmmatch.engines.pieces import WorkerSpec
from gmmatch.engines.placement import Placement
from gmmatch.engines.worker import ShardWorker
from gmmatch.parallel import resolve_jobs


class LocalEngine:
    """Run workers as threads of this process.

    The compiled loops do not hold Python's lock, so threads are all that is needed.

    Parameters
    ----------
    workers : int
        How many; -1 for one per core. The picks do not depend on it.

    Examples
    --------
    >>> LocalEngine(workers=2).workers
    2
    """

    name = "local"

    def __init__(self, workers: int = -1) -> None:
        self.workers = resolve_jobs(workers)

    def place(self, specs: Sequence[WorkerSpec]) -> LocalPlacement:
        """Make a worker of each spec."""
        return LocalPlacement(specs)

    def __enter__(self) -> LocalEngine:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is left to end."""


class LocalPlacement(Placement):
    """Workers of this process, a thread for each."""

    def __init__(self, specs: Sequence[WorkerSpec]) -> None:
        super().__init__(specs)
        self.objects = [ShardWorker(spec) for spec in self.specs]
        self._pool = ThreadPoolExecutor(max(1, len(self.specs)), thread_name_prefix="gmmatch-worker")

    def start(self, number: int) -> None:
        """Make a worker again, without what it knew."""
        self.objects[number] = ShardWorker(self.specs[number])

    def ask(self, number: int, method: str, arguments: tuple[Any, ...]) -> Future[Any]:
        """Begin a call."""
        return self._pool.submit(getattr(self.objects[number], method), *arguments)

    def wait(self, number: int, pending: Future[Any]) -> Any:
        """Return a call's result."""
        return pending.result()

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)
