"""What requests do to the tree, one transition at a time: insert, split, lock, unlock, forward."""

from __future__ import annotations

from .config import FULL, MAMBA, NAMES, SWA
from .content import DIGEST
from .core import Core, row
from .node import Node, Operation, Receipt, halve, lock_seat
from .pools import Pool
from .slots import Slots


def insert_leaf(core: Core, parent: Node, key: bytes) -> Node:
    """Tokens that a request has computed become a new leaf. The caller has made room."""
    leaf = core.new_node(parent, key)
    slots = core.full.take(leaf.end - parent.end)
    assert slots is not None, "room was not made first"
    parent.children[key[: core.stride]] = leaf
    parent.device_children += 1
    core.nodes[leaf.id] = leaf
    leaf.device[FULL].slots = slots
    if core.content:
        core.fill(leaf, FULL)
    core.device_leaves.push(leaf)
    if core.recorder is not None:
        args = {"parent": parent.id, "leaf": leaf.id}
        core.emit("insert_leaf", args, (parent, leaf), rows=[row("take", "device", FULL, slots, leaf)])
    return leaf


def unevict(core: Core, node: Node) -> None:
    """A request recomputed tokens of a host-only node: its slots become the node's device copy."""
    assert node.parent is not None
    assert node.parent.on_device, "prefix closure"
    slots = core.take("device", FULL, core.pages(node))
    core.occupy(node, "device", FULL, slots)
    core.fill(node, FULL)
    core.refresh_duplicate(node)
    core.consider(node)
    if core.recorder is not None:
        core.emit("unevict", {"node": node.id}, (node,), rows=[row("take", "device", FULL, slots, node)])


def attach_aux(core: Core, node: Node, component: int) -> None:
    """A request recomputed an auxiliary copy that the node has not got, or has lost (SGLang #29352)."""
    assert node.on_device, "auxiliary copies need FULL"
    slots = core.pools.device[component].slots.take(core.need(node, component))
    assert slots is not None, "room was not made first"
    assert node.device[component].slots is None, "occupied twice"
    node.device[component].slots = slots
    if core.content:
        core.fill(node, component)
    queue = core.device_aux[component]
    if queue.fits(node):
        queue.push(node)
    if core.recorder is not None:
        args = {"node": node.id, "component": NAMES[component]}
        core.emit("attach_aux", args, (node,), rows=[row("take", "device", component, slots, node)])


def split(core: Core, node: Node, pages: int) -> Node:
    """A new node takes the first `pages` pages of `node`, with all locks, pins, marks and copies in flight on
    them.

    Locks or marks lost here were SGLang #16946, #27072, #38480, #38835. The state of MAMBA belongs to the
    node's end and stays.
    """
    parent = node.parent
    assert parent is not None
    assert 0 < pages < core.pages(node), "a split leaves two nodes"
    cut = pages * core.stride
    prefix = core.new_node(parent, node.key[:cut])
    parent.children[node.key[: core.stride]] = prefix
    node.key = node.key[cut:]
    node.parent = prefix
    prefix.children[node.key[: core.stride]] = node
    if node.hashes is not None:
        at = pages * DIGEST
        prefix.hashes, node.hashes = node.hashes[:at], node.hashes[at:]
    core.nodes[prefix.id] = prefix
    prefix.lock_ref = node.lock_ref
    for c in core.components:
        if c != MAMBA:
            halve(node.device[c], prefix.device[c], prefix, pages)
            halve(node.host[c], prefix.host[c], prefix, pages)
    prefix.device_children = int(node.on_device)
    prefix.host_children = int(node.on_host)
    prefix.load_back_pending_id = node.load_back_pending_id
    prefix.write_through_pending_id = node.write_through_pending_id
    prefix.duplicate = node.duplicate
    prefix.stored = node.stored
    prefix.touched = node.touched
    prefix.born = node.born
    prefix.hits = node.hits
    prefix.priority = node.priority
    core.consider(prefix)
    if core.recorder is not None:
        moved = [
            row("move", tier, c, seats[c].slots, prefix)  # type: ignore[arg-type]
            for tier, seats in (("device", prefix.device), ("host", prefix.host))
            for c in core.components
            if seats[c].slots is not None
        ]
        core.emit("split", {"node": node.id, "prefix": prefix.id}, (node, prefix), rows=moved)
    return prefix


def lock(core: Core, node: Node) -> Receipt:
    """A request locks what it is going to read: the path, its window, its state.

    The whole path is on the device.
    """
    assert node.device[FULL].slots is not None
    id_ = core.next_holder
    core.next_holder = id_ + 1
    core.holders[id_] = receipt = Receipt(id_, "request", node)
    boundary = lock_device(core, node, node, receipt)
    if core.recorder is not None:
        args = {"node": node.id, "holder": receipt.id}
        if boundary is not None:
            args["boundary"] = boundary.id
        core.emit("lock", args, node.path())
    return receipt


def lock_device(core: Core, node: Node, deepest: Node, receipt: Receipt) -> Node | None:
    """FULL from `deepest` up, SWA within the window of `node`, the state of MAMBA on it; where resident.

    Returns the window's top.
    """
    core.lock_path(deepest, receipt)
    if not core.auxiliary:
        return None
    boundary = None
    if core.swa:
        boundary, parent = node, node.parent
        while True:
            seat = boundary.device[SWA]
            if seat.slots is not None:
                lock_seat(seat, boundary, receipt)
            if parent is None or parent.parent is None or node.end - parent.end >= core.window:
                break
            boundary, parent = parent, parent.parent
    if core.mamba and node.device[MAMBA].slots is not None:
        lock_seat(node.device[MAMBA], node, receipt)
    return boundary


def unlock(core: Core, receipt: Receipt) -> None:
    """A request ends or is aborted: it gives back what its receipt says, whatever the tree looks like now
    (SGLang #24972).
    """
    leaf, claimed = receipt.path, len(receipt.locks)
    if core.order is not None:
        core.computing.stops_reading(receipt.id)
    touched = core.release_all(receipt)
    # Those above the deepest node have a child on the device: they become candidates when it goes.
    if leaf is not None and not leaf.device_children and core.is_device_leaf(leaf):
        core.device_leaves.push(leaf)
    if claimed:
        for node in touched[:claimed]:
            for queue in core.device_aux.values():
                if not node.queued & queue.bit and queue.fits(node):
                    queue.push(node)
    if core.recorder is not None:
        core.emit("unlock", {"holder": receipt.id}, touched)


def release_window(core: Core, receipt: Receipt, node: Node) -> None:
    """A request has moved on: it gives back its SWA locks above `node` (SGLang #36350)."""
    touched = []
    above = node.parent
    while above is not None and SWA in core.auxiliary:
        seat = above.device[SWA]
        if seat.locks and receipt in seat.locks:
            del seat.locks[receipt]
            del receipt.locks[seat]
            touched.append(above)
            core.consider(above)
        above = above.parent
    if core.order is not None and core.computing.stops_reading(receipt.id):
        core.computing.reads_on(receipt.id, pages_of(core, reads(receipt)))
    if core.recorder is not None:
        core.emit("release_window", {"node": node.id, "holder": receipt.id}, [node, *touched])


def reads(receipt: Receipt) -> list[tuple[Node, int]]:
    """What a request has locked on the device, by node and component."""
    found = [(node, FULL) for node in (receipt.path.path()[:-1] if receipt.path else ())]
    found += [(node, node.device.index(seat)) for seat, node in receipt.locks.items()]
    return found


def pages_of(core: Core, wanted: list[tuple[Node, int]]) -> list[tuple[Pool, Slots]]:
    """The pages of device copies."""
    seats = [(core.pools.device[c], node.device[c].slots) for node, c in wanted]
    return [(pool, slots) for pool, slots in seats if slots is not None]


def unarrived(receipt: Receipt, node: Node | None = None) -> tuple[Node, Operation] | None:
    """A node that the request has locked, down to `node`, and whose bytes are not there yet, and who brings them."""
    walker = node or receipt.path
    while walker is not None:
        if (source := walker.device[FULL].pending) is not None:
            return walker, source
        walker = walker.parent
    for seat, node in receipt.locks.items():
        if seat.pending is not None:
            return node, seat.pending
    return None


def forward(core: Core, receipt: Receipt, node: Node | None = None) -> None:
    """A request reads its locked path, or what of it leads down to `node`; the caller has made sure that every byte
    has arrived (SGLang #22811, #29819).
    """
    if core.recorder is not None:
        read = node or receipt.node
        core.emit("forward", {"node": read.id, "holder": receipt.id}, (read,))
