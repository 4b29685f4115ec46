"""Below the host, one transition at a time: storage is read into a reservation, host copies are written to
storage.
"""

from __future__ import annotations

from .config import FULL, NAMES
from .content import DIGEST
from .core import Core, row
from .node import Node, Operation, Prefetch, lock_seat
from .slots import Slots
from .stores import page_as_bytes, store_key


def begin_prefetch(
    core: Core, anchor: Node, root: Node, key: bytes, first: int, reserved: dict[int, Slots]
) -> Prefetch:
    """A storage read starts into host slots that are the operation's own; its anchor stays until it ends."""
    assert anchor.on_host
    assert anchor.host[FULL].pending is None
    receipt = Prefetch(core.holder_id(), anchor, root, key, first, reserved)
    core.holders[receipt.id] = receipt
    lock_seat(anchor.host[FULL], anchor, receipt)
    if core.recorder is not None:
        rows = [row("take", "host", c, slots, receipt) for c, slots in reserved.items()]
        core.emit("begin_prefetch", {"node": anchor.id, "holder": receipt.id}, (anchor,), rows=rows)
    return receipt


def complete_prefetch(core: Core, receipt: Prefetch) -> None:
    """The storage read has ended: with all pages, some, or none."""
    assert receipt.ticket is not None
    receipt.filling = False
    receipt.read = receipt.ticket.pages_done[0] if receipt.ticket.pages_done else 0
    if core.recorder is not None:
        core.emit("complete_prefetch", {"holder": receipt.id})


def insert_host(core: Core, parent: Node, key: bytes, receipt: Prefetch, slots: Slots) -> Node:
    """Pages that were read become a host-only leaf.

    Under write_through only below a backed-up parent (SGLang #31902).
    """
    assert not receipt.filling, "pages enter the tree only when their bytes are there"
    assert core.write_back or parent.on_host
    if core.meter is not None:
        core.meter.from_storage += len(slots) * core.config.page_size
    leaf = core.new_node(parent, key)
    parent.children[key[: core.stride]] = leaf
    core.nodes[leaf.id] = leaf
    core.occupy(leaf, "host", FULL, slots)
    core.consider(leaf)
    if core.recorder is not None:
        args = {"parent": parent.id, "leaf": leaf.id, "holder": receipt.id}
        core.emit("insert_host", args, (parent, leaf), rows=[row("move", "host", FULL, slots, leaf)])
    return leaf


def attach_host_aux(core: Core, node: Node, component: int, receipt: Prefetch, slots: Slots) -> None:
    """An auxiliary copy that was read is given to a node."""
    assert not receipt.filling, "pages enter the tree only when their bytes are there"
    core.occupy(node, "host", component, slots)
    core.consider(node)
    if core.recorder is not None:
        args = {"node": node.id, "component": NAMES[component], "holder": receipt.id}
        core.emit("attach_host_aux", args, (node,), rows=[row("move", "host", component, slots, node)])


def end_prefetch(core: Core, receipt: Prefetch) -> None:
    """A prefetch is over or aborted: what is left of its reservation is freed, never while it is being filled
    (SGLang #31296).
    """
    assert not receipt.filling, "a reservation is not freed while it is being filled"
    rows = core.rows()
    for c, slots in receipt.reserved.items():
        if slots:
            core.pools.host[c].slots.give(slots)
            if core.computing.watched:
                core.computing.free(core.pools.host[c], slots)
            if rows is not None:
                rows.append(row("give", "host", c, slots, receipt))
    receipt.reserved.clear()
    touched = core.release_all(receipt)
    for node in touched:
        core.consider(node)
    if core.recorder is not None:
        core.emit("end_prefetch", {"holder": receipt.id}, touched, rows=rows)


def begin_storage_backup(core: Core, node: Node) -> Operation:
    """Storage starts to read a host copy, which is host-locked for as long (SGLang #38480).

    Auxiliary host copies are not locked by it, so their bytes are taken now and stored with the rest at the
    ack.
    """
    host = node.host[FULL]
    assert host.slots is not None
    assert host.pending is None
    receipt = Operation(core.holder_id(), "storage_backup", node)
    core.holders[receipt.id] = receipt
    lock_seat(host, node, receipt)
    for c in core.auxiliary:
        seat = node.host[c]
        if seat.slots is None or seat.pending is not None:
            continue
        hashes = page_hashes(core.hashes(node))[-len(seat.slots) :]
        core.computing.read_now([(core.pools.host[c], seat.slots)])
        for page_hash, page in zip(hashes, core.pools.host[c].pages(seat.slots), strict=True):
            receipt.snapshots.append((store_key(c, page_hash), page_as_bytes(page)))
    if core.recorder is not None:
        core.emit("begin_storage_backup", {"node": node.id, "holder": receipt.id}, (node,))
    return receipt


def ack_storage_backup(core: Core, receipt: Operation) -> bool:
    """Storage has it: every node that it has been split into since.

    False if storage does not take the auxiliary pages.
    """
    assert core.store is not None
    try:
        for key, page in receipt.snapshots:
            core.store.put(key, page)
    except OSError:
        return False
    for node in receipt.locks.values():
        node.stored = True
    _finish(core, receipt, "ack_storage_backup")
    return True


def fail_storage_backup(core: Core, receipt: Operation) -> None:
    """Storage does not have it, wholly or in part: the node does not count as stored (SGLang #39444)."""
    _finish(core, receipt, "fail_storage_backup")


def _finish(core: Core, receipt: Operation, action: str) -> None:
    touched = core.release_all(receipt)
    for node in touched:
        core.consider(node)
    if core.recorder is not None:
        core.emit(action, {"holder": receipt.id}, touched)


def page_hashes(hashes: bytes) -> list[bytes]:
    """Chained hashes one by one."""
    return [hashes[at : at + DIGEST] for at in range(0, len(hashes), DIGEST)]
