"""Engines: threads of this machine, or the machines of a Ray cluster.

Rows are in files that every worker can read. Each worker keeps its share of them, and only sums and picked
rows are sent. ``gmmatch.select(..., engine=...)`` makes the same picks on every engine, whatever the number of
workers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Loaded when they are first used: a worker needs few of them, and its start should not wait for the others.
_WHERE = {
    "Engine": "placement",
    "LocalEngine": "placement",
    "Placement": "placement",
    "RayEngine": "ray_engine",
    "Shards": "sources",
    "UnreadableShardError": "sources",
    "WorkerLostError": "placement",
    "open_shards": "sources",
}

__all__ = [
    "Engine",
    "LocalEngine",
    "Placement",
    "RayEngine",
    "Shards",
    "UnreadableShardError",
    "WorkerLostError",
    "open_shards",
]

if TYPE_CHECKING:
    from gmmatch.backends.cluster.placement import Engine, LocalEngine, Placement, WorkerLostError
    from gmmatch.backends.cluster.ray_engine import RayEngine
    from gmmatch.backends.cluster.sources import Shards, UnreadableShardError, open_shards


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'gmmatch.backends.cluster' has no attribute {name!r}")
    value = getattr(import_module(f"gmmatch.backends.cluster.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
