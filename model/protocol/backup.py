"""Device to host: a D2H copy is published when it starts and settles when it is acknowledged."""

from __future__ import annotations

from ..algebra import above, ancestor, below, every, some, someone
from ..transaction import Transaction
from ..vocabulary import (
    FULL,
    Component,
    backup,
    busy,
    device,
    device_arrived,
    device_lock,
    host,
    host_lock,
    reads,
    write_through_pending,
    writes,
)
from .common import refresh_duplicates, unlock_all
from .setting import Holder, Idle, Inner, Setting, action


@action()
def begin_backup(t: Transaction, p: Setting, node: Inner, top: Inner, holder: Idle) -> None:
    """A D2H copy starts. The host copies are published now and settle at the ack.

    Under write_back its destination is host-locked (SGLang #28468). Under write_through its source is device-
    locked and marked, and a backed-up node has a backed-up parent (SGLang #31902).
    """
    t.expect(ancestor(top, node), "top is on the path")
    copied = t.segment(node, top)
    t.expect(copied.all(lambda m: device[FULL](m) & ~host[FULL](m)), "FULL is on the device only")
    if not p.write_back:
        t.expect(every(above(top), host[FULL]), "the parent is backed up")
    t.require(
        copied.all(device_arrived[FULL]),
        "the bytes to copy have arrived",
        danger=copied.any(lambda m: someone(reads[FULL], m)),
    )
    t.read(device[FULL], copied)
    t.publish(host[FULL], copied)
    t.grant(writes[FULL], copied, holder)
    if p.write_back:
        t.grant(host_lock[FULL], copied, holder)
    else:
        t.grant(device_lock[FULL], t.path(node), holder)
        t.grant(write_through_pending, copied, holder)
    t.begin(backup, holder)


@action(per_aux=True)
def backup_aux(t: Transaction, p: Setting, c: Component, node: Inner, holder: Holder) -> None:
    """A D2H copy of SWA or MAMBA starts: with a FULL backup of the same holder, or on its own."""
    joins = backup(holder) if p.write_back else backup(holder) & device_lock[FULL](node, holder)
    t.expect(~busy(holder) | joins, "the holder is idle, or a backup of this path")
    t.expect(device[c](node) & ~host[c](node), f"{c} is on the device only")
    t.require(device_arrived[c](node), "the bytes to copy have arrived", danger=someone(reads[c], node))
    copied = t.one(node)
    t.read(device[c], copied)
    t.publish(host[c], copied)
    t.grant(writes[c], copied, holder)
    t.grant(host_lock[c], copied, holder)
    if not p.write_back:
        t.grant(device_lock[FULL], t.path(node), holder)
        t.grant(device_lock[c], copied, holder)
    t.begin(backup, holder)


@action()
def ack_backup(t: Transaction, p: Setting, holder: Holder) -> None:
    """The D2H is complete, on every node that what it copied has been split into since (SGLang #16946, #27072)."""
    t.expect(backup(holder), "the holder is a backup in flight")
    written = {c: t.held_by(writes[c], holder) for c in p.components}
    for c in p.components:
        t.arrive(host[c], written[c])
        t.give_back(writes[c], holder)
    t.give_back(write_through_pending, holder)
    unlock_all(t, p, holder)
    refresh_duplicates(t, written[FULL])
    t.end(backup, holder)


@action()
def fail_backup(t: Transaction, p: Setting, holder: Holder) -> None:
    """The D2H failed: what it wrote is not a copy. Under write_through it waits until nothing relies on it as a
    parent.
    """
    t.expect(backup(holder), "the holder is a backup in flight")
    written = {c: t.held_by(writes[c], holder) for c in p.components}
    if not p.write_back:
        relies = written[FULL].none(lambda m: some(below(m), lambda k: host[FULL](k) & ~writes[FULL](k, holder)))
        t.expect(relies, "nothing below is backed up")
    for c in p.components:
        t.give_back(writes[c], holder)
    t.give_back(write_through_pending, holder)
    unlock_all(t, p, holder)
    for c in p.components:
        t.free(host[c], written[c])
    t.end(backup, holder)
