"""The tier below the host: pages by the chained hash of their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch

from .config import NAMES
from .slots import Slots


class Store(Protocol):
    """Keeps pages. A page that it has is whole: `put` is atomic."""

    def put(self, key: bytes, page: bytes) -> None:
        """Keep a page; again does no harm, since equal keys have equal pages. OSError if it cannot."""

    def get(self, key: bytes) -> bytes | None:
        """The page, or None. OSError if it cannot be read."""

    def has(self, key: bytes) -> bool:
        """The page is there now."""

    def clear(self) -> None:
        """Forget every page."""


class MemoryStore:
    """A store in memory, for tests and for lack of a better one."""

    def __init__(self) -> None:
        self.pages: dict[bytes, bytes] = {}

    def put(self, key: bytes, page: bytes) -> None:
        """Keep a page."""
        self.pages[key] = page

    def get(self, key: bytes) -> bytes | None:
        """The page, or None."""
        return self.pages.get(key)

    def has(self, key: bytes) -> bool:
        """The page is there now."""
        return key in self.pages

    def clear(self) -> None:
        """Forget every page."""
        self.pages.clear()


def store_key(component: int, page_hash: bytes) -> bytes:
    """The key of one page of one component."""
    return NAMES[component].encode() + b":" + page_hash


def leading(store: Store, component: int, hashes: Sequence[bytes]) -> int:
    """How many of these pages, from the first on, the store has."""
    for found, page_hash in enumerate(hashes):
        if not store.has(store_key(component, page_hash)):
            return found
    return len(hashes)


class StoreSide:
    """The storage end of a transfer: page i is that of `keys[i]`. Pages are read and written whole."""

    def __init__(self, store: Store, keys: Sequence[bytes], layers: int) -> None:
        self.store = store
        self.keys = list(keys)
        self.layers = layers

    def read(self, slot: int, low: int, high: int) -> torch.Tensor:
        """One page. LookupError if the store has lost it, OSError if it cannot be read."""
        found = self.store.get(self.keys[slot])
        if found is None:
            raise LookupError(f"page {slot} is not in storage")
        words = np.frombuffer(found, dtype=np.int64).copy()
        return torch.from_numpy(words).view(self.layers, -1)[low:high]

    def write(self, slot: int, low: int, high: int, bytes_: torch.Tensor) -> None:
        """One page. OSError if the store cannot keep it."""
        if (low, high) != (0, self.layers):
            raise OSError("storage keeps whole pages")
        self.store.put(self.keys[slot], page_as_bytes(bytes_))

    def hold(self, slots: Slots) -> None:
        """Storage has no slots."""

    def release(self, slots: Slots) -> None:
        """Storage has no slots."""


def page_as_bytes(page: torch.Tensor) -> bytes:
    """A page's bytes, as storage keeps them."""
    return page.cpu().contiguous().numpy().tobytes()
