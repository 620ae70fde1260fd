"""Where the work runs: threads of this machine, or the machines of a Ray cluster.

Rows lie in files that every worker can reach; workers keep their share of them at hand, and only sums, picks and
picked rows travel. :func:`select_on` gives the same picks on every engine, whatever the number of workers.
"""

from gmmatch.engines.errors import UnreadableShardError, WorkerLostError
from gmmatch.engines.local import LocalEngine
from gmmatch.engines.placement import Engine, Placement
from gmmatch.engines.ray_engine import RayEngine
from gmmatch.engines.selecting import select_on
from gmmatch.engines.sources import Shards, open_shards

__all__ = [
    "Engine",
    "LocalEngine",
    "Placement",
    "RayEngine",
    "Shards",
    "UnreadableShardError",
    "WorkerLostError",
    "open_shards",
    "select_on",
]
