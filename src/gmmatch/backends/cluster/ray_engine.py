"""The engine of a Ray cluster: workers that are actors, one per CPU or per GPU."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from gmmatch.backends.cluster.compute import check_device
from gmmatch.backends.cluster.pieces import WorkerSpec
from gmmatch.backends.cluster.placement import (
    Died,
    Engine,
    Placement,
    Progress,
    WorkerLostError,
    payload_bytes,
)
from gmmatch.backends.cluster.worker import ShardWorker
from gmmatch.errors import InvalidInputError, imported

# From here on an argument of all workers is stored once per machine instead of being sent to each worker.
_SHARED_BYTES = 1 << 16
# How often to look whether workers were given a place, and how long a cluster may have no machine to give them one.
_LOOK_SECONDS, _GONE_SECONDS = 1.0, 20.0


class RayEngine(Engine):
    """Run workers as actors of a Ray cluster.

    Parameters
    ----------
    address : str, optional
        Of a running cluster: ``"auto"`` for the one that this machine belongs to, or ``"host:6379"``. By
        default the cluster that this process is connected to; if there is none, one is started on this machine,
        and stopped by :meth:`close`.
    workers : int
        How many; -1 for one per CPU of the cluster, or per GPU if they compute there. The picks do not depend
        on it.
    device : "auto", "cpu" or "cuda"
        Where they compute. With "auto", on GPUs if Ray reports some in the cluster and torch is installed; each
        worker is given one, or its part of one where there are more workers than GPUs.
    start_timeout : float
        Seconds to wait for a free place for a worker.
    skip_unreadable, progress
        As for :class:`LocalEngine`.

    Examples
    --------
    Stopping a cluster that was started here is left to ``with``::

        with RayEngine(address="auto") as engine:
            selection = gm.select("photos.emb", k="1%", engine=engine)
    """

    name = "ray"

    def __init__(
        self,
        address: str | None = None,
        workers: int = -1,
        *,
        device: str = "auto",
        start_timeout: float = 300.0,
        skip_unreadable: bool = False,
        progress: Progress | None = None,
    ) -> None:
        check_device(device)
        self.skip_unreadable, self.progress = skip_unreadable, progress
        self._ray = imported("ray", "The Ray engine needs Ray", "ray")
        self._ours = not self._ray.is_initialized()
        self.start_timeout = start_timeout
        if self._ours:
            _connect(self._ray, address)
        elif address not in (None, "auto"):
            raise InvalidInputError(
                f"address={address!r}: this process is connected to a cluster already; leave the address out to use "
                "it, or call ray.shutdown() first."
            )
        resources = self._ray.cluster_resources()
        cpus, gpus = (int(resources.get(kind, 0)) for kind in ("CPU", "GPU"))
        try:
            self.device = _checked_device(device, gpus)
            most = cpus if self.device == "cpu" else min(cpus, gpus)
            self.workers = _checked_workers(workers, cpus, most)
        except InvalidInputError:
            self.close()
            raise
        self.gpus_per_worker = 0.0 if self.device == "cpu" else gpu_share(self.workers, gpus)

    def place(self, specs: Sequence[WorkerSpec]) -> RayPlacement:
        """Make an actor of each spec."""
        specs = [replace(spec, device=self.device) for spec in specs]
        return RayPlacement(self._ray, specs, self.start_timeout, self.gpus_per_worker)

    def close(self) -> None:
        """Leave the cluster, and stop it if it was started here."""
        if self._ours and self._ray.is_initialized():
            self._ray.shutdown()


class RayPlacement(Placement):
    """Actors, one per spec."""

    def __init__(
        self, ray: Any, specs: Sequence[WorkerSpec], start_timeout: float, gpus_per_worker: float = 0.0
    ) -> None:
        super().__init__(specs)
        self._ray, self._timeout = ray, start_timeout
        # Restarts are the placement's own: a new actor has to be told what the old one knew.
        options = {"num_cpus": 1, "num_gpus": gpus_per_worker, "max_restarts": 0, "max_task_retries": 0}
        self._class = ray.remote(**options)(ShardWorker)
        self._handles = [ray.put(spec) for spec in self.specs]
        self.actors: list[Any] = [self._made(number) for number in range(len(self.specs))]
        try:
            self._await(self.actors)
        except Died as death:
            self.close()
            raise WorkerLostError(f"A worker died before it could begin ({death}).") from None
        except BaseException:
            self.close()
            raise

    def start(self, number: int) -> None:
        """Make an actor again."""
        self._ray.kill(self.actors[number])
        self.actors[number] = self._made(number)
        self._await([self.actors[number]])

    def ask(self, number: int, method: str, arguments: tuple[Any, ...]) -> Any:
        """Begin a call."""
        try:
            return getattr(self.actors[number], method).remote(*arguments)
        except self._ray.exceptions.RayActorError as error:
            raise Died(_reason(error)) from None

    def wait(self, number: int, pending: Any) -> Any:
        """Return a call's result."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(pending)
        except errors.RayTaskError as error:
            raise error.cause if isinstance(error.cause, Exception) else error from None
        except (errors.RayActorError, errors.WorkerCrashedError, errors.ObjectLostError) as error:
            raise Died(_reason(error)) from None

    def share(self, value: Any) -> Any:
        """Store a large argument once."""
        return self._ray.put(value) if payload_bytes(value) >= _SHARED_BYTES else value

    def close(self) -> None:
        """End the actors."""
        if self._ray.is_initialized():
            for actor in self.actors:
                self._ray.kill(actor)
        self.actors = []

    def _made(self, number: int) -> Any:
        return self._class.options(scheduling_strategy="SPREAD").remote(self._handles[number])

    def _await(self, actors: list[Any]) -> None:
        errors, begun = self._ray.exceptions, time.monotonic()
        pending, last_seen = [actor.__ray_ready__.remote() for actor in actors], begun
        while pending:
            ready, pending = self._ray.wait(pending, timeout=min(_LOOK_SECONDS, self._timeout))
            try:
                self._ray.get(ready)
            except errors.RayActorError as error:
                raise Died(_reason(error)) from None
            now = time.monotonic()
            last_seen = now if self._ray.cluster_resources().get("CPU") else last_seen
            if pending and now - last_seen > _GONE_SECONDS:
                raise WorkerLostError(
                    f"No machine of the cluster has had a CPU for {_GONE_SECONDS:.0f} seconds, so no worker could be "
                    "replaced. Start machines by `ray start --address=...`, and select again."
                )
            if pending and now - begun > self._timeout:
                raise WorkerLostError(
                    f"The cluster did not make room for {len(actors)} workers within {self._timeout:.0f} seconds: "
                    "other jobs may hold its CPUs (`ray status` shows them). Ask for fewer workers, or wait."
                )


def _connect(ray: Any, address: str | None) -> None:
    # Reports of use to Ray's makers are for whoever runs the cluster to decide.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        options["include_dashboard"] = False
    try:
        _knock(address)
        # "local" and not None, which would look for a running cluster first.
        ray.init(address=address or "local", **options)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise InvalidInputError(
            f"address={address!r}: no Ray cluster can be joined there ({_reason(error)}). Start one by `ray start "
            "--head`, or leave the address out to run on this machine."
        ) from None


def _knock(address: str | None) -> None:
    """Raise at once if nobody listens at host:port; Ray would go on trying for minutes."""
    host, _, port = (address or "").rpartition(":")
    if host and "/" not in host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=10.0).close()


def _checked_device(device: str, gpus: int) -> str:
    """Return "cpu" where there is no GPU to be given to workers, which Ray would wait for."""
    if gpus == 0 and device == "cuda":
        raise InvalidInputError(
            'device="cuda", but Ray reports no GPU in the cluster (`ray status` shows them): use device="auto".'
        )
    if gpus == 0 or (device == "auto" and find_spec("torch") is None):
        return "cpu"
    return device


def gpu_share(workers: int, gpus: int) -> float:
    """Return the part of a GPU that each worker is given, such that all of them find a place.

    Examples
    --------
    >>> gpu_share(4, 4), gpu_share(2, 4), gpu_share(3, 2)
    (1.0, 1.0, 0.5)
    """
    return 1.0 / max(1, -(-workers // gpus))


def _checked_workers(workers: int, cpus: int, most: int) -> int:
    if isinstance(workers, bool) or not isinstance(workers, int) or workers == 0 or workers < -1:
        raise InvalidInputError(
            f"workers={workers!r}: give a number of at least 1, or -1 for one per CPU (or GPU)."
        )
    if cpus < max(1, workers):
        raise InvalidInputError(
            f"workers={workers}, but the cluster has {cpus} CPUs, and a worker needs one: ask for fewer, or add "
            "machines by `ray start --address=...`."
        )
    return most if workers == -1 else workers


def _reason(error: BaseException) -> str:
    """Return what went wrong in one line; of an error within an error, the inner one's."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return (
        (lines[-1] if "Traceback" in str(error) else lines[0]).rstrip(".") if lines else type(error).__name__
    )
