"""Room on the device: what may be given up there, one transition at a time."""

from __future__ import annotations

from .config import FULL, NAMES
from .core import Core, Row
from .node import Node


def may_demote(core: Core, node: Node) -> bool:
    """FULL has arrived on the host, nobody has locked or is copying anything of it, and nothing below is on
    the device.
    """
    full = node.host[FULL]
    return core.is_device_leaf(node) and full.slots is not None and not _in_flight(core, node)


def _in_flight(core: Core, node: Node) -> bool:
    return any(
        node.host[c].pending is not None or node.device[c].pending is not None for c in core.components
    )


def demote(core: Core, node: Node) -> int:
    """A device leaf gives up its device copies and lives on on the host. Returns FULL pages freed.

    Never before the host copy has arrived (SGLang #24585). Auxiliary copies without a host copy are lost.
    """
    assert may_demote(core, node)
    assert not any(seat.locks for seat in node.device)
    rows = core.rows()
    for c in core.components:
        core.vacate(node, "device", c, rows)
    node.duplicate = False
    core.consider(node)
    parent = node.parent
    assert parent is not None
    core.consider(parent)
    if core.recorder is not None:
        core.emit("demote", {"node": node.id}, (node,), rows=rows)
    return core.pages(node)


def may_delete(core: Core, node: Node) -> bool:
    """A leaf without a FULL host copy that nobody has locked."""
    return core.is_device_leaf(node) and not node.children and not node.on_host and _unlocked(core, node)


def delete_leaf(core: Core, node: Node) -> int:
    """A leaf that was never backed up is dropped. Returns FULL pages freed."""
    assert may_delete(core, node)
    rows = core.rows()
    parent = node.parent
    assert parent is not None
    _drop(core, node, rows)
    core.consider(parent)
    if core.recorder is not None:
        core.emit("delete_leaf", {"node": node.id}, gone=(node.id,), rows=rows)
    return core.pages(node)


def may_drop_subtree(core: Core, node: Node) -> bool:
    """A device leaf without a FULL host copy, and nobody has locked anything of it or below it."""
    if not core.is_device_leaf(node) or node.on_host:
        return False
    return all(_unlocked(core, member) for member in node.subtree())


def drop_subtree(core: Core, node: Node) -> int:
    """No host room for a device leaf: it goes, with the host-only nodes below it (SGLang #27562).

    Returns FULL pages freed.
    """
    assert core.write_back
    assert may_drop_subtree(core, node)
    rows = core.rows()
    parent = node.parent
    assert parent is not None
    members = node.subtree()
    for member in reversed(members):
        _drop(core, member, rows)
    core.consider(parent)
    if core.recorder is not None:
        core.emit("drop_subtree", {"node": node.id}, gone=[m.id for m in members], rows=rows)
    return core.pages(node)


def _unlocked(core: Core, node: Node) -> bool:
    """No lock of any kind, no pin, nothing in flight."""
    locked = (
        node.lock_ref or node.load_back_pending_id or any(seat.locks for seat in (*node.device, *node.host))
    )
    return not locked and not _in_flight(core, node)


def _drop(core: Core, node: Node, rows: list[Row] | None) -> None:
    for c in core.components:
        core.vacate(node, "device", c, rows)
        core.vacate(node, "host", c, rows)
    core.remove(node)


def evict_device_aux(core: Core, node: Node, component: int) -> int:
    """An auxiliary device copy is given up; FULL stays. Returns pages freed."""
    assert core.device_aux[component].fits(node)
    rows = core.rows()
    core.vacate(node, "device", component, rows)
    core.consider(node)
    if core.recorder is not None:
        core.emit("evict_device_aux", {"node": node.id, "component": NAMES[component]}, (node,), rows=rows)
    return core.need(node, component)
