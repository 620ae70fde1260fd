"""A stand-in for Ray in this process: actors are plain objects, references hold values, nothing runs side by side."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any


class Reference:
    def __init__(self, value: Any) -> None:
        self.value = value

    def hex(self) -> str:
        return str(id(self.value))


class RayError(Exception):
    pass


class RayTaskError(RayError):
    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Method:
    """A method or a function; as Ray does, it resolves references among its arguments, but not within tuples."""

    def __init__(self, function: Any, num_returns: int = 1) -> None:
        self.function, self.num_returns = function, num_returns

    def options(self, num_returns: int = 1, **_: Any) -> Method:
        return Method(self.function, num_returns)

    def remote(self, *args: Any) -> Any:
        try:
            result = self.function(*map(_value, args))
        except Exception as error:
            result = (
                (RayTaskError(error),) * self.num_returns if self.num_returns > 1 else RayTaskError(error)
            )
        return [Reference(value) for value in result] if self.num_returns > 1 else Reference(result)


class Actor:
    def __init__(self, instance: Any) -> None:
        self.instance, self.alive = instance, True

    def __getattr__(self, name: str) -> Method:
        return Method(getattr(self.instance, name))


def _value(reference: Any) -> Any:
    return reference.value if isinstance(reference, Reference) else reference


def _get(references: Any, timeout: float | None = None) -> Any:
    if not isinstance(references, list):
        return _value(references)
    values = [_value(reference) for reference in references]
    for value in values:
        if isinstance(value, RayTaskError):
            raise value
    return values


class FakeRay(ModuleType):
    """What gmmatch uses of Ray without Ray Data, on a cluster with so many CPUs and GPUs."""

    def __init__(self, n_cpus: int = 8, n_gpus: int = 0) -> None:
        super().__init__("ray")
        self.n_cpus, self.n_gpus, self.actors = n_cpus, n_gpus, []
        self.exceptions = SimpleNamespace(
            RayError=RayError,
            RayTaskError=RayTaskError,
            GetTimeoutError=type("GetTimeoutError", (RayError,), {}),
        )
        self.put, self.get = Reference, _get
        self.cloudpickle = SimpleNamespace(register_pickle_by_value=lambda module: None)

    def is_initialized(self) -> bool:
        return True

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(gcs_address="here:6379")

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": float(self.n_cpus), "GPU": float(self.n_gpus)}

    def wait(
        self, references: list[Reference], num_returns: int = 1, **_: Any
    ) -> tuple[list[Reference], list[Reference]]:
        return references[:num_returns], references[num_returns:]

    def kill(self, actor: Actor) -> None:
        actor.alive = False

    def remote(self, **_: Any) -> Any:
        def decorate(kind: Any) -> Any:
            if not isinstance(kind, type):
                return Method(kind)

            def start(*args: Any) -> Actor:
                self.actors.append(Actor(kind(*map(_value, args))))
                return self.actors[-1]

            return SimpleNamespace(remote=start)

        return decorate
