"""Making room on the device: whom to take, and what becomes of him under each policy."""

from __future__ import annotations

from .backup import backup
from .config import FULL, NAMES
from .core import Core
from .device_room import delete_leaf, demote, drop_subtree, evict_device_aux
from .errors import OutOfHostMemory
from .node import Node, Operation
from .settle import wait_for
from .transfers.base import Direction


def evict(core: Core, component: int, pages: int) -> int:
    """Free `pages` device pages of a component, or as many as can be. Returns how many were freed."""
    freed = _evict_full(core, pages) if component == FULL else _evict_aux(core, component, pages)
    if freed < pages:
        _say_protected(core, component)
    return freed


def make_device_room(core: Core, component: int, pages: int) -> bool:
    """Make sure that `pages` pages are free, if it can be done."""
    if core.starved["device"]:
        core.starved["device"] -= 1
        return False
    pool = core.pools.device[component].slots
    if pages > pool.size:
        return False
    if pool.available < pages:
        evict(core, component, pages - pool.available)
    return pool.available >= pages


def _evict_full(core: Core, pages: int) -> int:
    freed = 0
    passed_over: dict[int, Node] = {}
    while freed < pages:
        waiting: list[tuple[Node, Operation]] = []
        promised, idle = 0, True
        while freed + promised < pages and (node := core.device_leaves.pop()) is not None:
            if node.id in passed_over:
                continue
            idle = False
            before = len(waiting)
            if gone := _give_up(core, node, waiting):
                freed += gone
            elif len(waiting) > before:
                promised += core.pages(node)
            else:
                passed_over[node.id] = node
        for node, receipt in waiting:
            if not receipt.over and not receipt.doomed:
                wait_for(core, receipt)
            gone = demote(core, node) if _is_live(core, node) else 0
            freed += gone
            if not gone:
                passed_over[node.id] = node
        if idle and not _wait_for(core, "backup"):
            break
    for node in passed_over.values():
        if _is_live(core, node):
            core.consider(node)
    return freed


def _is_live(core: Core, node: Node) -> bool:
    return core.nodes.get(node.id) is node


def _give_up(core: Core, node: Node, waiting: list[tuple[Node, Operation]]) -> int:
    """Free one device leaf now, or start what has to come first. Returns pages freed."""
    if node.host[FULL].slots is not None:
        if gone := demote(core, node):
            return gone
        for seat in node.host:
            if seat.pending is not None:
                waiting.append((node, seat.pending))
                break
        return 0
    if core.write_back:
        try:
            waiting.append((node, backup(core, node)))
            return 0
        except OutOfHostMemory:
            if _wait_for(core, "storage_backup"):
                return _give_up(core, node, waiting)
            return drop_subtree(core, node) if node.children else delete_leaf(core, node)
    return delete_leaf(core, node)


def _evict_aux(core: Core, component: int, pages: int) -> int:
    """Free auxiliary copies; write_back backs them up first if there is host room (SGLang #29204)."""
    freed = 0
    passed_over: dict[int, Node] = {}
    while freed < pages:
        node = core.device_aux[component].pop()
        if node is None:
            if _wait_for(core, "backup"):
                continue
            break
        if node.id in passed_over:
            continue
        if core.write_back and _may_save_aux(node, component) and not _save_aux(core, node):
            passed_over[node.id] = node
        else:
            freed += evict_device_aux(core, node, component)
    for node in passed_over.values():
        if _is_live(core, node):
            core.consider(node)
    return freed


def _may_save_aux(node: Node, component: int) -> bool:
    """A host copy would be of use: FULL has one."""
    seat = node.host[FULL]
    return seat.slots is not None and seat.pending is None and node.host[component].slots is None


def _save_aux(core: Core, node: Node) -> bool:
    """Back up what is missing of a node on the host. False if the copy failed; no room is no failure."""
    try:
        receipt = backup(core, node)
    except OutOfHostMemory:
        return True
    wait_for(core, receipt)
    return all(seat.pending is None for seat in node.host) and any(
        node.host[c].slots is not None for c in core.auxiliary
    )


def _wait_for(core: Core, direction: Direction) -> bool:
    """Nobody can be evicted, but a copy under way may hold somebody: wait for the oldest. False if there is none."""
    if not core.in_flight[direction]:
        return False
    wait_for(core, core.in_flight[direction][0])
    return True


def _say_protected(core: Core, component: int) -> None:
    """An eviction has come to an end early: the event says which candidate was protected, if one was."""
    if core.recorder is None:
        return
    for node in core.nodes.values():
        if node.id == 0 or not node.on_device:
            continue
        if component != FULL:
            if node.device[component].slots is not None and node.device[component].locks:
                args = {"node": node.id, "component": NAMES[component]}
                core.refuse("evict_device_aux", args, "locked")
                return
        elif node.lock_ref and not node.device_children:
            action = "demote" if node.on_host else "drop_subtree" if node.children else "delete_leaf"
            if action != "drop_subtree" or core.write_back:
                core.refuse(action, {"node": node.id}, "locked")
                return
