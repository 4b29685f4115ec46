"""Free lists that cannot be fooled.

Who frees twice, frees what a transfer touches, or frees what was never given out, is told.
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

FEW = 48
"""Up to so many slots a plain loop is faster than numpy."""
_FREE, _USED, _MOST = 0, 1, 255


def _index(slots: Slots) -> Numbers:
    """What numpy indexes with fastest; a negative slot becomes one that no pool has."""
    return np.frombuffer(slots, dtype=np.uint32).astype(np.intp)


class SlotPool:
    """The slots 0 … size-1 of one pool, each free or used, and used ones in any number of transfers.

    Slots are handed out as `array('i')`. Last freed is first reused. One byte a slot says how it is: 0 free,
    1 used, 1+n used and in n transfers.
    """

    __slots__ = ("_order", "_scratch", "_state", "_view", "free", "in_transfer", "name", "size")

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self.free: Slots = array("i", range(size - 1, -1, -1))
        self.in_transfer = 0
        self._state = bytearray(size)
        self._view: Numbers = np.frombuffer(self._state, dtype=np.uint8)
        self._scratch: Numbers = np.zeros(size, dtype=np.int32)
        self._order: Numbers = np.arange(size, dtype=np.int32)

    @property
    def available(self) -> int:
        """Free slots."""
        return len(self.free)

    def is_used(self, slot: int) -> bool:
        """The slot was given out and not given back."""
        return self._state[slot] != _FREE

    def holds(self, slot: int) -> int:
        """How many transfers touch the slot."""
        return max(0, self._state[slot] - _USED)

    def take(self, count: int) -> Slots | None:
        """`count` free slots, or None if there are not so many."""
        free = self.free
        left = len(free) - count
        if left < 0:
            return None
        taken = free[left:]
        del free[left:]
        if count <= FEW:
            state = self._state
            for slot in taken:
                state[slot] = _USED
        else:
            self._view[_index(taken)] = _USED
        return taken

    def give(self, slots: Slots) -> None:
        """Take slots back.

        Raises:
            SlotError: one is foreign, free already, twice in `slots`, or in transfer; then none is freed.
        """
        if len(slots) <= FEW:
            state = self._state
            done = 0
            try:
                for slot in slots:
                    if slot < 0 or state[slot] != _USED:
                        break
                    state[slot] = _FREE
                    done += 1
            except IndexError:
                pass
            if done < len(slots):
                for slot in slots[:done]:
                    state[slot] = _USED
                raise self._wrong(slots, "freed")
        else:
            index = _index(slots)
            try:
                held = self._view[index]
            except IndexError:
                raise self._wrong(slots, "freed") from None
            order = self._order[: len(slots)]
            self._scratch[index] = order
            once = self._scratch[index].tobytes() == order.tobytes()
            if not once or held.tobytes().count(_USED) != len(slots):
                raise self._wrong(slots, "freed")
            self._view[index] = _FREE
        self.free.extend(slots)

    def hold(self, slots: Slots) -> None:
        """A transfer starts to touch these slots, each named once.

        Raises:
            SlotError: one is foreign or free.
        """
        index = _index(slots)
        try:
            state = self._view[index]
        except IndexError:
            raise self._wrong(slots, "put in transfer") from None
        if not state.all() or (state == _MOST).any():
            raise self._wrong(slots, "put in transfer")
        self._view[index] = state + 1
        self.in_transfer += len(slots)

    def release(self, slots: Slots) -> None:
        """The transfer has ended.

        Raises:
            SlotError: one is in no transfer.
        """
        index = _index(slots)
        state = self._view[index]
        if (state <= _USED).any():
            raise SlotError("slots", f"pool {self.name}: released without a transfer: {list(slots)[:8]}")
        self._view[index] = state - 1
        self.in_transfer -= len(slots)

    def _wrong(self, slots: Slots, verb: str) -> SlotError:
        seen: set[int] = set()
        for slot in slots:
            words = None
            if not 0 <= slot < self.size:
                words = "foreign"
            elif not self.is_used(slot):
                words = "free"
            elif slot in seen:
                words = "named twice"
            elif self._state[slot] > _USED:
                words = f"in {self.holds(slot)} transfers"
            if words is not None and not (verb != "freed" and words.startswith("in ")):
                return SlotError("slots", f"pool {self.name}: slot {slot} {verb} and {words}")
            seen.add(slot)
        return SlotError("slots", f"pool {self.name}: one of {list(slots)[:8]} is in too many transfers")
