"""Room on the device: demote what has a host copy, drop what has none."""

from __future__ import annotations

from ..algebra import below, no, someone
from ..transaction import Transaction
from ..vocabulary import FULL, WRITE_BACK, Component, device, device_lock, host, live, tracked_duplicate, writes
from .common import copying_to_host, drop, held_by_busy, unlocked
from .setting import Inner, Setting, action


@action()
def demote(t: Transaction, p: Setting, node: Inner) -> None:
    """A device leaf gives its device copies up and lives on, on the host. Never before the host copy has arrived
    (SGLang #24585).
    """
    t.expect(device[FULL](node) & host[FULL](node), "FULL is on both tiers")
    t.expect(no(below(node), device[FULL]), "nothing below is on the device")
    t.require(unlocked(device_lock, FULL, node), "no device lock", danger=held_by_busy(device_lock[FULL], node))
    for c in p.components:
        t.require(~copying_to_host(c, node), f"no backup of {c} reads it", danger=someone(writes[c], node))
    for c in p.components:
        t.free(device[c], t.one(node))
    t.set(tracked_duplicate, t.one(node), False)


@action()
def delete_leaf(t: Transaction, p: Setting, node: Inner) -> None:
    """A leaf that was never backed up is dropped."""
    t.expect(~host[FULL](node), "FULL is not on the host")
    t.expect(no(below(node), live), "it is a leaf")
    drop(t, p, t.one(node))


@action(policies=(WRITE_BACK,))
def drop_subtree(t: Transaction, p: Setting, node: Inner) -> None:
    """There is no host room for a device leaf: it goes, and the host-only nodes below it with it (SGLang #27562)."""
    t.expect(device[FULL](node) & ~host[FULL](node), "FULL is on the device only")
    t.expect(no(below(node), device[FULL]), "nothing below is on the device")
    drop(t, p, t.subtree(node))


@action(per_aux=True)
def evict_device_aux(t: Transaction, p: Setting, c: Component, node: Inner) -> None:
    """An auxiliary device copy is given up; FULL stays."""
    t.expect(device[c](node), f"{c} is on the device")
    t.require(unlocked(device_lock, c, node), f"no {c} device lock", danger=held_by_busy(device_lock[c], node))
    t.require(~copying_to_host(c, node), f"no backup of {c} reads it", danger=someone(writes[c], node))
    t.free(device[c], t.one(node))
