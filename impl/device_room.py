"""Room on the device: what may be given up there, one transition at a time.

Each returns the pages that it freed, 0 if it may not be done in this state.
"""

from __future__ import annotations

from .config import FULL, NAMES
from .core import Core, Row
from .node import Node


def demote(core: Core, node: Node) -> int:
    """A device leaf gives up its device copies and lives on on the host.

    FULL has arrived there (SGLang #24585), nobody has locked or is copying anything of it, nothing below is
    on the device. Auxiliary copies without a host copy are lost.
    """
    if not node.on_host or not core.is_device_leaf(node) or in_flight(node):
        return 0
    rows = core.rows()
    for c in core.components:
        assert not node.device[c].locks, "auxiliary locks come with one on the path"
        core.vacate(node, "device", c, rows)
    node.duplicate = False
    core.consider(node)
    parent = node.parent
    assert parent is not None
    core.consider_leaf(parent)
    if core.recorder is not None:
        core.emit("demote", {"node": node.id}, (node,), rows=rows)
    return core.pages(node)


def in_flight(node: Node) -> bool:
    """Some copy of it is being filled."""
    for seat in node.device:
        if seat.pending is not None:
            return True
    return any(seat.pending is not None for seat in node.host)


def delete_leaf(core: Core, node: Node) -> int:
    """A leaf that was never backed up, and that nobody has locked, is dropped."""
    if node.children or node.host[FULL].slots is not None or not core.is_device_leaf(node) or not _unlocked(node):
        return 0
    rows = core.rows()
    parent = node.parent
    assert parent is not None
    if core.meter is not None:
        core.meter.lost(core.config.page_size * core.pages(node), node.stored)
    _drop(core, node, rows)
    core.consider_leaf(parent)
    if core.recorder is not None:
        core.emit("delete_leaf", {"node": node.id}, gone=(node.id,), rows=rows)
    return core.pages(node)


def drop_subtree(core: Core, node: Node) -> int:
    """write_back has no host room for a device leaf: it goes, with all below it on the host (SGLang #27562).

    FULL is not on the host, nothing below is on the device, and nobody has locked anything of it or below it.
    """
    if not core.write_back or node.on_host or not core.is_device_leaf(node):
        return 0
    members = node.subtree()
    if not all(_unlocked(member) for member in members):
        return 0
    rows = core.rows()
    parent = node.parent
    assert parent is not None
    for member in reversed(members):
        if core.meter is not None:
            core.meter.lost(core.config.page_size * core.pages(member), member.stored)
        _drop(core, member, rows)
    core.consider_leaf(parent)
    if core.recorder is not None:
        core.emit("drop_subtree", {"node": node.id}, gone=[m.id for m in members], rows=rows)
    return core.pages(node)


def _unlocked(node: Node) -> bool:
    """No lock of any kind, no pin, nothing in flight."""
    if node.lock_ref or node.load_back_pending_id:
        return False
    for seats in (node.device, node.host):
        for seat in seats:
            if seat.locks or seat.pending is not None:
                return False
    return True


def _drop(core: Core, node: Node, rows: list[Row] | None) -> None:
    for c in core.components:
        core.vacate(node, "device", c, rows)
        if node.host[c].slots is not None:
            core.vacate(node, "host", c, rows)
    core.remove(node)


def evict_device_aux(core: Core, node: Node, component: int) -> int:
    """An auxiliary device copy that nobody has locked or is copying is given up; FULL stays."""
    if not core.device_aux[component].fits(node):
        return 0
    rows = core.rows()
    core.vacate(node, "device", component, rows)
    core.consider(node)
    if core.recorder is not None:
        core.emit("evict_device_aux", {"node": node.id, "component": NAMES[component]}, (node,), rows=rows)
    return core.need(node, component)
