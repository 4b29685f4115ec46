"""Free lists that cannot be fooled: who frees twice, frees what a transfer touches, or frees what was never
his, is told.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import SlotError

if TYPE_CHECKING:
    Slots = array[int]
    Numbers = np.ndarray[Any, np.dtype[Any]]
else:
    Slots, Numbers = array, np.ndarray

FEW = 24
"""Up to so many slots a plain loop is faster than numpy."""


class SlotPool:
    """The slots 0 … size-1 of one pool, each free or used, and used ones in any number of transfers.

    Slots are handed out as `array('i')`. Last freed is first reused.
    """

    __slots__ = (
        "_held",
        "_held_total",
        "_held_view",
        "_scratch",
        "_used",
        "_used_view",
        "free",
        "name",
        "size",
    )

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self.free: Slots = array("i", range(size - 1, -1, -1))
        self._used = bytearray(size)
        self._used_view: Numbers = np.frombuffer(self._used, dtype=np.uint8)
        self._held: Slots = array("i", bytes(4 * size))
        self._held_view: Numbers = np.frombuffer(self._held, dtype=np.int32)
        self._held_total = 0
        self._scratch: Numbers = np.zeros(size, dtype=np.int32)

    @property
    def available(self) -> int:
        """Free slots."""
        return len(self.free)

    @property
    def in_transfer(self) -> int:
        """Holds on slots, counted once for each transfer."""
        return self._held_total

    def is_used(self, slot: int) -> bool:
        """The slot was given out and not given back."""
        return bool(self._used[slot])

    def holds(self, slot: int) -> int:
        """How many transfers touch the slot."""
        return self._held[slot]

    def take(self, count: int) -> Slots | None:
        """`count` free slots, or None if there are not so many."""
        free = self.free
        left = len(free) - count
        if left < 0:
            return None
        taken = free[left:]
        del free[left:]
        if count <= FEW:
            used = self._used
            for slot in taken:
                used[slot] = 1
        else:
            self._used_view[np.frombuffer(taken, dtype=np.int32)] = 1
        return taken

    def give(self, slots: Slots) -> None:
        """Take slots back.

        Raises:
            SlotError: one is foreign, free already, twice in `slots`, or in transfer; then none is freed.
        """
        self._check(slots, "freed", free_ok=False)
        if len(slots) <= FEW:
            used = self._used
            for slot in slots:
                used[slot] = 0
        else:
            self._used_view[np.frombuffer(slots, dtype=np.int32)] = 0
        self.free.extend(reversed(slots) if len(slots) <= FEW else slots)

    def hold(self, slots: Slots) -> None:
        """A transfer starts to touch these slots.

        Raises:
            SlotError: one is foreign or free.
        """
        self._check(slots, "put in transfer", free_ok=True)
        np.add.at(self._held_view, np.frombuffer(slots, dtype=np.int32), 1)
        self._held_total += len(slots)

    def release(self, slots: Slots) -> None:
        """The transfer has ended.

        Raises:
            SlotError: one is in no transfer.
        """
        index = np.frombuffer(slots, dtype=np.int32)
        if len(slots) and int(self._held_view[index].min()) < 1:
            raise SlotError("slots", f"released without a transfer in pool {self.name}: {list(slots)[:8]}")
        np.subtract.at(self._held_view, index, 1)
        self._held_total -= len(slots)

    def clear(self) -> None:
        """Everything is free again.

        Raises:
            SlotError: something is in transfer.
        """
        if self._held_total:
            raise SlotError("pool", f"{self.name} has {self._held_total} slots in transfer")
        self.free = array("i", range(self.size - 1, -1, -1))
        self._used_view[:] = 0

    def _check(self, slots: Slots, verb: str, *, free_ok: bool) -> None:
        size, count = self.size, len(slots)
        if count <= FEW:
            used, held, busy = self._used, self._held, self._held_total and not free_ok
            for slot in slots:
                if not 0 <= slot < size:
                    raise SlotError("slots", f"foreign slot {slot} {verb} in pool {self.name}")
                if not used[slot]:
                    raise SlotError("slots", f"free slot {slot} {verb} in pool {self.name}")
                if busy and held[slot]:
                    raise SlotError("slots", f"slot {slot} {verb} while in transfer in pool {self.name}")
            if not free_ok and count > 1 and len(set(slots)) != count:
                raise SlotError("slots", f"slot twice {verb} in pool {self.name}: {list(slots)}")
            return
        index = np.frombuffer(slots, dtype=np.int32)
        if int(index.min()) < 0 or int(index.max()) >= size:
            raise SlotError("slots", f"foreign slot {verb} in pool {self.name}")
        if not self._used_view[index].all():
            raise SlotError("slots", f"free slot {verb} in pool {self.name}")
        if free_ok:
            return
        if self._held_total and self._held_view[index].any():
            raise SlotError("slots", f"slot {verb} while in transfer in pool {self.name}")
        order = np.arange(count, dtype=np.int32)
        self._scratch[index] = order
        if not (self._scratch[index] == order).all():
            raise SlotError("slots", f"slot twice {verb} in pool {self.name}")
