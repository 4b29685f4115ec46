"""Room on the host: what may be given up there, and making room by it. Never touches a device slot."""

from __future__ import annotations

from .config import FULL, NAMES
from .core import Core
from .node import Node


def reclaim_duplicate(core: Core, node: Node) -> int:
    """The host copy of a node that is on the device as well is given up (SGLang #33777, #33862). Returns pages
    freed.

    The pin and the host lock keep the source of a load-back. Auxiliary host copies stay.
    """
    assert core.is_reclaimable(node)
    assert core.settled(node)
    core.stats.mirrors_reclaimed += not core.write_back
    rows = core.rows()
    core.vacate(node, "host", FULL, rows)
    node.duplicate = False
    core.consider(node)
    if core.recorder is not None:
        core.emit("reclaim_duplicate", {"node": node.id}, (node,), rows=rows)
    return core.pages(node)


def evict_host_leaf(core: Core, node: Node) -> int:
    """A leaf that is only on the host is dropped. Returns pages freed."""
    assert core.is_host_leaf(node)
    rows = core.rows()
    for c in core.components:
        core.vacate(node, "host", c, rows)
    parent = node.parent
    assert parent is not None
    core.remove(node)
    core.consider_leaf(parent)
    if core.recorder is not None:
        core.emit("evict_host_leaf", {"node": node.id}, gone=(node.id,), rows=rows)
    return core.pages(node)


def evict_host_aux(core: Core, node: Node, component: int) -> int:
    """An auxiliary host copy is given up.

    A pin is none of its business: pins guard FULL slots (SGLang #36317).
    """
    assert core.host_aux[component].fits(node)
    rows = core.rows()
    core.vacate(node, "host", component, rows)
    core.consider(node)
    if core.recorder is not None:
        core.emit("evict_host_aux", {"node": node.id, "component": NAMES[component]}, (node,), rows=rows)
    return core.need(node, component)


def reclaim(core: Core, pages: int) -> int:
    """Reclaim duplicates until `pages` FULL host pages were freed, or none is left. Returns how many were."""
    freed = 0
    while freed < pages:
        node = core.duplicates.pop()
        if node is None:
            _say_protected(core, "reclaim_duplicate")
            break
        freed += reclaim_duplicate(core, node)
    return freed


def evict_host(core: Core, component: int, pages: int, *, mirrors: bool = True) -> int:
    """Free `pages` host pages of a component. Returns how many were freed.

    FULL under write_back by duplicates first, then leaves. Under write_through a duplicate is what its node lives on
    in when the device needs room: leaves go first, and duplicates only with `mirrors`.
    """
    if component == FULL:
        freed = 0
        while freed < pages and core.write_back and (node := core.duplicates.pop()) is not None:
            freed += reclaim_duplicate(core, node)
        while freed < pages:
            node = core.host_leaves.pop()
            if node is None:
                _say_protected(core, "evict_host_leaf")
                break
            freed += evict_host_leaf(core, node)
        while freed < pages and mirrors and not core.write_back and (node := core.duplicates.pop()) is not None:
            freed += reclaim_duplicate(core, node)
        return freed
    freed = 0
    while freed < pages:
        node = core.host_aux[component].pop()
        if node is None:
            _say_protected(core, "evict_host_aux", component)
            break
        freed += evict_host_aux(core, node, component)
    return freed


def make_host_room(core: Core, component: int, pages: int, *, mirrors: bool = False) -> bool:
    """Make sure that `pages` pages are free, if it can be done.

    Args:
        mirrors: also by duplicates under write_through: not for the sake of another duplicate, which would be no gain.
    """
    if core.starved["host"]:
        core.starved["host"] -= 1
        return False
    pool = core.pools.host[component].slots
    if pages > pool.size:
        return False
    if pool.available < pages:
        evict_host(core, component, pages - pool.available, mirrors=mirrors)
    return pool.available >= pages


def _say_protected(core: Core, action: str, component: int = FULL) -> None:
    """An eviction has come to an end early: the event says which candidate was protected, if one was."""
    if core.recorder is None:
        return
    for node in core.nodes.values():
        args: dict[str, object] = {"node": node.id}
        if action == "reclaim_duplicate":
            protected = node.duplicate and not core.is_reclaimable(node)
        elif action == "evict_host_leaf":
            leaf = node.id != 0 and not node.on_device and not node.children
            protected = leaf and not core.is_host_leaf(node)
        else:
            protected = node.host[component].slots is not None and bool(node.host[component].locks)
            args["component"] = NAMES[component]
        if protected:
            core.refuse(action, args, "locked or pinned")
            return
