"""The tier below the host: pages by the chained hash of their tokens.

`base` says what a store is; `memory`, `lmdb` and `fs` keep the pages; `side` is the storage end of a transfer.
"""

from __future__ import annotations

from ..config import CacheConfig
from .base import Layout, Store, layouts, leading, store_key
from .memory import MemoryStore
from .side import StoreSide, page_as_bytes

__all__ = [
    "Layout",
    "MemoryStore",
    "Store",
    "StoreSide",
    "layouts",
    "leading",
    "open_store",
    "page_as_bytes",
    "store_key",
]


def open_store(config: CacheConfig) -> Store | None:
    """The store that a configuration names: none, in memory, an LMDB directory, or what fsspec makes of a URL.

    Raises:
        StorageError: it cannot be used; the subclass says why.
    """
    place = config.storage
    if not place:
        return None
    if place is True:
        return MemoryStore(layouts(config))
    if "://" in str(place):
        from .fs import FsspecStore

        return FsspecStore(str(place), layouts(config))
    from .lmdb import LmdbStore

    return LmdbStore(place, layouts(config), limit=config.storage_limit)
