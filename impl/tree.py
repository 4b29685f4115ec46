"""Walking the radix tree. Nothing here changes it."""

from __future__ import annotations

from collections.abc import Iterable

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


def usable_ends(path: Iterable[Node], root: Node, window: int, swa: bool, mamba: bool) -> tuple[Node, Node]:
    """The deepest node of a path that a request could go on from with what is on the device, and with what is on
    any tier; the root if there is none.

    FULL must be there, SWA must cover the window, or all there is, and MAMBA must have the state of its end.

    Args:
        path: from the root's child down.
        window: in pages.
    """
    here = there = root
    resident = covered = end = 0
    for node in path:
        device, host = node.device, node.host
        on_device = device[FULL].slots is not None
        anywhere = on_device or host[FULL].slots is not None
        if swa:
            pages, end = node.end - end, node.end
            if device[SWA].slots is not None:
                resident += pages
                covered += pages
            elif host[SWA].slots is not None:
                resident = 0
                covered += pages
            else:
                resident = covered = 0
            on_device = on_device and (resident >= window or resident == end)
            anywhere = anywhere and (covered >= window or covered == end)
        if mamba and device[MAMBA].slots is None:
            on_device = False
            anywhere = anywhere and host[MAMBA].slots is not None
        if on_device:
            here = node
        if anywhere:
            there = node
    return here, there
