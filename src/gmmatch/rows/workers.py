"""Workers of a Ray cluster: started together, asked with a limit on how long to wait, and ended.

Ray restarts a worker that dies and repeats its call. Left to us is what Ray would wait for forever: machines that do
not come back, and processes of its own that hang.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from gmmatch.errors import GMMatchError, first_line, imported
from gmmatch.rows.engine import RayEngine, SilentError, within

# How long a call may take before the driver asks whether its worker still lives.
_CHECK_SECONDS = 5.0
# How much longer than it was allowed to a call of Ray may take before this machine's part of Ray counts as dead.
_SILENT_SECONDS = 10.0


class WorkerLostError(GMMatchError, RuntimeError):
    """A worker died more often than it may be restarted, or there is no machine to restart it on."""


class Workers:
    """Actors of one class, which hold nothing that they cannot make again from the arguments they are given.

    Parameters
    ----------
    kind : type
        The class; it has a method ``ping`` besides its own.
    engine : RayEngine
        A connected one.
    arguments : sequence of tuples
        What each worker is made with, references among them.

    Attributes
    ----------
    actors : list
    """

    def __init__(self, kind: type, engine: RayEngine, arguments: Sequence[tuple[Any, ...]]) -> None:
        self._ray, self._timeout = imported("ray", "RayEngine needs Ray", "ray"), engine.timeout
        actor = self._ray.remote(
            num_cpus=engine.num_cpus,
            num_gpus=engine.num_gpus,
            max_restarts=engine.max_restarts,
            # A call that finds no worker does not count: a machine that is gone is noticed after a while only.
            max_task_retries=-1,
            scheduling_strategy="SPREAD",
            concurrency_groups={"health": 1},
        )(kind)
        self.actors = [actor.remote(*some) for some in arguments]
        try:
            self._check("start")
        except BaseException:
            self.close()
            raise

    def collect(self, pending: Sequence[Any]) -> list[Any]:
        """Return the results of calls, in order; raise what a worker raised."""
        get = partial(self._ray.get, list(pending), timeout=_CHECK_SECONDS)
        while True:
            try:
                results: list[Any] = ask(_CHECK_SECONDS, get)
                return results
            except self._ray.exceptions.GetTimeoutError:
                self._check("start again")

    def wait(self, pending: Sequence[Any]) -> list[Any]:
        """Return those of some calls that have come back, at least one; their errors come with their results."""
        wait = partial(self._ray.wait, list(pending), timeout=_CHECK_SECONDS)
        done: list[Any] = []
        while not done:
            done, _ = ask(_CHECK_SECONDS, wait)
            if not done:
                self._check("start again")
        return done

    def close(self) -> None:
        """End the workers."""
        if self._ray.is_initialized():
            with suppress(WorkerLostError):
                ask(0.0, lambda: [*map(self._ray.kill, self.actors)])

    def _check(self, action: str) -> None:
        """Raise unless all workers answer in time; without a machine to run on, Ray would wait for one forever."""
        calls = [actor.ping.options(concurrency_group="health").remote() for actor in self.actors]
        _, missing = ask(
            self._timeout, partial(self._ray.wait, calls, num_returns=len(calls), timeout=self._timeout)
        )
        if missing:
            raise WorkerLostError(
                f"{len(missing)} of {len(calls)} workers did not {action} within {self._timeout:g} seconds: machines "
                "may be gone, or other jobs hold their CPUs (see `ray status`): ask for fewer workers, or wait."
            )
        ask(_CHECK_SECONDS, self._ray.get, calls)


def ask(seconds: float, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of Ray that should come back within some seconds; raise what a worker raised."""
    errors = imported("ray", "RayEngine needs Ray", "ray").exceptions
    try:
        return within(seconds + _SILENT_SECONDS, function, *args)
    except SilentError:
        raise WorkerLostError(
            "Ray's processes on this machine give no answer: see `ray status`, and start Ray again."
        ) from None
    except errors.GetTimeoutError:
        raise
    except errors.RayTaskError as error:
        raise error.cause if isinstance(error.cause, Exception) else error from None
    except errors.RayError as error:
        raise WorkerLostError(
            f"A worker is lost ({first_line(error)}): it may have run out of memory; ask for more workers, so that "
            "each has fewer rows, or raise max_restarts."
        ) from None


def share(engine: RayEngine, value: Any) -> Any:
    """Put a value into Ray's object store, and return a reference to it."""
    ray = imported("ray", "RayEngine needs Ray", "ray")
    return ask(engine.timeout, ray.put, value)
