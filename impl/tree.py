"""Walking the radix tree. Nothing here changes it."""

from __future__ import annotations

from typing import NamedTuple

from .config import FULL, MAMBA, SWA
from .keys import common_pages
from .node import Node, Seat


class Walk(NamedTuple):
    """Where a key leads: the last node that it contains whole, and how many pages of which child it goes on
    into.
    """

    node: Node
    child: Node | None
    pages: int


def walk(node: Node, key: bytes, stride: int) -> Walk:
    """Follow `key` down from `node`, whose own end it is known to contain."""
    at = node.end * stride
    while True:
        child = node.children.get(key[at : at + stride])
        if child is None:
            return Walk(node, None, 0)
        own = child.key
        if not key.startswith(own, at):
            return Walk(node, child, common_pages(key, at, own, stride))
        at += len(own)
        node = child


def window_top(node: Node, window: int, stride: int) -> Node:
    """The topmost node that the `window` last pages up to the end of `node` reach into; `node` itself if it
    is the root.
    """
    covered = 0
    while True:
        covered += len(node.key) // stride
        parent = node.parent
        if covered >= window or parent is None or parent.parent is None:
            return node
        node = parent


class Coverage:
    """Tells, going down a path, where a request could go on from: SWA must cover its window, MAMBA must end
    there.
    """

    __slots__ = ("mamba", "run", "swa", "tiers", "window")

    def __init__(self, components: tuple[int, ...], window: int, *, host: bool) -> None:
        self.swa = SWA in components
        self.mamba = MAMBA in components
        self.window = window
        self.tiers = ("device", "host") if host else ("device",)
        self.run = 0

    def usable(self, node: Node, pages: int) -> bool:
        """Take one step down, to `node` of `pages` pages; may a request go on from its end?"""
        if self._seat(node, FULL) is None:
            return False
        good = True
        if self.swa:
            self.run = self.run + pages if self._seat(node, SWA) is not None else 0
            good = self.run >= self.window or self.run == node.end
        if self.mamba:
            good = good and self._seat(node, MAMBA) is not None
        return good

    def _seat(self, node: Node, component: int) -> Seat | None:
        for tier in self.tiers:
            seat = node.seats(tier)[component]
            if seat.slots is not None:
                return seat
        return None
