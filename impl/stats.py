"""What a cache has counted since it was made."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Stats:
    """Counts that only grow.

    Attributes:
        backups_declined: write_through: nodes that went without a host copy, since there was no host room for it.
        mirrors_reclaimed: write_through: host copies of nodes that are on the device as well, given up to make room for
            what is read from storage (SGLang #33862).
        storage_errors: what the storage tier could not do, by type of error.
    """

    backups_declined: int = 0
    mirrors_reclaimed: int = 0
    storage_errors: Counter[str] = field(default_factory=Counter)
