"""The storage end of a transfer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ..slots import Slots
from .base import Item, Store


class StoreSide:
    """Page i is that of `keys[i]`. Pages are read and written whole.

    Written pages are gathered and kept `store.batch` at a time, the rest with the last one: of a transfer that fails,
    those of an unfinished batch are lost.
    """

    def __init__(self, store: Store, keys: Sequence[bytes], layers: int) -> None:
        self.store = store
        self.keys = list(keys)
        self.layers = layers
        self._gathered: list[Item] = []
        self._left = len(self.keys)

    def read(self, slot: int, low: int, high: int) -> torch.Tensor:
        """One page. LookupError if the store has lost it, StorageError if it cannot be read."""
        found = self.store.get(self.keys[slot])
        if found is None:
            raise LookupError(f"page {slot} is not in storage")
        words = np.frombuffer(found, dtype=np.int64).copy()
        return torch.from_numpy(words).view(self.layers, -1)[low:high]

    def write(self, slot: int, low: int, high: int, bytes_: torch.Tensor) -> None:
        """One page. StorageError if the store cannot keep it, or others that were gathered before."""
        if (low, high) != (0, self.layers):
            raise OSError("storage keeps whole pages")
        self._left -= 1
        key = self.keys[slot]
        if not self.store.has(key):
            self._gathered.append((key, page_as_bytes(bytes_)))
        if self._gathered and (not self._left or len(self._gathered) >= self.store.batch):
            gathered, self._gathered = self._gathered, []
            self.store.put_all(gathered)

    def hold(self, slots: Slots) -> None:
        """Storage has no slots."""

    def release(self, slots: Slots) -> None:
        """Storage has no slots."""


def page_as_bytes(page: torch.Tensor) -> bytes:
    """A page's bytes, as storage keeps them."""
    return page.cpu().contiguous().numpy().tobytes()
