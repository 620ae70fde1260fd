"""Workers that are asked together and replaced when they die; and the engine of this machine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from gmmatch.backends.cluster.compute import check_device
from gmmatch.backends.cluster.on_device import usable_gpus
from gmmatch.backends.cluster.pieces import WorkerSpec
from gmmatch.backends.cluster.worker import ShardWorker
from gmmatch.errors import GMMatchError
from gmmatch.rows.parallel import resolve_jobs


def payload_bytes(value: Any) -> int:
    """Return the bytes of the numbers and texts in a value, without what it takes to pack them.

    Examples
    --------
    >>> payload_bytes((np.zeros((2, 3)), True, ["ab"]))
    58
    """
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, (tuple, list)):
        return sum(payload_bytes(item) for item in value)
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, dict):
        return payload_bytes(list(value.values()))
    if isinstance(value, FunctionType):  # with what it was made with
        return payload_bytes([cell.cell_contents for cell in value.__closure__ or ()])
    if isinstance(value, ModuleType):
        return 0
    if hasattr(value, "__dict__"):  # a map of rows, for example
        return payload_bytes(list(vars(value).values()))
    return 0 if value is None else 8


@dataclass
class MethodTraffic:
    """Bytes of one kind of call: to all workers, back from them, and the most that one message had."""

    calls: int = 0
    sent: int = 0
    received: int = 0
    largest_sent: int = 0
    largest_received: int = 0

    def count(self, *, sent: int, received: int) -> None:
        """Add one worker's call."""
        self.calls += 1
        self.sent += sent
        self.received += received
        self.largest_sent = max(self.largest_sent, sent)
        self.largest_received = max(self.largest_received, received)


def summary(traffic: dict[str, MethodTraffic]) -> dict[str, Any]:
    """Return the bytes of all calls, and those of each kind, in what JSON can hold.

    Examples
    --------
    >>> summary({"scan": MethodTraffic(2, 100, 80, 60, 40)})["sent"]
    100
    """
    totals = {way: sum(getattr(kind, way) for kind in traffic.values()) for way in ("sent", "received")}
    return {**totals, "by_call": {name: asdict(kind) for name, kind in traffic.items()}}


if TYPE_CHECKING:
    from typing import Self

# A worker that dies so often in one call will die again.
_MOST_REPLACEMENTS = 5


class WorkerLostError(GMMatchError, RuntimeError):
    """A worker died and could not be replaced."""


Progress = Callable[[str, int, "int | None"], None]
"""Called with what is being done ("median" or "picks"), how far it is, and how far it has to go, if that is known."""


class Engine(ABC):
    """Where work runs.

    Attributes
    ----------
    name
        Of the kind of engine.
    workers
        How many workers it gives rows to.
    skip_unreadable
        Whether to go on without files that cannot be read.
    progress
        Called with the progress.
    """

    name: str
    workers: int
    skip_unreadable: bool
    progress: Progress | None

    @abstractmethod
    def place(self, specs: Sequence[WorkerSpec]) -> Placement:
        """Make a worker of each spec."""

    def close(self) -> None:  # noqa: B027 (not every engine has something to end)
        """End what was started for this engine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Died(Exception):  # noqa: N818 (a message from an engine to its placement, not an error of the user's)
    """A worker is gone, together with the call that it was working on."""


class Placement(ABC):
    """Workers, one per spec.

    An engine says how to start one, how to ask it and how to wait for the answer; asking all, counting bytes
    and replacing the dead are the same everywhere.

    Attributes
    ----------
    traffic
        The bytes moved so far, by the kind of call.
    replaced
        How many workers were started again.
    known
        Called with the number of a worker that was started again: returns the calls that tell it what it should know.
    """

    def __init__(self, specs: Sequence[WorkerSpec]) -> None:
        self.specs = list(specs)
        self.traffic: defaultdict[str, MethodTraffic] = defaultdict(MethodTraffic)
        self.replaced = 0
        self.known: Callable[[int], list[tuple[str, Any]]] = lambda number: []
        self._lost = [0] * len(self.specs)

    def __len__(self) -> int:
        return len(self.specs)

    def __enter__(self) -> Placement:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def start(self, number: int) -> None:
        """Start a worker, or start it again."""

    @abstractmethod
    def ask(self, number: int, method: str, arguments: tuple[Any, ...]) -> Any:
        """Begin a call and return what :meth:`wait` takes."""

    @abstractmethod
    def wait(self, number: int, pending: Any) -> Any:
        """Return a call's result; raise :class:`Died` if its worker is gone."""

    def share(self, value: Any) -> Any:
        """Prepare an argument that all workers get."""
        return value

    def close(self) -> None:  # noqa: B027 (not every engine has something to end)
        """End the workers."""

    def call(
        self, method: str, *shared: Any, each: Sequence[tuple[Any, ...] | None] | None = None
    ) -> list[Any]:
        """Ask all workers and return their answers in order."""
        own = [()] * len(self) if each is None else list(each)
        handles = tuple(self.share(value) for value in shared)
        self._lost = [0] * len(self)
        pending: dict[int, Any] = {}
        for number, arguments in enumerate(own):
            if arguments is not None:
                pending[number] = self._begin(number, method, (*arguments, *handles))
        results: list[Any] = [None] * len(self)
        for number, handle in pending.items():
            arguments = own[number] or ()
            results[number] = self._finish(number, method, (*arguments, *handles), handle)
            sent = payload_bytes(arguments) + payload_bytes(shared)
            self.traffic[method].count(sent=sent, received=payload_bytes(results[number]))
        return results

    def _begin(self, number: int, method: str, arguments: tuple[Any, ...]) -> Any:
        while True:
            try:
                return self.ask(number, method, arguments)
            except Died as death:
                self._replace(number, death)

    def _finish(self, number: int, method: str, arguments: tuple[Any, ...], pending: Any) -> Any:
        while True:
            try:
                return self.wait(number, pending)
            except Died as death:
                self._replace(number, death)
                pending = self._begin(number, method, arguments)

    def _replace(self, number: int, death: Died) -> None:
        while True:
            self._lost[number] += 1
            if self._lost[number] > _MOST_REPLACEMENTS:
                raise WorkerLostError(
                    f"Worker {number} died {self._lost[number]} times in the same step and was not replaced again "
                    f"({death}). Does its share of the rows fit a machine's memory? More workers make it smaller."
                ) from None
            self.replaced += 1
            try:
                self.start(number)
                for method, argument in self.known(number):
                    self.wait(number, self.ask(number, method, (argument,)))
                return
            except Died as again:
                death = again


class LocalEngine(Engine):
    """Run workers as threads of this process.

    The compiled loops release Python's lock, so threads are enough.

    Parameters
    ----------
    workers : int
        How many; -1 for one per core, or per GPU if they compute there. The picks do not depend on it.
    device : "cpu", "cuda" or "auto"
        Where they compute: on this machine's cores, on its GPUs (through torch, with as many rows there as fit), or
        on GPUs if there are any.
    skip_unreadable : bool
        Whether to go on without files that cannot be read. They are listed in the provenance.
    progress : callable, optional
        Called as ``progress(phase, done, total)`` with phase "median" (classes) or "picks" (rows).

    Examples
    --------
    >>> LocalEngine(workers=2).workers
    2
    """

    name = "local"

    def __init__(
        self,
        workers: int = -1,
        device: str = "cpu",
        *,
        skip_unreadable: bool = False,
        progress: Progress | None = None,
    ) -> None:
        gpus = usable_gpus()[0] if check_device(device) != "cpu" else 0
        self.workers = gpus if gpus and workers == -1 else resolve_jobs(workers)
        self.device, self.skip_unreadable, self.progress = device, skip_unreadable, progress

    def place(self, specs: Sequence[WorkerSpec]) -> LocalPlacement:
        """Make a worker of each spec."""
        return LocalPlacement([replace(spec, device=self.device) for spec in specs])


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
        """End the threads, and let the workers close their files."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self.objects.clear()
