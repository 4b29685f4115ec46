"""Walking the radix tree. Nothing here changes it."""

from __future__ import annotations

from .config import FULL, MAMBA, SWA
from .keys import common_pages
from .node import Node

Walk = tuple[Node, Node | None, int]
"""Where a key leads: the last node that it contains whole, and how many pages of which child it goes on into."""


def walk(node: Node, key: bytes, stride: int) -> Walk:
    """Follow `key` down from `node`, at whose end it begins."""
    at = 0
    while True:
        child = node.children.get(key[at : at + stride])
        if child is None:
            return node, None, 0
        own = child.key
        if not key.startswith(own, at):
            return node, child, common_pages(key, at, own, stride)
        at += len(own)
        node = child


def last_usable(node: Node, window: int, swa: bool, mamba: bool, *, host: bool) -> Node:
    """The deepest node, `node` or above it, that a request could go on from with what is on the device, or with
    `host` on any tier; the root if there is no other.

    FULL must be there, SWA must cover the window, or all there is, and MAMBA must have the state of its end.

    Args:
        window: in pages.
    """
    while node.parent is not None:
        if _has(node, FULL, host) and (not mamba or _has(node, MAMBA, host)):
            hole = _hole(node, window, host) if swa else None
            if hole is None:
                return node
            # Whoever is not above the hole has it in his window as well.
            node = hole
        assert node.parent is not None
        node = node.parent
    return node


def _has(node: Node, component: int, host: bool) -> bool:
    return node.device[component].slots is not None or (host and node.host[component].slots is not None)


def _hole(node: Node, window: int, host: bool) -> Node | None:
    """The deepest node without SWA within the window that ends with `node`."""
    start, walker = node.end - window, node
    while True:
        if walker.device[SWA].slots is None and not (host and walker.host[SWA].slots is not None):
            return walker
        parent = walker.parent
        if parent is None or parent.parent is None or parent.end <= start:
            return None
        walker = parent
