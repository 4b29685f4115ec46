"""Finding what is there of a request's tokens."""

from __future__ import annotations

from typing import NamedTuple

from .config import FULL
from .core import Core
from .node import Node
from .requests import split
from .tree import Coverage, Walk, walk


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


def descend(core: Core, key: bytes) -> Node:
    """The node at which the longest match of `key` ends; splits the node that it ends in."""
    found = walk(core.root, key, core.stride)
    return settle_walk(core, found)


def settle_walk(core: Core, found: Walk) -> Node:
    """The node that a walk ends at, after a split if it ends inside one."""
    if found.pages:
        assert found.child is not None
        return split(core, found.child, found.pages)
    return found.node


def match(core: Core, key: bytes) -> Match:
    """Match, touch what was matched, and split where the match ends."""
    node = descend(core, key)
    core.touch(node)
    size = core.config.page_size
    if not core.auxiliary:
        device = node
        while device.device[FULL].slots is None:
            assert device.parent is not None
            device = device.parent
        return Match(
            node.id, node.end * size, device.id, device.end * size, node.id, (node.end - device.end) * size
        )
    here = there = core.root
    on_device = Coverage(core.components, core.window, host=False)
    anywhere = Coverage(core.components, core.window, host=True)
    for member in reversed(node.path()[:-1]):
        pages = core.pages(member)
        if on_device.usable(member, pages):
            here = member
        if anywhere.usable(member, pages):
            there = member
    return Match(
        node.id, node.end * size, here.id, here.end * size, there.id, max(0, there.end - here.end) * size
    )
