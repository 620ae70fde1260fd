"""The store: embeddings on disk, written shard by shard and read memory-mapped.

:class:`StoreWriter` writes one and can be killed at any moment; :func:`open_store` reads it.
"""

from gmmatch.store.commits import StoreLockedError as StoreLockedError
from gmmatch.store.commits import StoreWriteError as StoreWriteError
from gmmatch.store.store import Store as Store
from gmmatch.store.store import delete_store as delete_store
from gmmatch.store.store import open_store as open_store
from gmmatch.store.writer import StoreWriter as StoreWriter
