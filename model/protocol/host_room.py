"""Room on the host: reclaim duplicates, evict leaves that are only there."""

from __future__ import annotations

from ..algebra import below, no, someone
from ..transaction import Transaction
from ..vocabulary import (
    FULL,
    Component,
    device,
    host,
    host_lock,
    live,
    load_back_pending,
    reads,
    tracked_duplicate,
)
from .common import forget, host_slots_needed, unlocked
from .setting import Inner, Setting, action


@action()
def reclaim_duplicate(t: Transaction, p: Setting, node: Inner) -> None:
    """The host copy of a node that is on the device as well is given up (SGLang #33777, #33862).

    Under write_back the pin keeps a load-back's source. Under write_through it is no duplicate while it is read, and
    backed-up nodes keep their backed-up parents.
    """
    t.expect(tracked_duplicate(node), "the node is tracked as a duplicate")
    t.expect(device[FULL](node) & host[FULL](node), "FULL is on both tiers")
    if p.write_back:
        t.require(~someone(load_back_pending, node), "not pinned", danger=someone(reads[FULL], node))
    else:
        t.expect(no(below(node), host[FULL]), "nothing below is on the host")
    t.require(unlocked(host_lock, FULL, node), "no full host lock", danger=host_slots_needed(FULL, node))
    t.free(host[FULL], t.one(node))
    t.set(tracked_duplicate, t.one(node), False)


@action()
def evict_host_leaf(t: Transaction, p: Setting, node: Inner) -> None:
    """A leaf that is only on the host is dropped."""
    t.expect(~device[FULL](node), "FULL is not on the device")
    t.expect(no(below(node), live), "it is a leaf")
    for c in p.components:
        t.require(unlocked(host_lock, c, node), f"no {c} host lock", danger=host_slots_needed(c, node))
    forget(t, p, t.one(node))


@action(per_aux=True)
def evict_host_aux(t: Transaction, p: Setting, c: Component, node: Inner) -> None:
    """An auxiliary host copy is given up. A pin is none of its business: pins guard FULL slots (SGLang #36317)."""
    t.expect(host[c](node), f"{c} is on the host")
    t.require(unlocked(host_lock, c, node), f"no {c} host lock", danger=host_slots_needed(c, node))
    t.free(host[c], t.one(node))
