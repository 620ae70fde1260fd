"""A Ray cluster: joining one, and workers on it.

Workers are started together, asked with a limit on how long to wait, and ended. Ray restarts one that dies and
repeats its call. Left to us is what Ray would wait for forever: machines that do not come back, and processes of its
own that hang.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from gmmatch._checks import check_number, check_whole_number
from gmmatch.errors import GMMatchError, InvalidInputError, InvalidTypeError, first_line, imported

# How long an address may take to answer at all, and as a Ray cluster.
_ANSWER_SECONDS, _JOIN_SECONDS = 10.0, 60.0
# How long a call may take before the driver asks whether its worker still lives.
_CHECK_SECONDS = 5.0
# How much longer than it was allowed to a call of Ray may take before this machine's part of Ray counts as dead.
_SILENT_SECONDS = 10.0
# The addresses that this process has joined; a second engine may name the last of them again.
_joined: list[str | None] = []


@dataclass(frozen=True)
class RayEngine:
    """Run on a Ray cluster, as ``engine=RayEngine(8)``; ``engine="ray"`` is short for ``engine=RayEngine()``.

    Parameters
    ----------
    n_workers : int, optional
        Processes, each with a shard of the rows; one per core (or per GPU, with ``num_gpus``) by default. The picks
        do not depend on it.
    address : str, optional
        Of a running cluster: "auto", "host:6379" or "ray://host:10001". By default the cluster that this process is
        connected to or that ``RAY_ADDRESS`` names; without one, Ray is started on this machine until the process
        ends.
    num_cpus, num_gpus : float
        What Ray reserves for each worker. With ``num_gpus`` its rows are kept on the GPU.
    max_restarts : int
        How often Ray restarts a worker that died, and repeats its call.
    timeout : float
        Seconds to wait for a worker to start, at the beginning and after each restart.

    Examples
    --------
    >>> RayEngine(8).n_workers
    8
    """

    n_workers: int | None = None
    address: str | None = None
    num_cpus: float = 1.0
    num_gpus: float = 0.0
    max_restarts: int = 4
    timeout: float = 45.0

    def __post_init__(self) -> None:
        if self.n_workers is not None:
            check_whole_number(self.n_workers, "n_workers", what="whole number of workers")
        check_whole_number(self.max_restarts, "max_restarts", 0)
        check_number(self.num_cpus, "num_cpus")
        check_number(self.num_gpus, "num_gpus")
        check_number(self.timeout, "timeout", above_zero=True)

    def connect(self) -> int:
        """Connect to the cluster unless that was done already; return the number of workers."""
        ray = imported("ray", "RayEngine needs Ray", "ray")
        if not ray.is_initialized():
            _connect(ray, self.address or os.environ.get("RAY_ADDRESS"))
            _joined.append(self.address)
        elif (
            self.address not in (None, "auto", *_joined[-1:])
            and self.address != ray.get_runtime_context().gcs_address
        ):
            raise InvalidInputError(
                f"address={self.address!r}: this process is connected to a Ray cluster already; leave the address "
                "out to use that one, or call ray.shutdown() first."
            )
        resources = ray.cluster_resources()
        room = [
            int(resources.get(name, 0) / amount)
            for name, amount in (("CPU", self.num_cpus), ("GPU", self.num_gpus))
            if amount > 0
        ]
        n_workers = self.n_workers or max(1, min(room, default=1))
        if min(room, default=n_workers) < n_workers:
            raise InvalidInputError(
                f"n_workers={n_workers}: the cluster has {resources.get('CPU', 0):g} CPUs and "
                f"{resources.get('GPU', 0):g} GPUs, which is room for {min(room)} workers: ask for fewer, or add "
                "machines by `ray start --address=...`."
            )
        return n_workers


def parse_engine(engine: str | RayEngine) -> RayEngine:
    """Return the engine that a text names.

    Parameters
    ----------
    engine : str or RayEngine
        "ray", "ray:8" for eight workers, or the address of a cluster: "ray://host:10001".

    Examples
    --------
    >>> parse_engine("ray:8")
    RayEngine(n_workers=8, address=None, num_cpus=1.0, num_gpus=0.0, max_restarts=4, timeout=45.0)
    """
    if isinstance(engine, RayEngine):
        return engine
    expected = 'expected "ray", "ray:8" (workers), "ray://host:10001" (a cluster) or a RayEngine'
    if not isinstance(engine, str):
        raise InvalidTypeError(f"engine has type {type(engine).__name__}: {expected}.")
    if engine.startswith("ray://"):
        return RayEngine(address=engine)
    match = re.fullmatch(r"ray(?::([1-9][0-9]*))?", engine)
    if match is None:
        raise InvalidInputError(f"engine={engine!r}: {expected}.")
    return RayEngine(int(match[1]) if match[1] else None)


def _connect(ray: Any, address: str | None) -> None:
    # Reports to Ray's makers are for whoever runs the cluster to decide.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address is None:
            # "local" and not None, which would look for a running cluster first.
            ray.init(address="local", include_dashboard=False, **options)
        else:
            _check_reachable(address)
            # Where something else than Ray listens, Ray tries for minutes.
            _within(_JOIN_SECONDS, partial(ray.init, address=address, **options))
    except Exception as error:  # Ray raises many kinds, and plain exceptions as well
        if address is None:
            raise GMMatchError(f"Ray could not be started on this machine: {first_line(error)}.") from error
        raise InvalidInputError(
            f"address={address!r}: no Ray cluster can be joined there ({first_line(error)}). Start one by `ray start "
            "--head`, or leave the address out to run on this machine."
        ) from None


def _within(seconds: float, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of Ray, and raise if it takes longer; Ray waits forever for a process that hangs."""
    answer: Future[Any] = Future()

    def call() -> None:
        try:
            answer.set_result(function(*args))
        except BaseException as error:
            answer.set_exception(error)

    # A thread that never comes back must not keep the process from ending.
    threading.Thread(target=call, daemon=True).start()
    if not wait([answer], seconds).done:
        raise TimeoutError(f"no answer of Ray within {seconds:g} seconds")
    return answer.result()


def _check_reachable(address: str) -> None:
    """Raise at once if nobody listens at host:port; Ray would go on trying for minutes."""
    parts = urlsplit(address if "://" in address else f"//{address}")
    if parts.hostname and parts.port:
        socket.create_connection((parts.hostname, parts.port), timeout=_ANSWER_SECONDS).close()


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
        return _within(seconds + _SILENT_SECONDS, function, *args)
    except errors.GetTimeoutError:
        raise
    except errors.RayTaskError as error:  # before TimeoutError, which may be what the worker raised
        raise error.cause if isinstance(error.cause, Exception) else error from None
    except TimeoutError:
        raise WorkerLostError(
            "Ray's processes on this machine give no answer: see `ray status`, and start Ray again."
        ) from None
    except errors.RayError as error:
        raise WorkerLostError(
            f"A worker is lost ({first_line(error)}): it may have run out of memory; ask for more workers, so that "
            "each has fewer rows, or raise max_restarts."
        ) from None


def share(engine: RayEngine, value: Any) -> Any:
    """Put a value into Ray's object store, and return a reference to it."""
    ray = imported("ray", "RayEngine needs Ray", "ray")
    return ask(engine.timeout, ray.put, value)
