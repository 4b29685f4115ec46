"""What a request has computed enters the tree."""

from __future__ import annotations

from array import array
from contextlib import suppress

from .backup import backup
from .config import FULL, MAMBA, NAMES, SWA
from .core import Core
from .errors import OutOfDeviceSlots, OutOfHostMemory, Refused, StaleReceipt
from .evict import make_device_room
from .keys import TOKEN_BYTES, Tokens, encode
from .node import Node, Receipt
from .requests import attach_aux, insert_leaf, lock, split, unevict, unlock
from .tree import walk

LOOKED_AT = 64 * TOKEN_BYTES
"""Bytes of a node's key that an insert after a receipt is compared with."""


def insert(core: Core, key: bytes, start: Node, swa: bool, mamba: bool) -> Node:
    """Insert a sequence: FULL of all, SWA of its window, MAMBA of its end, as asked for. Returns the node that it
    ends at.

    What the tree has is not computed again; what it has on the host only becomes resident by the request's
    own pages.

    Args:
        key: what follows `start`.
        start: where matching resumes; locked by the request, unless it is the root.

    Raises:
        OutOfDeviceSlots: no room; the tree keeps what it had.
    """
    base = start.end
    end = base + len(key) // core.stride
    cut = max(0, end - core.window) if swa else end
    while True:
        node, child, pages = walk(start, key, core.stride)
        if child is not None and pages:
            node = split(core, child, pages)
        if not core.auxiliary and node.device[FULL].slots is not None:
            need = end - node.end
            if need <= core.full.available and not core.starved["device"]:
                # Nothing to restore and room for the rest: what most inserts are.
                if need:
                    node = insert_leaf(core, node, key if node is start else key[(node.end - base) * core.stride :])
                return _done(core, node, [node])
        if swa:
            _cut_at(core, node, cut)
        missing = _missing(core, node, end, cut, mamba)
        short = _short(core, missing)
        if not short:
            break
        _make_room(core, node, missing, short)
    return _apply(core, node, key, base, cut if swa else None, mamba)


def after_receipt(core: Core, tokens: Tokens, receipt: Receipt) -> bytes:
    """The key of what follows a request's node in `tokens`. Of what comes before, only the last tokens of that node
    are looked at, to find receipts that were mixed up.

    Raises BadTokens, StaleReceipt.
    """
    node, size = receipt.node, core.config.page_size
    last = node.key[-LOOKED_AT:]
    if isinstance(tokens, array):
        at = node.end * size
        tail = encode(tokens[at:], size)
        good = encode(tokens[max(0, at - len(last) // TOKEN_BYTES) : at], 1) == last
    else:
        key, at = encode(tokens, size), node.end * core.stride
        tail = key[at:]
        good = at <= len(key) and key.endswith(last, 0, at)
    if not good:
        raise StaleReceipt("after", f"the tokens do not begin with those of node {node.id}")
    return tail


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


def _apply(core: Core, node: Node, key: bytes, base: int, cut: int | None, mamba: bool) -> Node:
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
    end = base + len(key) // stride
    if cut is not None and node.end < cut < end:
        node = insert_leaf(core, node, key[(node.end - base) * stride : (cut - base) * stride])
    if node.end < end:
        node = insert_leaf(core, node, key[(node.end - base) * stride :])
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
    return _done(core, node, changed)


def _done(core: Core, node: Node, changed: list[Node]) -> Node:
    core.clock = now = core.clock + 1
    walker: Node | None = node
    while walker is not None:
        walker.touched = now
        walker.hits += 1
        walker = walker.parent
    if not core.write_back:
        _write_through(core, node, list(dict.fromkeys(changed)))
    return node


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
        with suppress(Refused):
            try:
                backup(core, member)
            except OutOfHostMemory:
                core.stats.backups_declined += 1
