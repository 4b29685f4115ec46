"""Finding what is there of a request's tokens."""

from __future__ import annotations

from typing import NamedTuple

from .config import FULL
from .core import Core
from .node import Node
from .requests import split
from .tree import last_usable, walk


class Match(NamedTuple):
    """How far the tree has a request's tokens.

    Attributes:
        node, tokens: the last node with FULL on any tier, and tokens up to its end.
        device_node, device_tokens: the last that a request can go on from with what is on the device: its
            window is covered and its state is there, arrived or not.
        host_node, host_tokens: the last that it can go on from after a load-back there, and how many tokens
            more than `device_tokens` that gives.
    """

    node: int
    tokens: int
    device_node: int
    device_tokens: int
    host_node: int
    host_tokens: int


_match = tuple.__new__
"""What `Match(...)` comes to, without its detour."""


def descend(core: Core, key: bytes, root: Node) -> Node:
    """The node at which the longest match of `key` ends; splits the node that it ends in."""
    node, child, pages = walk(root, key, core.stride)
    if child is not None and pages:
        return split(core, child, pages)
    return node


def match(core: Core, key: bytes, root: Node) -> Match:
    """Match, touch what was matched, and split where the match ends."""
    node, child, pages = walk(root, key, core.stride)
    if child is not None and pages:
        node = split(core, child, pages)
    core.touch(node)
    size = core.config.page_size
    end = node.end
    if not core.auxiliary:
        device = node
        while device.device[FULL].slots is None:
            assert device.parent is not None
            device = device.parent
        have = device.end
        return _match(Match, (node.id, end * size, device.id, have * size, node.id, (end - have) * size))
    here = last_usable(node, core.window, core.swa, core.mamba, host=False)
    there = here if here is node else last_usable(node, core.window, core.swa, core.mamba, host=True)
    have, could = here.end, there.end
    return _match(
        Match, (node.id, end * size, here.id, have * size, there.id, (could - have) * size if could > have else 0)
    )
