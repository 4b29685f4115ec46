"""Free lists that cannot be fooled.

Who frees twice, frees what a transfer touches, or frees what was never given out, is told.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import SlotError

if TYPE_CHECKING:
    Slots = array[int] | range
    Numbers = np.ndarray[Any, np.dtype[Any]]
else:
    Slots, Numbers = array | range, np.ndarray
# Neighbours that count up are a `range`: nothing to store or to look through. All others are `array('i')`.

FEW = 48
"""Up to so many slots a plain loop is faster than numpy."""
_FREE, _USED, _MOST = 0, 1, 255


def _index(slots: Slots) -> Numbers:
    """What numpy indexes with fastest; a negative slot becomes one that no pool has."""
    return np.frombuffer(as_array(slots), dtype=np.uint32).astype(np.intp)


def as_array(slots: Slots) -> array[int]:
    """The same slots with memory behind them."""
    return array("i", slots) if isinstance(slots, range) else slots


def joined(first: Slots, second: Slots) -> Slots:
    """All slots of both, in order."""
    if not first or not second:
        return first or second
    if isinstance(first, range) and isinstance(second, range) and first.stop == second.start:
        return range(first.start, second.stop)
    return as_array(first) + as_array(second)


class SlotPool:
    """The slots 0 … size-1 of one pool, each free or used, and used ones in any number of transfers.

    Last freed is first reused. One byte a slot says how it is: 0 free, 1 used, 1+n used and in n transfers. What is
    free is kept as runs of neighbours, so that a request's pages come as one run while there is one, and are booked
    by filling and comparing memory.
    """

    __slots__ = (
        "_order",
        "_runs",
        "_scratch",
        "_state",
        "_view",
        "available",
        "in_transfer",
        "name",
        "size",
    )

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self.available = size
        """Free slots."""
        self.in_transfer = 0
        self._runs: list[tuple[int, int]] = [(0, size)] if size else []
        self._state = bytearray(size)
        self._view: Numbers = np.frombuffer(self._state, dtype=np.uint8)
        self._scratch: Numbers = np.zeros(size, dtype=np.int32)
        self._order: Numbers = np.arange(size, dtype=np.int32)

    @property
    def free(self) -> list[int]:
        """All free slots, as they would be handed out."""
        return [slot for start, stop in reversed(self._runs) for slot in range(start, stop)]

    def is_used(self, slot: int) -> bool:
        """The slot was given out and not given back."""
        return self._state[slot] != _FREE

    def holds(self, slot: int) -> int:
        """How many transfers touch the slot."""
        return max(0, self._state[slot] - _USED)

    def take(self, count: int) -> Slots | None:
        """`count` free slots, or None if there are not so many."""
        if count > self.available:
            return None
        self.available -= count
        runs = self._runs
        if count and count < runs[-1][1] - runs[-1][0]:
            start, stop = runs[-1]
            end = start + count
            runs[-1] = end, stop
            self._state[start:end] = b"\1" * count
            return range(start, end)
        found: Slots = range(0)
        while count:
            start, stop = runs[-1]
            if stop - start > count:
                runs[-1] = start + count, stop
                stop = start + count
            else:
                del runs[-1]
            count -= stop - start
            self._state[start:stop] = b"\1" * (stop - start)
            found = joined(found, range(start, stop))
        return found

    def give(self, slots: Slots) -> None:
        """Take slots back.

        Raises:
            SlotError: one is foreign, free already, twice in `slots`, or in transfer; then none is freed.
        """
        first = self._run(slots)
        if first >= 0:
            if not self._swap(first, len(slots), b"\1", b"\0"):
                raise self._wrong(slots, "freed")
            self._add(first, first + len(slots))
        elif len(slots) <= FEW:
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
            for slot in slots:
                self._add(slot, slot + 1)
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
            ends = np.flatnonzero(np.diff(index) != 1) + 1
            start = 0
            for end in (*ends.tolist(), len(slots)):
                self._add(slots[start], slots[end - 1] + 1)
                start = end
        self.available += len(slots)

    def hold(self, slots: Slots) -> None:
        """A transfer starts to touch these slots, each named once.

        Raises:
            SlotError: one is foreign or free.
        """
        first = self._run(slots)
        if first < 0 or not self._swap(first, len(slots), b"\1", b"\2"):
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
        first = self._run(slots)
        if first < 0 or not self._swap(first, len(slots), b"\2", b"\1"):
            index = _index(slots)
            state = self._view[index]
            if (state <= _USED).any():
                raise SlotError("slots", f"pool {self.name}: released without a transfer: {list(slots)[:8]}")
            self._view[index] = state - 1
        self.in_transfer -= len(slots)

    def _run(self, slots: Slots) -> int:
        """The first of `slots` if they are the pool's and are known to count up by one, else -1."""
        good = type(slots) is range and slots.step == 1 and 0 <= slots.start < slots.stop <= self.size
        return slots[0] if good else -1

    def _swap(self, first: int, count: int, old: bytes, new: bytes) -> bool:
        """Let a run whose states are all `old` be `new`; False, and nothing done, if they are not."""
        state = self._state
        if state[first : first + count] != old * count:
            return False
        state[first : first + count] = new * count
        return True

    def _add(self, start: int, stop: int) -> None:
        """A run is free; it is joined to the one that was freed before it if they are neighbours."""
        runs = self._runs
        if runs:
            low, high = runs[-1]
            if high == start:
                runs[-1] = low, stop
                return
            if low == stop:
                runs[-1] = start, high
                return
        runs.append((start, stop))

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
