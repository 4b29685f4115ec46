"""What a request has computed enters the tree."""

from __future__ import annotations

from contextlib import suppress

from .backup import backup
from .config import FULL, MAMBA, NAMES, SWA
from .core import Core
from .errors import OutOfDeviceSlots, OutOfHostMemory, Refused, StaleReceipt
from .evict import make_device_room
from .matching import settle_walk
from .node import Node, Receipt
from .requests import attach_aux, insert_leaf, lock, split, unevict, unlock
from .tree import walk


def insert(core: Core, key: bytes, *, swa: bool, mamba: bool, after: Receipt | None) -> Node:
    """Insert a whole sequence: FULL of all, SWA of its window, MAMBA of its end, as asked for. Returns the
    node that it ends at.

    What the tree has is not computed again; what it has on the host only becomes resident by the request's
    own pages.

    Args:
        after: a request's receipt whose node `key` is known to begin with; matching resumes there.

    Raises:
        OutOfDeviceSlots: no room; the tree keeps what it had.
    """
    start = core.root if after is None else _start(core, key, after)
    stride = core.stride
    end = len(key) // stride
    cut = max(0, end - core.window) if swa else end
    while True:
        node = settle_walk(core, walk(start, key, stride))
        if swa:
            _cut_at(core, node, cut)
        missing = _missing(core, node, end, cut, mamba)
        short = _short(core, missing)
        if not short:
            break
        _make_room(core, node, missing, short)
    return _apply(core, node, key, cut if swa else None, mamba)


def _start(core: Core, key: bytes, after: Receipt) -> Node:
    node = after.node
    at = node.end * core.stride
    if at > len(key) or not key.endswith(node.key, 0, at):
        raise StaleReceipt("after", f"the tokens do not begin with those of node {node.id}")
    return node


def _cut_at(core: Core, node: Node, cut: int) -> None:
    """Let a node that has lost its window and reaches across its edge be two: only the lower one gets SWA."""
    parent = node.parent
    while parent is not None and parent.end > cut:
        node, parent = parent, parent.parent
    if parent is not None and parent.end < cut < node.end and node.device[SWA].slots is None:
        split(core, node, cut - parent.end)


def _missing(core: Core, node: Node, end: int, window: int, mamba: bool) -> dict[int, int]:
    """Device slots to take for each component; `window` is the page from which on SWA is wanted."""
    missing = {FULL: end - node.end}
    if end > window:
        missing[SWA] = min(end - node.end, end - window)
    if mamba and (node.end < end or node.device[MAMBA].slots is None):
        missing[MAMBA] = 1
    parent = node.parent
    while parent is not None:
        on_device = node.device[FULL].slots is not None
        if on_device and node.end <= window:
            break
        if not on_device:
            missing[FULL] += node.end - parent.end
        if parent.end >= window and node.device[SWA].slots is None:
            missing[SWA] += node.end - parent.end
        node, parent = parent, parent.parent
    return missing


def _short(core: Core, missing: dict[int, int]) -> list[int]:
    """The components of which there are not enough free device slots."""
    if core.starved["device"]:
        return [c for c, need in missing.items() if need]
    device = core.pools.device
    return [c for c, need in missing.items() if need > device[c].slots.available]


def _make_room(core: Core, node: Node, missing: dict[int, int], short: list[int]) -> None:
    """Evict for an insert, with the path it goes along locked.

    Host-only nodes on it may go: the caller looks again.
    """
    while not node.on_device:
        assert node.parent is not None
        node = node.parent
    receipt = lock(core, node) if node.parent is not None else None
    try:
        for c in short:
            if not make_device_room(core, c, missing[c]):
                raise OutOfDeviceSlots("tokens", f"no room for {missing[c]} {NAMES[c]} pages")
    finally:
        if receipt is not None:
            unlock(core, receipt)


def _apply(core: Core, node: Node, key: bytes, cut: int | None, mamba: bool) -> Node:
    """There is room, and nothing below can fail."""
    absent = []
    walker = node
    while walker.device[FULL].slots is None:
        absent.append(walker)
        assert walker.parent is not None
        walker = walker.parent
    for member in reversed(absent):
        unevict(core, member)
    stride = core.stride
    end = len(key) // stride
    if cut is not None and node.end < cut < end:
        node = insert_leaf(core, node, key[node.end * stride : cut * stride])
    if node.end < end:
        node = insert_leaf(core, node, key[node.end * stride :])
    changed = [node, *absent]
    if cut is not None:
        walker, parent = node, node.parent
        while parent is not None and parent.end >= cut:
            if walker.device[SWA].slots is None:
                attach_aux(core, walker, SWA)
                changed.append(walker)
            walker, parent = parent, parent.parent
    if mamba and node.parent is not None and node.device[MAMBA].slots is None:
        attach_aux(core, node, MAMBA)
    _touch(core, node)
    if not core.write_back:
        _write_through(core, node, list(dict.fromkeys(changed)))
    return node


def _touch(core: Core, node: Node) -> None:
    core.clock = now = core.clock + 1
    walker: Node | None = node
    while walker is not None:
        walker.touched = now
        walker.hits += 1
        walker = walker.parent


def _write_through(core: Core, node: Node, changed: list[Node]) -> None:
    """Back up what is new, deepest first with all its unbacked ancestors; what cannot be backed up now stays
    as it is.
    """
    if core.config.policy == "write_through_selective" and node.hits < core.config.threshold:
        walker: Node | None = node
        while walker is not None and walker.hits < core.config.threshold:
            walker = walker.parent
        if walker is None or walker.parent is None:
            return
        changed = [walker]
    for member in changed:
        if member.on_host and not core.auxiliary:
            continue
        with suppress(Refused, OutOfHostMemory):
            backup(core, member)
