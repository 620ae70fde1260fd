"""Workers that stand somewhere, are asked together, and are replaced when they die."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from gmmatch.backends.cluster.errors import WorkerLostError
from gmmatch.backends.cluster.pieces import WorkerSpec
from gmmatch.backends.cluster.traffic import Traffic, payload_bytes

# A worker that dies so often in one call will die again.
_MOST_REPLACEMENTS = 5


class Engine(Protocol):
    """Where work runs.

    Attributes
    ----------
    name
        Of the kind of engine.
    workers
        How many workers it gives rows to.
    """

    name: str
    workers: int

    def place(self, specs: Sequence[WorkerSpec]) -> Placement:
        """Make a worker of each spec."""
        ...


class Died(Exception):  # noqa: N818 (a message from an engine to its placement, not an error of the user's)
    """A worker is gone, together with the call that it was working on."""


class Placement(ABC):
    """Workers, one per spec.

    An engine says how to start one, how to ask it and how to wait for the answer; asking all, counting bytes
    and replacing the dead are the same everywhere.

    Attributes
    ----------
    traffic
        The bytes moved so far.
    replaced
        How many workers were made again.
    restore
        Called with a worker's number when it was made again: returns the rows that it must know are picked.
    """

    def __init__(self, specs: Sequence[WorkerSpec]) -> None:
        self.specs = list(specs)
        self.traffic = Traffic()
        self.replaced = 0
        self.restore: Callable[[int], Any] = lambda number: None
        self._lost = [0] * len(self.specs)

    def __len__(self) -> int:
        return len(self.specs)

    def __enter__(self) -> Placement:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def start(self, number: int) -> None:
        """Make a worker, or make it again."""

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
        """Ask all workers and return their answers in order.

        Parameters
        ----------
        method
            Of :class:`~gmmatch.backends.cluster.worker.ShardWorker`.
        *shared
            Arguments that are the same for all.
        each
            The first arguments of each worker; None leaves a worker out, and its answer is None.

        Returns
        -------
        list
        """
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
            self.traffic.count(method, sent=sent, received=payload_bytes(results[number]))
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
                known = self.restore(number)
                if known is not None and len(known):
                    self.wait(number, self.ask(number, "mark", (known,)))
                return
            except Died as again:
                death = again
