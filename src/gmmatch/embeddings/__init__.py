"""The store: embeddings on disk, written shard by shard and read as one memory-mapped array.

:class:`StoreWriter` writes one and can be killed at any moment; :func:`open_store` reads it.
"""

from gmmatch.embeddings.beginning import StoreLockedError, StoreWriteError
from gmmatch.embeddings.sharded_array import ShardedArray
from gmmatch.embeddings.store import Store, delete_store, open_store
from gmmatch.embeddings.writer import StoreWriter

__all__ = [
    "ShardedArray",
    "Store",
    "StoreLockedError",
    "StoreWriteError",
    "StoreWriter",
    "delete_store",
    "open_store",
]
