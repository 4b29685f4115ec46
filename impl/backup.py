"""Device to host: a backup begins, is acked, or fails."""

from __future__ import annotations

from .config import FULL, NAMES
from .core import Core, Row, row
from .errors import NothingToDo, OutOfHostMemory
from .host_room import make_host_room
from .node import Node, Operation, Seat, lock_seat
from .transfers.base import Copy


def begin_backup(core: Core, node: Node, top: Node, receipt: Operation) -> list[Copy]:
    """A D2H copy of FULL of the segment from `node` up to `top` starts.

    Host copies are published now and settle at the ack. write_back: its destination is host-locked (SGLang
    #28468). write_through: its source is device-locked and marked, and a backed-up node has a backed-up
    parent (SGLang #31902). The caller has made room.
    """
    copies, rows = [], core.rows()
    segment = node.segment(top)
    for member in segment:
        source = member.device[FULL]
        assert source.slots is not None
        assert source.pending is None, "the bytes to copy have arrived"
        copies.append(_publish(core, member, FULL, receipt, rows))
        if core.write_back:
            lock_seat(member.host[FULL], member, receipt)
        else:
            member.write_through_pending_id = receipt.id
    if not core.write_back:
        assert top.parent is not None
        assert top.parent.on_host, "the parent is backed up"
        core.lock_path(node, receipt)
    if core.recorder is not None:
        args = {"node": node.id, "top": top.id, "holder": receipt.id}
        core.emit("begin_backup", args, segment if core.write_back else node.path(), rows=rows)
    return copies


def backup_aux(core: Core, node: Node, component: int, receipt: Operation) -> Copy:
    """A D2H copy of SWA or MAMBA starts, with a FULL backup of the same receipt or on its own.

    The caller has made room.
    """
    source = node.device[component]
    assert source.pending is None, "the bytes to copy have arrived"
    rows = core.rows()
    copy = _publish(core, node, component, receipt, rows)
    lock_seat(node.host[component], node, receipt)
    touched = [node]
    if not core.write_back:
        lock_seat(source, node, receipt)
        if receipt.path is None:
            core.lock_path(node, receipt)
            touched = node.path()
    if core.recorder is not None:
        args = {"node": node.id, "component": NAMES[component], "holder": receipt.id}
        core.emit("backup_aux", args, touched, rows=rows)
    return copy


def _publish(core: Core, node: Node, component: int, receipt: Operation, rows: list[Row] | None) -> Copy:
    source = node.device[component].slots
    assert source is not None
    slots = core.take("host", component, len(source))
    core.occupy(node, "host", component, slots, receipt)
    if rows is not None:
        rows.append(row("take", "host", component, slots, node))
    return Copy(core.pools.device[component], source, core.pools.host[component], slots)


def may_ack_backup(core: Core, receipt: Operation) -> bool:
    """write_through: of no parent of what it wrote has the copy failed."""
    if core.write_back:
        return True
    for seat, node in receipt.moving.items():
        if seat is node.host[FULL]:
            assert node.parent is not None
            source = node.parent.host[FULL].pending
            if not node.parent.on_host or (source is not None and source.doomed):
                return False
    return True


def ack_backup(core: Core, receipt: Operation) -> None:
    """The D2H is complete, on every node that what it copied has been split into since (SGLang #16946,
    #27072).
    """
    written = _written(receipt)
    for seat, _ in written:
        seat.pending = None
    touched = core.release_all(receipt)
    for seat, node in written:
        if seat is node.host[FULL]:
            core.refresh_duplicate(node)
        touched.append(node)
    for node in touched:
        core.consider(node)
    if core.recorder is not None:
        core.emit("ack_backup", {"holder": receipt.id}, touched)


def _written(receipt: Operation) -> list[tuple[Seat, Node]]:
    """What it wrote, with the marks on it given back."""
    written = list(receipt.moving.items())
    receipt.moving.clear()
    for seat, node in written:
        if seat is node.host[FULL]:
            node.write_through_pending_id = 0
    return written


def may_fail_backup(core: Core, receipt: Operation) -> bool:
    """write_through: nothing strictly below relies on what it wrote as a backed-up parent."""
    if core.write_back:
        return True
    for seat, node in receipt.moving.items():
        if seat is node.host[FULL]:
            own = sum(child.host[FULL].pending is receipt for child in node.children.values())
            if node.host_children != own:
                return False
    return True


def fail_backup(core: Core, receipt: Operation) -> None:
    """The D2H failed: what it wrote is not a copy and is freed; the device copies stay."""
    rows = core.rows()
    written = _written(receipt)
    touched = core.release_all(receipt)
    for seat, node in written:
        core.vacate(node, "host", node.host.index(seat), rows)
        core.refresh_duplicate(node)
        touched.append(node)
    for node in touched:
        core.consider(node)
    if core.recorder is not None:
        core.emit("fail_backup", {"holder": receipt.id}, touched, rows=rows)


def backup(core: Core, node: Node) -> Operation:
    """Back up a node: under write_through with its unbacked ancestors, in one operation; auxiliary copies as
    there is room. What is being loaded has a host copy, so that all that has none has arrived.

    Raises:
        NothingToDo: everything that is on the device is on the host, or nothing is on the device.
        OutOfHostMemory: no room for FULL.
    """
    if not node.on_device or node.parent is None:
        raise NothingToDo("node", f"{node.id} has nothing on the device to back up")
    top = node
    while not core.write_back and top.parent is not None and not top.parent.on_host:
        top = top.parent
    segment = [] if node.on_host else node.segment(top)
    auxiliary = [(m, c) for m in segment or [node] for c in core.auxiliary if _worth_a_copy(m, c)]
    if not segment and not auxiliary:
        raise NothingToDo("node", f"{node.id} is on the host already")
    if segment and not make_host_room(core, FULL, sum(core.pages(m) for m in segment)):
        raise OutOfHostMemory("node", f"no host room for node {node.id}")
    auxiliary = [(m, c) for m, c in auxiliary if _aux_room(core, m, c, auxiliary)]
    if not segment and not auxiliary:
        raise OutOfHostMemory("node", f"no host room for the auxiliary copies of node {node.id}")
    receipt = Operation(core.holder_id(), "backup", node)
    core.holders[receipt.id] = receipt
    copies = begin_backup(core, node, top, receipt) if segment else []
    copies += [
        backup_aux(core, m, c, receipt) for m, c in auxiliary if core.pools.host[c].slots.available >= core.need(m, c)
    ]
    receipt.ticket = core.engine.submit("backup", copies, core.engine.fence(), core.config.group)
    core.in_flight["backup"].append(receipt)
    return receipt


def _worth_a_copy(node: Node, component: int) -> bool:
    device, host = node.device[component], node.host[component]
    return device.slots is not None and device.pending is None and host.slots is None


def _aux_room(core: Core, node: Node, component: int, wanted: list[tuple[Node, int]]) -> bool:
    need = sum(core.need(m, c) for m, c in wanted if c == component)
    return make_host_room(core, component, need) or core.pools.host[component].slots.available >= core.need(
        node, component
    )
