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
    `Node.queued`). Whether it still is one, and with which rank, is looked at when it comes to the top:
    touching and locking nodes costs nothing here.
    """

    __slots__ = ("_heap", "_limit", "bit", "fits", "rank")

    def __init__(self, bit: int, rank: Rank, fits: Callable[[Node], bool]) -> None:
        self.bit = bit
        self.rank = rank
        self.fits = fits
        self._heap: list[tuple[Any, int, Node]] = []
        self._limit = 64

    def push(self, node: Node) -> None:
        """`node` is a candidate; whoever pushes has checked that it fits."""
        if not node.queued & self.bit:
            node.queued |= self.bit
            heappush(self._heap, (self.rank(node), node.id, node))
            if len(self._heap) > self._limit:
                self._sweep()

    def _sweep(self) -> None:
        """Let go of those that are no candidates any more: nobody may ever pop this queue."""
        kept = []
        for _, id_, node in self._heap:
            if self.fits(node):
                kept.append((self.rank(node), id_, node))
            else:
                node.queued &= ~self.bit
        heapify(kept)
        self._heap = kept
        self._limit = 64 + 3 * len(kept)

    def pop(self) -> Node | None:
        """The best candidate, which leaves the queue; None if there is none."""
        heap = self._heap
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
        for _, _, node in self._heap:
            node.queued &= ~self.bit
        self._heap.clear()
