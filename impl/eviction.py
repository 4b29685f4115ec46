"""Who goes first. Heaps that are mended when they are read, not when a node is touched."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from operator import attrgetter
from typing import Any

from .node import Node

FEW = 512
"""So many candidates are kept unranked."""
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

    __slots__ = ("_heap", "_most", "_pushed", "bit", "fits", "rank")

    def __init__(self, bit: int, rank: Rank, fits: Callable[[Node], bool]) -> None:
        self.bit = bit
        self.rank = rank
        self.fits = fits
        self._pushed: list[Node] = []
        self._heap: list[tuple[Any, int, Node]] = []
        self._most = FEW

    def push(self, node: Node) -> None:
        """`node` is a candidate; whoever pushes has checked that it fits."""
        if not node.queued & self.bit:
            node.queued |= self.bit
            self._pushed.append(node)
            if len(self._pushed) > FEW:
                self._rank_pushed()

    def pop(self) -> Node | None:
        """The best candidate, which leaves the queue; None if there is none."""
        if self._pushed:
            self._rank_pushed()
        heap = self._heap
        while heap:
            rank, id_, node = heap[0]
            if not self._stays(node):
                heappop(heap)
                continue
            now = self.rank(node)
            if now != rank:
                heapreplace(heap, (now, id_, node))
                continue
            heappop(heap)
            node.queued &= ~self.bit
            return node
        return None

    def _rank_pushed(self) -> None:
        for node in self._pushed:
            if self._stays(node):
                heappush(self._heap, (self.rank(node), node.id, node))
        self._pushed.clear()
        if len(self._heap) > self._most:
            # Nobody may ever pop this queue: let go of those that are no candidates any more.
            self._heap = [entry for entry in self._heap if self._stays(entry[2])]
            heapify(self._heap)
            self._most = FEW + 2 * len(self._heap)

    def _stays(self, node: Node) -> bool:
        """It is still a candidate; if not, it is no longer marked as one."""
        if self.fits(node):
            return True
        node.queued &= ~self.bit
        return False

    def clear(self) -> None:
        """Forget everything."""
        for node in (*self._pushed, *(entry[2] for entry in self._heap)):
            node.queued &= ~self.bit
        self._pushed.clear()
        self._heap.clear()
