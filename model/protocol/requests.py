"""Requests: what they insert, lock, read and give back, and the split that any match may cause."""

from __future__ import annotations

from ..algebra import above, ancestor, every, someone
from ..transaction import Transaction
from ..vocabulary import (
    FULL,
    SWA,
    Component,
    device,
    device_arrived,
    device_lock,
    host,
    host_arrived,
    host_lock,
    load_back_pending,
    of_its_namespace,
    reads,
    request,
    same_namespace,
    storage_reads,
    stored,
    tracked_duplicate,
    write_through_pending,
    writes,
)
from .common import lock_device, refresh_duplicates, unlock_all
from .setting import Fresh, Holder, Idle, Inner, Live, Setting, action


@action()
def insert_leaf(t: Transaction, p: Setting, parent: Live, leaf: Fresh) -> None:
    """Tokens that a request has computed become a new leaf."""
    t.expect(device[FULL](parent), "the parent is on the device")
    t.expect(same_namespace(parent, leaf), "the parent is of its namespace")
    t.grow(leaf, parent)
    t.fill(device[FULL], t.one(leaf))


@action()
def unevict(t: Transaction, p: Setting, node: Inner) -> None:
    """A request recomputed tokens of a host-only node: its slots become the node's device copy."""
    t.expect(~device[FULL](node), "the node is not on the device")
    t.expect(every(above(node), device[FULL]), "its parent is on the device")
    t.fill(device[FULL], t.one(node))
    refresh_duplicates(t, t.one(node))


@action(per_aux=True)
def attach_aux(t: Transaction, p: Setting, c: Component, node: Inner) -> None:
    """A request recomputed an auxiliary copy that the node had lost; FULL stays as it is (SGLang #29352)."""
    t.expect(device[FULL](node), "FULL is on the device")
    t.expect(~device[c](node), f"{c} is not on the device")
    t.fill(device[c], t.one(node))


@action()
def split(t: Transaction, p: Setting, node: Inner, prefix: Fresh) -> None:
    """A match ends inside a node: a new node takes its upper part, with all locks, pins, marks and copies in
    flight on it.

    The state of MAMBA belongs to the node's end and stays. Lost on a split, these were SGLang #16946, #27072,
    #38480, #38835.
    """
    t.expect(same_namespace(node, prefix), "both are of one namespace")
    t.cut(node, prefix)
    for c in (FULL, SWA):
        if c in p.components:
            for family in (device, device_arrived, host, host_arrived, device_lock, host_lock, reads, writes):
                t.inherit(family[c], node, prefix)
    for relation in (load_back_pending, write_through_pending, storage_reads, tracked_duplicate, stored):
        t.inherit(relation, node, prefix)


@action()
def lock(t: Transaction, p: Setting, node: Live, boundary: Live, holder: Idle) -> None:
    """A request locks what it is going to read, in its own namespace: the path, its window, its state."""
    t.expect(of_its_namespace(node, holder), "the node is of the request's namespace")
    t.expect(ancestor(boundary, node), "the window ends on the path")
    t.expect(device[FULL](node), "the node is on the device")
    lock_device(t, p, node, boundary, holder)
    t.begin(request, holder)


@action()
def forward(t: Transaction, p: Setting, node: Live, holder: Holder) -> None:
    """A request reads the locked path: not before its bytes have arrived (SGLang #22811, #29819)."""
    t.expect(request(holder) & device_lock[FULL](node, holder), "the request holds the path")
    for c in p.components:
        locked = t.path(node) if c == FULL else t.held_by(device_lock[c], holder)
        t.require(
            locked.all(device_arrived[c]),
            f"the {c} bytes have arrived",
            danger=locked.any(lambda m: someone(reads[c], m)),
        )
        t.read(device[c], locked)


@action()
def release_window(t: Transaction, p: Setting, node: Live, holder: Holder) -> None:
    """A request has moved on: it gives back its SWA locks above the new top of its window (SGLang #36350)."""
    t.expect(request(holder), "the holder is a request")
    if SWA in p.components:
        t.revoke(device_lock[SWA], t.above(node).where(lambda m: device_lock[SWA](m, holder)), holder)


@action()
def unlock(t: Transaction, p: Setting, holder: Holder) -> None:
    """A request ends or is aborted: it gives back what its receipt says, whatever the tree looks like now (SGLang
    #24972).
    """
    t.expect(request(holder), "the holder is a request")
    unlock_all(t, p, holder, device_lock)
    t.end(request, holder)
