"""Engines: threads of this machine, or the machines of a Ray cluster.

Rows are in files that every worker can read. Each worker keeps its share of them, and only sums and picked
rows are sent. ``gmmatch.select(..., engine=...)`` makes the same picks on every engine, whatever the number of
workers.
"""

from __future__ import annotations

from gmmatch.backends.cluster.placement import Engine, LocalEngine, Placement, WorkerLostError
from gmmatch.backends.cluster.ray_engine import RayEngine
from gmmatch.backends.cluster.sources import Shards, UnreadableShardError, open_shards

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
