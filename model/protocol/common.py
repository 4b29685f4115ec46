"""What several actions say: settled duplicates, locks by receipt, copies in flight, leaving the tree."""

from __future__ import annotations

from ..algebra import ROOT, Formula, Relation, Var, same, some_holder, someone
from ..transaction import Nodes, Transaction
from ..vocabulary import (
    FULL,
    MAMBA,
    SWA,
    Component,
    PerComponent,
    busy,
    device,
    device_arrived,
    device_lock,
    held,
    host,
    host_arrived,
    host_lock,
    load_back_pending,
    loading,
    prefetch,
    reads,
    storage_reads,
    stored,
    tracked_duplicate,
    write_through_pending,
    writes,
)
from .setting import Setting


def settled(node: Var) -> Formula:
    """FULL is on both tiers, its bytes too, and no transfer has anything left to do with it."""
    return (
        device_arrived[FULL](node)
        & host_arrived[FULL](node)
        & ~held(node, write_through_pending, load_back_pending, reads[FULL])
        & ~same(node, ROOT)
    )


def refresh_duplicates(t: Transaction, nodes: Nodes) -> None:
    """Track the settled ones of these nodes in full_host_duplicates, untrack the others."""
    now, no_more = nodes.where(settled), nodes.where(lambda m: ~settled(m))
    t.set(tracked_duplicate, now, True)
    t.set(tracked_duplicate, no_more, False)


def lock_device(t: Transaction, p: Setting, node: Var, boundary: Var, holder: Var) -> None:
    """One holder's device locks: FULL up to the root, SWA up to the top of the window, MAMBA on the node; where
    resident.
    """
    t.grant(device_lock[FULL], t.path(node).where(device[FULL]), holder)
    if SWA in p.components:
        t.grant(device_lock[SWA], t.segment(node, boundary).where(device[SWA]), holder)
    if MAMBA in p.components:
        t.grant(device_lock[MAMBA], t.one(node).where(device[MAMBA]), holder)


def unlock_all(t: Transaction, p: Setting, holder: Var, *locks: PerComponent) -> None:
    """Give back every lock of the holder, by its receipt."""
    for lock in locks or (device_lock, host_lock):
        for c in p.components:
            t.give_back(lock[c], holder)


def copying_to_host(component: Component, node: Var) -> Formula:
    """A host copy is there whose bytes are not: its backup still reads the device slots."""
    return host[component](node) & ~host_arrived[component](node)


def unlocked(lock: PerComponent, component: Component, node: Var) -> Formula:
    """No holder at all has the lock."""
    return ~someone(lock[component], node)


def held_by_busy(lock: Relation, node: Var) -> Formula:
    """A holder that is still at work has the lock: what a refusal for the lock's sake must find."""
    return some_holder(lambda x: lock(node, x) & busy(x))


def host_slots_needed(component: Component, node: Var) -> Formula:
    """Somebody copies from or to these host slots, is about to, or will hang its pages below this copy."""
    users = [reads[component], writes[component], *([storage_reads] if component == FULL else [])]
    return held(node, *users) | some_holder(lambda x: host_lock[component](node, x) & (loading(x) | prefetch(x)))


def forget(t: Transaction, p: Setting, nodes: Nodes) -> None:
    """Free all that these nodes own and take them out of the tree."""
    for c in p.components:
        t.free(device[c], nodes)
        t.free(host[c], nodes)
    t.set(tracked_duplicate, nodes, False)
    t.set(stored, nodes, False)
    t.prune(nodes)


def drop(t: Transaction, p: Setting, nodes: Nodes) -> None:
    """Nodes leave the tree unless somebody is using any copy of them."""
    t.require(
        nodes.all(lambda m: unlocked(device_lock, FULL, m)),
        "no device lock",
        danger=nodes.any(lambda m: held_by_busy(device_lock[FULL], m)),
    )
    for c in p.components:
        t.require(
            nodes.all(lambda m: unlocked(host_lock, c, m)),
            f"no {c} host lock",
            danger=nodes.any(lambda m: host_slots_needed(c, m)),
        )
    forget(t, p, nodes)
