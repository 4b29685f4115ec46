"""Storage reads and writes as a whole."""

from __future__ import annotations

from contextlib import suppress

from .config import FULL, MAMBA, SWA
from .content import chain
from .core import Core
from .errors import BadConfig, NothingToDo, NotReady, OutOfHostMemory, StorageError
from .host_room import make_host_room
from .matching import descend
from .node import Node, Operation, Prefetch
from .slots import Slots, joined
from .storage import (
    attach_host_aux,
    begin_prefetch,
    begin_storage_backup,
    end_prefetch,
    insert_host,
    page_hashes,
)
from .stores import Store, StoreSide, leading, store_key
from .transfers.base import Copy


def _store(core: Core, argument: str) -> Store:
    if core.store is None:
        if core.config.storage:
            raise NothingToDo(argument, "the storage tier could not be opened")
        raise BadConfig("storage", "this cache has no storage tier")
    return core.store


def prefetch(core: Core, key: bytes, root: Node) -> Prefetch:
    """Start to read what storage has of the pages that the tree lacks.

    Raises:
        NothingToDo: storage has no more than the tree, cannot be asked, or what it has could not be inserted.
        OutOfHostMemory: no room for one page.
    """
    store = _store(core, "tokens")
    node = descend(core, key, root)
    rest = page_hashes(chain(core.last_hash(node), key[node.end * core.stride :], core.stride))
    try:
        found = leading(store, FULL, rest)
    except StorageError as problem:
        raise NothingToDo("tokens", f"storage cannot be asked: {problem}") from problem
    if not found:
        raise NothingToDo("tokens", f"storage has none of the {len(rest)} pages that the tree lacks")
    count = found
    while not make_host_room(core, FULL, count, mirrors=True):
        count = min(count - 1, core.pools.host[FULL].slots.available)
        if count < 1:
            raise OutOfHostMemory("tokens", "no host room for a single page")
    again = descend(core, key, root)
    if again is not node or not (core.write_back or node.on_host):
        raise NothingToDo("tokens", "what it would hang below is not on the host (any more)")
    tail = _auxiliary(core, store, node, rest[:count])
    reserved = {FULL: core.take("host", FULL, count)} | {c: core.take("host", c, len(keys)) for c, keys in tail.items()}
    keys = {FULL: [store_key(FULL, h) for h in rest[:count]], **tail}
    receipt = begin_prefetch(core, _anchor(node), root, key, node.end, reserved)
    copies = [
        Copy(StoreSide(store, keys[c], core.config.layers), _numbers(len(slots)), core.pools.host[c], slots)
        for c, slots in reserved.items()
    ]
    receipt.ticket = core.engine.submit("prefetch", copies)
    core.in_flight["prefetch"].append(receipt)
    return receipt


def _anchor(node: Node) -> Node:
    """The nearest node with a host copy that has arrived; the root always has."""
    while not node.on_host or node.host[FULL].pending is not None:
        assert node.parent is not None
        node = node.parent
    return node


def _auxiliary(core: Core, store: Store, node: Node, rest: list[bytes]) -> dict[int, list[bytes]]:
    """Keys of the window's SWA pages and the end's state, if storage has them and there is room."""
    wanted = {SWA: rest[-core.window :], MAMBA: rest[-1:]}
    found = {}
    for c in core.auxiliary:
        keys = [store_key(c, h) for h in wanted[c]]
        with suppress(StorageError):
            if len(keys) <= core.pools.host[c].slots.available and all(store.has(k) for k in keys):
                found[c] = keys
    return found


def _numbers(count: int) -> Slots:
    return range(count)


def finish_prefetch(core: Core, receipt: Prefetch) -> Node | None:
    """Hand what was read to the tree and give the rest of the reservation back. Returns the new leaf, if
    there is one.

    Raises:
        NotReady: the storage read is under way.
    """
    if receipt.filling:
        core.refuse("end_prefetch", {"holder": receipt.id}, "the storage read is under way")
        raise NotReady("holder", f"prefetch {receipt.id} is still reading")
    leaf = None if receipt.aborted else _hand_over(core, receipt)
    end_prefetch(core, receipt)
    return leaf


def _hand_over(core: Core, receipt: Prefetch) -> Node | None:
    end = receipt.first + receipt.read
    key = receipt.key[: end * core.stride]
    core.asked = receipt.root
    node = descend(core, key, receipt.root)
    if not receipt.first <= node.end < end or not (core.write_back or node.on_host):
        return None
    whole = (
        end == receipt.first + len(receipt.reserved[FULL])
        and receipt.ticket is not None
        and receipt.ticket.error is None
    )
    cut = max(node.end, end - len(receipt.reserved[SWA])) if whole and SWA in receipt.reserved else node.end
    own = receipt.reserved[FULL]
    offset = receipt.first
    left = joined(own[: node.end - offset], own[end - offset :])
    for low, high in ((node.end, cut), (cut, end)):
        if high > low:
            slots = own[low - offset : high - offset]
            node = insert_host(core, node, key[low * core.stride : high * core.stride], receipt, slots)
    receipt.reserved[FULL] = left
    if whole and SWA in receipt.reserved:
        pages = core.pages(node)
        slots = receipt.reserved[SWA]
        attach_host_aux(core, node, SWA, receipt, slots[len(slots) - pages :])
        receipt.reserved[SWA] = slots[: len(slots) - pages]
    if whole and MAMBA in receipt.reserved:
        attach_host_aux(core, node, MAMBA, receipt, receipt.reserved.pop(MAMBA))
    return node


def storage_backup(core: Core, node: Node) -> Operation:
    """Start to write the FULL host copy of a node, and what auxiliary host copies it has, to storage.

    Raises:
        NothingToDo: the node has no host copy.
        NotReady: its host copy has not arrived.
    """
    store = _store(core, "node")
    host = node.host[FULL]
    if node.parent is None or host.slots is None:
        raise NothingToDo("node", f"{node.id} has no host copy to store")
    if host.pending is not None:
        args = {"node": node.id, "holder": core.holder_id()}
        core.refuse("begin_storage_backup", args, "its host copy has not arrived")
        raise NotReady("node", f"the host copy of {node.id} has not arrived")
    receipt = begin_storage_backup(core, node)
    keys = [store_key(FULL, h) for h in page_hashes(core.hashes(node))]
    side = StoreSide(store, keys, core.config.layers)
    receipt.ticket = core.engine.submit(
        "storage_backup", [Copy(core.pools.host[FULL], host.slots, side, _numbers(len(keys)))]
    )
    core.in_flight["storage_backup"].append(receipt)
    return receipt
