"""Host to device, one transition at a time: a load-back begins, is committed, acked, fails, is given up."""

from __future__ import annotations

from .config import FULL, MAMBA, SWA
from .core import Core, row
from .node import Node, Operation, lock_seat
from .requests import lock_device
from .transfers.base import Copy


def begin_load_back(core: Core, node: Node) -> Operation:
    """A request wants what is on the host of `node`, the anchor.

    All that will be used is locked before room is made for it (SGLang #27444, #27631). On the host: FULL of
    the anchor, SWA within its window, the state of MAMBA on it, each where it is only on the host. On the
    device: what `lock` takes, as far as it is there.
    """
    receipt = Operation(core.holder_id(), "loading", node)
    core.holders[receipt.id] = receipt
    present = node
    while present.device[FULL].slots is None:
        assert present.parent is not None
        present = present.parent
    if present is not node:
        lock_seat(node.host[FULL], node, receipt)
    boundary = lock_device(core, node, present, receipt)
    if boundary is not None:
        for member in node.segment(boundary):
            seat = member.host[SWA]
            if seat.slots is not None and member.device[SWA].slots is None:
                lock_seat(seat, member, receipt)
    if core.mamba and node.host[MAMBA].slots is not None and node.device[MAMBA].slots is None:
        lock_seat(node.host[MAMBA], node, receipt)
    if core.recorder is not None:
        args = {"node": node.id, "holder": receipt.id}
        if boundary is not None:
            args["boundary"] = boundary.id
        core.emit("begin_load_back", args, node.path())
    return receipt


def sources(core: Core, receipt: Operation) -> list[tuple[Node, int]]:
    """What there is to load: FULL of the path, SWA and MAMBA that the receipt has host-locked; where not on
    the device.
    """
    wanted = []
    walker = receipt.node
    while walker.device[FULL].slots is None:
        wanted.append((walker, FULL))
        assert walker.parent is not None
        walker = walker.parent
    for seat, node in receipt.locks.items() if core.auxiliary else ():
        for c in core.auxiliary:
            if seat is node.host[c] and seat.slots is not None and node.device[c].slots is None:
                wanted.append((node, c))
    return wanted


def commit_load_back(core: Core, receipt: Operation, wanted: list[tuple[Node, int]]) -> list[Copy]:
    """Room is there: destinations are published, the H2D copies can start.

    write_back pins the FULL sources, which are duplicates from now on; SWA and MAMBA sources are held by
    their own host locks (SGLang #34519, #36317). Host locks on what is not read are given back.
    """
    assert wanted, "something is to be loaded"
    copies, rows = [], core.rows()
    node = receipt.node
    for member, c in wanted:
        source = member.host[c]
        assert source.slots is not None
        assert source.pending is None, "a host-only copy has arrived"
        slots = core.pools.device[c].slots.take(len(source.slots))
        assert slots is not None, "room was not made first"
        seat = core.occupy(member, "device", c, slots, receipt)
        if c != FULL:
            lock_seat(seat, member, receipt)
        elif core.write_back:
            assert member.load_back_pending_id == 0, f"node {member.id} is pinned by {member.load_back_pending_id}"
            member.load_back_pending_id = receipt.id
        copies.append(Copy(core.pools.host[c], source.slots, core.pools.device[c], slots))
        if rows is not None:
            rows.append(row("take", "device", c, slots, member))
    core.lock_path(node, receipt)
    touched = []
    read = {member.host[c] for member, c in wanted}
    for seat, member in list(receipt.locks.items()):
        if seat not in read and seat in member.host:
            assert seat.locks is not None
            del seat.locks[receipt], receipt.locks[seat]
            touched.append(member)
            core.consider(member)
    receipt.kind = "load_back"
    if core.recorder is not None:
        core.emit("commit_load_back", {"node": node.id, "holder": receipt.id}, [*node.path(), *touched], rows=rows)
    return copies


def finish_load_back(core: Core, receipt: Operation) -> None:
    """The H2D is complete: its pins go, its locks go back, and what has become a duplicate is tracked.

    Under write_through nothing was pinned; a node prefetched from storage becomes a duplicate here for the
    first time.
    """
    filled = list(receipt.moving.items())
    receipt.moving.clear()
    loaded = []
    for seat, member in filled:
        seat.pending = None
        if seat is member.device[FULL]:
            loaded.append(member)
            # The pin of the other half of a split is this one's too.
            if member.load_back_pending_id == receipt.id:
                member.load_back_pending_id = 0
    changed = dict.fromkeys((*(member for _, member in filled), *receipt.locks.values(), receipt.node))
    touched = core.release_all(receipt)
    path = receipt.node.path() if core.recorder is not None or not core.write_back else []
    for member in loaded if core.write_back else path:
        if not member.duplicate:
            core.refresh_duplicate(member)
    # All others on the path have a child on the device, and locks of nobody else's have changed.
    for member in changed:
        core.consider(member)
    if core.recorder is not None:
        args = {"node": receipt.node.id, "holder": receipt.id}
        core.emit("ack_load_back", args, [*path, *(member for _, member in filled), *touched])


def may_fail_load_back(core: Core, receipt: Operation) -> bool:
    """Nobody else has locked what it was filling, nothing else below is on the device, no backup reads
    auxiliary copies there.
    """
    for seat, node in receipt.moving.items():
        if seat is not node.device[FULL]:
            if seat.locks and any(other is not receipt for other in seat.locks):
                return False
            continue
        own = sum(child.device[FULL].pending is receipt for child in node.children.values())
        if node.lock_ref > 1 or node.device_children != own:
            return False
        if any(node.host[c].pending is not None for c in core.auxiliary):
            return False
    return True


def fail_load_back(core: Core, receipt: Operation) -> None:
    """The H2D failed: the device slots hold nothing and are freed, with auxiliary copies that need their FULL
    (SGLang #38352).
    """
    rows = core.rows()
    filled = list(receipt.moving.items())
    receipt.moving.clear()
    touched = core.release_all(receipt)
    for seat, node in filled:
        if seat is node.device[FULL]:
            node.load_back_pending_id = 0
            for c in core.components:
                core.vacate(node, "device", c, rows)
            node.duplicate = False
        else:
            core.vacate(node, "device", node.device.index(seat), rows)
        touched.append(node)
    for node in touched:
        core.consider(node)
    if core.recorder is not None:
        args = {"node": receipt.node.id, "holder": receipt.id}
        core.emit("fail_load_back", args, [receipt.node, *touched], rows=rows)


def refuse_load_back(core: Core, receipt: Operation) -> None:
    """There is nothing to load: the only excuse for answering a load-back with nothing (SGLang #35931)."""
    touched = core.release_all(receipt)
    for node in touched:
        core.consider(node)
    if core.recorder is not None:
        core.emit("refuse_load_back", {"node": receipt.node.id, "holder": receipt.id}, touched)


def abort_load_back(core: Core, receipt: Operation) -> None:
    """There is no room, or the request was aborted: all locks go back."""
    touched = core.release_all(receipt)
    for node in touched:
        core.consider(node)
    if core.recorder is not None:
        core.emit("abort_load_back", {"holder": receipt.id}, touched)
