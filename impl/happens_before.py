"""Are any two accesses to one page ordered by more than luck? Asked of every access, in test builds.

Each timeline (the host, the stream that requests compute on, every transfer, every request that reads) has a vector
clock: how much of each other timeline is known to lie before it. Clocks grow where the cache makes an order: a
submission comes after what the host has done and after its fences, and the host comes after a transfer whose end it has
taken notice of. A transfer's accesses are looked at when it is submitted, a request's when it first reads; both may
happen at any moment from then until they are taken notice of. So the schedule that happens to run hides nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import UnorderedAccess
from .slots import Numbers, as_array

if TYPE_CHECKING:
    from .pools import Pool
    from .slots import Slots

Clock = Numbers
"""For each timeline, by number, how many of its accesses come before."""
HOST, COMPUTE = 0, 1
READ, WRITE = 0, 1
REMEMBERED = 4096
"""So many accesses are remembered in words, for the error that names both."""


class HappensBefore:
    """The clocks of one cache, and for each page and layer when each timeline last read and wrote it.

    Numbers of transfers and requests are used again once the host has taken notice of their end: whatever knows of the
    new one's first access knows of all of the old one's.

    Args:
        asynchronous: computing goes on while the host does; else the host knows its end at once.
    """

    def __init__(self, *, asynchronous: bool) -> None:
        self.asynchronous = asynchronous
        self._room = 8
        self._names = ["host", "compute"]
        self._free: list[int] = []
        self._times = [0, 0]
        self._clocks: dict[int, Clock] = {HOST: np.zeros(8, np.int64), COMPUTE: np.zeros(8, np.int64)}
        self._seen: dict[Pool, np.ndarray[Any, np.dtype[np.int64]]] = {}
        self._told: OrderedDict[tuple[int, int], tuple[str, Clock]] = OrderedDict()

    # Timelines
    def open(self, name: str, after: Iterable[Clock] = ()) -> int:
        """A timeline begins: after all that the host has done, and after these clocks."""
        if self._free:
            number = self._free.pop()
            self._names[number] = name
        else:
            number = len(self._names)
            self._names.append(name)
            self._times.append(0)
            if number == self._room:
                self._grow()
        self._clocks[number] = clock = self._clocks[HOST].copy()
        for other in after:
            _join(clock, other)
        clock[number] = self._times[number]
        return number

    def close(self, number: int) -> None:
        """The host has taken notice of the end of a timeline."""
        _join(self._clocks[HOST], self._clocks.pop(number))
        self._free.append(number)

    def clock(self, number: int) -> Clock:
        """What is known now to lie before the next access of a timeline, as a fence carries it."""
        return self._clocks[number].copy()

    def host_knows(self, clock: Clock) -> None:
        """The host has waited for a fence."""
        _join(self._clocks[HOST], clock)

    def enqueue(self, after: Iterable[Clock] = ()) -> None:
        """The host hands the next piece of work to the compute stream, which waits for these clocks."""
        _join(self._clocks[COMPUTE], self._clocks[HOST])
        for other in after:
            _join(self._clocks[COMPUTE], other)

    def computed(self) -> None:
        """What was enqueued has been looked at; the host goes on, and if computing is synchronous, after it."""
        if not self.asynchronous:
            _join(self._clocks[HOST], self._clocks[COMPUTE])

    def _grow(self) -> None:
        more = self._room
        self._room *= 2
        self._clocks = {number: np.pad(clock, (0, more)) for number, clock in self._clocks.items()}
        self._seen = {pool: np.pad(seen, ((0, more), *[(0, 0)] * 3)) for pool, seen in self._seen.items()}

    # Accesses
    def access(
        self, number: int, accesses: Sequence[tuple[Pool, Slots]], kind: int, layers: tuple[int, int] | None = None
    ) -> None:
        """A timeline reads or writes pages, some layers of them or all.

        Raises:
            UnorderedAccess: an earlier access to one of them, and one of the two a write, is not known to come before.
        """
        clock = self._clocks[number]
        self._times[number] += 1
        clock[number] = self._times[number]
        words = f"{('read', 'write')[kind]} by {self._names[number]}"
        self._told[number, self._times[number]] = words, clock.copy()
        if len(self._told) > REMEMBERED:
            self._told.popitem(last=False)
        for pool, slots in accesses:
            if not slots:
                continue
            low, high = layers or (0, pool.layers)
            high = min(high, pool.layers)
            seen = self._seen.get(pool)
            if seen is None:
                seen = self._seen[pool] = np.zeros((self._room, 2, pool.slots.size, pool.layers), np.int64)
            index = np.frombuffer(as_array(slots), np.int32)
            earlier = seen[:, WRITE - kind :, index, low:high]
            late = earlier > clock[:, None, None, None]
            if late.any():
                lane, row, at, layer = (int(n) for n in np.argwhere(late)[0])
                time, was = int(earlier[lane, row, at, layer]), WRITE - kind + row
                self._raise(pool, slots[at], low + layer, (words, clock), (lane, time, was))
            seen[number, kind, index, low:high] = clock[number]

    def _raise(self, pool: Pool, slot: int, layer: int, now: tuple[str, Clock], earlier: tuple[int, int, int]) -> None:
        lane, time, was = earlier
        names = ("read", "write")
        words, clock = self._told.get((lane, time), (f"{names[was]} by some {self._names[lane]}", None))
        page = f"{pool.slots.name} slot {slot} layer {layer}"
        then = "forgotten" if clock is None else self._in_words(clock)
        raise UnorderedAccess(
            "page", f"{page}: {now[0]} at {self._in_words(now[1])}, and nothing orders it after {words} at {then}"
        )

    def _in_words(self, clock: Clock) -> str:
        known = (f"{self._names[n]} {time}" for n, time in enumerate(clock[: len(self._names)].tolist()) if time)
        return f"({', '.join(known)})"


def _join(clock: Clock, other: Clock) -> None:
    """What lies before `other` lies before `clock` too."""
    part = clock[: len(other)]
    np.maximum(part, other, out=part)
