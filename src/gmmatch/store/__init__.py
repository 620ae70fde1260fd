"""The store: embeddings on disk, written shard by shard and read memory-mapped.

:class:`StoreWriter` writes one and can be killed at any moment; :func:`open_store` reads it.
"""

from gmmatch.store.commits import StoreLockedError, StoreWriteError
from gmmatch.store.store import Store, delete_store, open_store
from gmmatch.store.writer import StoreWriter

__all__ = [
    "Store",
    "StoreLockedError",
    "StoreWriteError",
    "StoreWriter",
    "delete_store",
    "open_store",
]
