"""A hierarchical KV cache with real bytes: device, host and storage, three write policies, three components.

Start at `cache.TieredCache`. Who may free what is decided in the files of transitions: `requests`, `backup`,
`load_back`, `device_room`, `host_room`, `storage`. Everything else chooses and composes.
"""

from __future__ import annotations

from .cache import TieredCache
from .config import CacheConfig
from .errors import (
    BadArgument,
    BadConfig,
    BadTokens,
    Busy,
    CacheError,
    CorruptPage,
    ForeignStorage,
    NothingToDo,
    NotReady,
    OutOfDeviceSlots,
    OutOfHostMemory,
    RanksDiverged,
    Refused,
    SlotError,
    StaleReceipt,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StorageUnavailable,
    UnknownNode,
    UnorderedAccess,
)
from .matching import Match
from .node import Operation, Prefetch, Receipt
from .stats import Stats

__all__ = [
    "BadArgument",
    "BadConfig",
    "BadTokens",
    "Busy",
    "CacheConfig",
    "CacheError",
    "CorruptPage",
    "ForeignStorage",
    "Match",
    "NotReady",
    "NothingToDo",
    "Operation",
    "OutOfDeviceSlots",
    "OutOfHostMemory",
    "Prefetch",
    "RanksDiverged",
    "Receipt",
    "Refused",
    "SlotError",
    "StaleReceipt",
    "Stats",
    "StorageError",
    "StorageFull",
    "StorageReadOnly",
    "StorageUnavailable",
    "TieredCache",
    "UnknownNode",
    "UnorderedAccess",
]
