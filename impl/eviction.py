"""Who goes first. Heaps that are mended when they are read, not when a node is touched."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from operator import attrgetter
from typing import Any

from .node import Node

Rank = Callable[[Node], Any]
STRATEGIES: dict[str, Rank] = {
    "lru": attrgetter("touched"),
    "lfu": attrgetter("hits", "touched"),
    "fifo": attrgetter("born"),
    "priority": attrgetter("priority", "touched"),
}
"""Least first.

Time is the cache's logical clock; a rank must not fall while a node is queued, or it is noticed late.
"""


class Queue:
    """Candidates for one kind of eviction, least rank first.

    A node is pushed when it may have become a candidate and stands in the queue once (its bit in
    `Node.queued`). Whether it still is one, and with which rank, is looked at when somebody is to go:
    pushing, touching and locking nodes cost next to nothing.
    """

    __slots__ = ("_heap", "_limit", "_pushed", "bit", "fits", "rank")

    def __init__(self, bit: int, rank: Rank, fits: Callable[[Node], bool]) -> None:
        self.bit = bit
        self.rank = rank
        self.fits = fits
        self._heap: list[tuple[Any, int, Node]] = []
        self._pushed: list[Node] = []
        self._limit = 64

    def push(self, node: Node) -> None:
        """`node` is a candidate; whoever pushes has checked that it fits."""
        if not node.queued & self.bit:
            node.queued |= self.bit
            self._pushed.append(node)
            if len(self._pushed) > self._limit:
                self._sweep()

    def _sweep(self) -> None:
        """Let go of those that are no candidates any more: nobody may ever pop this queue."""
        kept = []
        for node in (*(entry[2] for entry in self._heap), *self._pushed):
            if self.fits(node):
                kept.append((self.rank(node), node.id, node))
            else:
                node.queued &= ~self.bit
        heapify(kept)
        self._heap = kept
        self._pushed.clear()
        self._limit = 64 + 2 * len(kept)

    def pop(self) -> Node | None:
        """The best candidate, which leaves the queue; None if there is none."""
        heap = self._heap
        if self._pushed:
            for node in self._pushed:
                heappush(heap, (self.rank(node), node.id, node))
            self._pushed.clear()
        while heap:
            rank, id_, node = heap[0]
            if not self.fits(node):
                heappop(heap)
                node.queued &= ~self.bit
                continue
            now = self.rank(node)
            if now != rank:
                heapreplace(heap, (now, id_, node))
                continue
            heappop(heap)
            node.queued &= ~self.bit
            return node
        return None

    def clear(self) -> None:
        """Forget everything."""
        for node in (*(entry[2] for entry in self._heap), *self._pushed):
            node.queued &= ~self.bit
        self._heap.clear()
        self._pushed.clear()
