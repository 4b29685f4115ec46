"""Free lists that cannot be fooled.

Who frees twice, frees what a transfer touches, or frees what was never given out, is told.
"""

from __future__ import annotations

from array import array
from itertools import islice
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
FEW_RUNS = 8
"""So many free runs are looked at for one that is long enough."""
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


def _runs(slots: Slots) -> list[tuple[int, int]]:
    """The runs of neighbours that count up, as (first, last + 1)."""
    if not slots:
        return []
    if isinstance(slots, range):
        return [(slots.start, slots.stop)] if slots.step == 1 else [(slot, slot + 1) for slot in slots]
    if len(slots) <= FEW:
        cuts = [n for n in range(1, len(slots)) if slots[n] != slots[n - 1] + 1]
    else:
        numbers = np.frombuffer(slots, dtype=np.int32)
        cuts = (np.flatnonzero(numbers[1:] - numbers[:-1] != 1) + 1).tolist()
    first, found = 0, []
    for cut in cuts:
        found.append((slots[first], slots[cut - 1] + 1))
        first = cut
    found.append((slots[first], slots[-1] + 1))
    return found


class SlotPool:
    """The slots 0 … size-1 of one pool, each free or used, and used ones in any number of transfers.

    One byte a slot says how it is: 0 free, 1 used, 1+n used and in n transfers. What is free is kept as runs of
    neighbours, so that a request's pages come as one run while there is one, and are booked by filling and comparing
    memory. Last freed is first reused, unless one of the few that were freed before it is long enough and it is not.
    """

    __slots__ = (
        "_every",
        "_runs",
        "_state",
        "_stops",
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
        self._runs: dict[int, int] = {0: size} if size else {}
        self._stops: dict[int, int] = {size: 0} if size else {}
        self._state = bytearray(size)
        self._view: Numbers = np.frombuffer(self._state, dtype=np.uint8)
        self._every = array("i", range(size))

    @property
    def free(self) -> list[int]:
        """All free slots, as they would be handed out."""
        return [slot for start in reversed(self._runs) for slot in range(start, self._runs[start])]

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
        if not count:
            return range(0)
        self.available -= count
        runs = self._runs
        start, stop = runs.popitem()
        if stop - start >= count:
            return self._cut(start, stop, count)
        runs[start] = stop
        for start in islice(reversed(runs), 1, FEW_RUNS + 1):
            if runs[start] - start >= count:
                return self._cut(start, runs.pop(start), count)
        found = array("i")
        while count:
            start, stop = runs.popitem()
            piece = self._cut(start, stop, min(count, stop - start))
            count -= len(piece)
            found += self._every[start : piece.stop]
        return found

    def _cut(self, start: int, stop: int, count: int) -> range:
        """Use the first `count` slots of a free run, which `_runs` has lost."""
        end = start + count
        if end < stop:
            self._runs[end] = stop
            self._stops[stop] = end
        else:
            del self._stops[stop]
        self._state[start:end] = b"\1" * count
        return range(start, end)

    def give(self, slots: Slots) -> None:
        """Take slots back.

        Raises:
            SlotError: one is foreign, free already, twice in `slots`, or in transfer; then none is freed.
        """
        first = self._run(slots)
        if first >= 0 and self._swap(first, len(slots), b"\1", b"\0"):
            self._add(first, first + len(slots))
            self.available += len(slots)
            return
        runs = _runs(slots)
        for done, (start, stop) in enumerate(runs):
            if start < 0 or stop > self.size or not self._swap(start, stop - start, b"\1", b"\0"):
                for first, last in runs[:done]:
                    self._swap(first, last - first, b"\0", b"\1")
                raise self._wrong(slots, "freed")
        for start, stop in runs:
            self._add(start, stop)
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
        """A run is free; it is joined to its free neighbours."""
        runs, stops = self._runs, self._stops
        if start in stops:
            start = stops.pop(start)
            del runs[start]
        if stop in runs:
            stop = runs.pop(stop)
        runs[start] = stop
        stops[stop] = start

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
