"""The ownership protocol of a tiered KV cache: who may free, move or overwrite a slot, and when.

One function is one atomic transition. Read it from top to bottom: what the caller owes (`expect`), what is refused and which
danger a refusal avoids (`require`), what changes. `t` is a `Transaction`; `p` holds the static choices, the write policy and the
components. Every slot is released through `t.free`, which promises that nobody is using it.

Holders are operations, not counters: a holder *is* the receipt for what it took. Pins (`load_back_pending`) exist under
write_back alone, on the FULL sources of a load-back alone, from commit to ack (SGLang #34519, #36317).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from .algebra import (
    ROOT,
    Formula,
    Relation,
    Var,
    above,
    ancestor,
    any_of,
    below,
    every,
    no,
    path,
    same,
    some,
    some_holder,
    someone,
)
from .transaction import Nodes, Transaction
from .vocabulary import (
    FULL,
    MAMBA,
    SWA,
    WRITE_BACK,
    WRITE_THROUGH,
    Component,
    PerComponent,
    Policy,
    anchor,
    aux,
    backup,
    busy,
    device,
    device_arrived,
    device_lock,
    filling,
    held,
    host,
    host_arrived,
    host_lock,
    live,
    load_back,
    load_back_pending,
    loading,
    prefetch,
    reads,
    request,
    reserved,
    storage_reads,
    stored,
    storing,
    tracked_duplicate,
    write_through_pending,
    writes,
)

Live = Annotated[Var, "live"]
Inner = Annotated[Var, "inner"]
Fresh = Annotated[Var, "fresh"]
Idle = Annotated[Var, "idle"]
Holder = Annotated[Var, "any"]


@dataclass(frozen=True, slots=True)
class Setting:
    """The static choices of one instance of the protocol."""

    policy: Policy
    components: tuple[Component, ...]

    @property
    def write_back(self) -> bool:
        """Host copies are made when the device needs room, not as soon as there is something to copy."""
        return self.policy == WRITE_BACK

    @property
    def aux(self) -> tuple[Component, ...]:
        """SWA and MAMBA, as far as they exist here."""
        return aux(self.components)


Text = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Entry:
    """An action's text and where it applies."""

    text: Text
    policies: tuple[Policy, ...]
    per_aux: bool


TEXT: dict[str, Entry] = {}
"""Every action by name, in the order of this file."""


def action(*, policies: tuple[Policy, ...] = (WRITE_BACK, WRITE_THROUGH), per_aux: bool = False) -> Callable[[Text], Text]:
    """Register an action; `per_aux` makes one of it for each of SWA and MAMBA."""

    def register(text: Text) -> Text:
        TEXT[text.__name__] = Entry(text, policies, per_aux)
        return text

    return register


# What several actions say ----------------------------------------------------------------------------------------------
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
    """One holder's device locks: FULL up to the root, SWA up to the top of the window, MAMBA on the node; where resident."""
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


# Requests --------------------------------------------------------------------------------------------------------------
@action()
def insert_leaf(t: Transaction, p: Setting, parent: Live, leaf: Fresh) -> None:
    """Tokens that a request has computed become a new leaf."""
    t.expect(device[FULL](parent), "the parent is on the device")
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
    """A match ends inside a node: a new node takes its upper part, with all locks, pins, marks and copies in flight on it.

    The state of MAMBA belongs to the node's end and stays. Lost on a split, these were SGLang #16946, #27072, #38480, #38835.
    """
    t.cut(node, prefix)
    for c in (FULL, SWA):
        if c in p.components:
            for family in (device, device_arrived, host, host_arrived, device_lock, host_lock, reads, writes):
                t.inherit(family[c], node, prefix)
    for relation in (load_back_pending, write_through_pending, storage_reads, tracked_duplicate, stored):
        t.inherit(relation, node, prefix)


@action()
def lock(t: Transaction, p: Setting, node: Live, boundary: Live, holder: Idle) -> None:
    """A request locks what it is going to read: the path, its window, its state."""
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
    """A request ends or is aborted: it gives back what its receipt says, whatever the tree looks like now (SGLang #24972)."""
    t.expect(request(holder), "the holder is a request")
    unlock_all(t, p, holder, device_lock)
    t.end(request, holder)


# Device to host --------------------------------------------------------------------------------------------------------
@action()
def begin_backup(t: Transaction, p: Setting, node: Inner, top: Inner, holder: Idle) -> None:
    """A D2H copy starts. The host copies are published now and settle at the ack.

    Under write_back its destination is host-locked (SGLang #28468). Under write_through its source is device-locked and marked, and
    a backed-up node has a backed-up parent (SGLang #31902).
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
    t.expect(~busy(holder) | backup(holder), "the holder is idle or this backup")
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
    """The D2H failed: what it wrote is not a copy. Under write_through it waits until nothing relies on it as a parent."""
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


# Room on the device ----------------------------------------------------------------------------------------------------
@action()
def demote(t: Transaction, p: Setting, node: Inner) -> None:
    """A device leaf gives its device copies up and lives on on the host. Never before the host copy has arrived (SGLang #24585)."""
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


@action(per_aux=True)
def evict_device_aux(t: Transaction, p: Setting, c: Component, node: Inner) -> None:
    """An auxiliary device copy is given up; FULL stays."""
    t.expect(device[c](node), f"{c} is on the device")
    t.require(unlocked(device_lock, c, node), f"no {c} device lock", danger=held_by_busy(device_lock[c], node))
    t.require(~copying_to_host(c, node), f"no backup of {c} reads it", danger=someone(writes[c], node))
    t.free(device[c], t.one(node))


# Host to device --------------------------------------------------------------------------------------------------------
@action()
def begin_load_back(t: Transaction, p: Setting, node: Inner, boundary: Live, holder: Idle) -> None:
    """A request wants what is on the host. Whatever it is going to use is locked before room is made for it (SGLang #27444, #27631)."""
    t.expect(ancestor(boundary, node), "the window ends on the path")
    t.grant(host_lock[FULL], t.one(node).where(lambda m: ~device[FULL](m)), holder)
    if SWA in p.components:
        t.grant(host_lock[SWA], t.segment(node, boundary).where(lambda m: host[SWA](m) & ~device[SWA](m)), holder)
    if MAMBA in p.components:
        t.grant(host_lock[MAMBA], t.one(node).where(lambda m: host[MAMBA](m) & ~device[MAMBA](m)), holder)
    lock_device(t, p, node, boundary, holder)
    t.grant(anchor, t.one(node), holder)
    t.begin(loading, holder)


@action()
def commit_load_back(t: Transaction, p: Setting, node: Inner, holder: Holder) -> None:
    """Room is there: the H2D copies start and their destinations are published.

    FULL comes from the whole path; SWA and MAMBA from what the holder has host-locked. Under write_back the FULL sources are pinned, since
    they are duplicates from now on; two anchors never need the same FULL source, so the assertion cannot fire.
    """
    t.expect(loading(holder) & anchor(node, holder), "the load-back was begun here")
    sources = {c: t.held_by(host_lock[c], holder).where(lambda m: ~device[c](m)) for c in p.aux}
    sources[FULL] = t.path(node).where(lambda m: ~device[FULL](m))
    t.expect(any_of(*(sources[c].any() for c in p.components)), "something is to be loaded")
    if p.write_back:
        t.assert_never(
            sources[FULL].any(lambda m: someone(load_back_pending, m, except_for=holder)),
            "no FULL source is pinned by another anchor",
        )
        t.grant(load_back_pending, sources[FULL], holder)
    for c in p.components:
        t.read(host[c], sources[c])
        t.publish(device[c], sources[c])
        t.grant(reads[c], sources[c], holder)
        t.grant(device_lock[c], t.path(node) if c == FULL else sources[c], holder)
        t.revoke(host_lock[c], t.held_by(host_lock[c], holder).where(lambda m: ~reads[c](m, holder)), holder)
    t.end(loading, holder)
    t.begin(load_back, holder)


@action()
def ack_load_back(t: Transaction, p: Setting, node: Inner, holder: Holder) -> None:
    """The H2D is complete: its pins on the anchor's path go, and what has become a duplicate is tracked.

    Under write_through nothing was pinned; a node prefetched from storage becomes a duplicate here for the first time.
    """
    t.expect(load_back(holder) & anchor(node, holder), "the load-back was begun here")
    for c in p.components:
        t.arrive(device[c], t.held_by(reads[c], holder))
        t.give_back(reads[c], holder)
    refreshed = t.path(node)
    if p.write_back:
        refreshed = refreshed.where(lambda m: load_back_pending(m, holder))
        t.revoke(load_back_pending, refreshed, holder)
    finish_load_back(t, p, holder, load_back)
    refresh_duplicates(t, refreshed)


@action()
def fail_load_back(t: Transaction, p: Setting, node: Inner, holder: Holder) -> None:
    """The H2D failed: the device slots hold nothing. It waits until nobody else relies on them (SGLang #38352)."""
    t.expect(load_back(holder) & anchor(node, holder), "the load-back was begun here")
    filled = {c: t.held_by(reads[c], holder) for c in p.components}
    t.expect(
        filled[FULL].none(lambda m: some(below(m), lambda k: device[FULL](k) & ~reads[FULL](k, holder))),
        "nothing else below is on the device",
    )
    for c in p.components:
        t.expect(filled[c].none(lambda m: someone(device_lock[c], m, except_for=holder)), f"nobody else has locked {c}")
    for c in p.aux:
        t.expect(filled[FULL].none(lambda m: copying_to_host(c, m)), f"no backup reads {c} there")
    for c in p.components:
        t.give_back(reads[c], holder)
    t.give_back(load_back_pending, holder)
    finish_load_back(t, p, holder, load_back)
    for c in p.aux:
        t.free(device[c], filled[c])
    for c in p.components:
        t.free(device[c], filled[FULL])
    t.set(tracked_duplicate, filled[FULL], False)


@action()
def refuse_load_back(t: Transaction, p: Setting, node: Inner, holder: Holder) -> None:
    """There is nothing to load: the only excuse for answering a load-back with nothing (SGLang #35931)."""
    t.expect(loading(holder) & anchor(node, holder), "the load-back was begun here")
    t.require_reason(every(path(node), device[FULL]), "FULL is on the device")
    for c in p.aux:
        wanted = t.held_by(host_lock[c], holder)
        t.require_reason(wanted.all(device[c]), f"all wanted {c} is on the device")
    finish_load_back(t, p, holder, loading)


@action()
def abort_load_back(t: Transaction, p: Setting, holder: Holder) -> None:
    """There is no room, or the request was aborted: all locks go back."""
    t.expect(loading(holder), "the load-back was begun")
    finish_load_back(t, p, holder, loading)


def finish_load_back(t: Transaction, p: Setting, holder: Var, phase: Relation) -> None:
    """However a load-back ends, its locks go back by receipt."""
    unlock_all(t, p, holder)
    t.give_back(anchor, holder)
    t.end(phase, holder)


# Room on the host ------------------------------------------------------------------------------------------------------
@action(policies=(WRITE_BACK,))
def reclaim_duplicate(t: Transaction, p: Setting, node: Inner) -> None:
    """The host copy of a node that is on the device as well is given up (SGLang #33777). The pin keeps a load-back's source."""
    t.expect(tracked_duplicate(node), "the node is tracked as a duplicate")
    t.expect(device[FULL](node) & host[FULL](node), "FULL is on both tiers")
    t.require(~someone(load_back_pending, node), "not pinned", danger=someone(reads[FULL], node))
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


# Storage ---------------------------------------------------------------------------------------------------------------
@action()
def begin_prefetch(t: Transaction, p: Setting, node: Live, holder: Idle) -> None:
    """A storage read starts into host slots that the prefetch reserves; its anchor must stay until it ends."""
    t.expect(host_arrived[FULL](node), "the anchor's host copy has arrived")
    t.grant(host_lock[FULL], t.one(node), holder)
    t.grant(anchor, t.one(node), holder)
    t.begin(reserved, holder)
    t.begin(filling, holder)
    t.begin(prefetch, holder)


@action()
def complete_prefetch(t: Transaction, p: Setting, holder: Holder) -> None:
    """The storage read has ended: with all pages, some, or none."""
    t.expect(prefetch(holder) & filling(holder), "the storage read is under way")
    t.end(filling, holder)


@action()
def insert_host(t: Transaction, p: Setting, parent: Live, leaf: Fresh, holder: Holder) -> None:
    """Pages that were read become a host-only leaf. Under write_through only below a backed-up parent (SGLang #31902)."""
    pages_are_there(t, holder)
    if not p.write_back:
        t.expect(host[FULL](parent), "the parent is backed up")
    t.grow(leaf, parent)
    t.fill(host[FULL], t.one(leaf))


@action(per_aux=True)
def attach_host_aux(t: Transaction, p: Setting, c: Component, node: Inner, holder: Holder) -> None:
    """An auxiliary copy that was read is given to a node."""
    pages_are_there(t, holder)
    t.expect(~host[c](node), f"{c} is not on the host")
    t.fill(host[c], t.one(node))


def pages_are_there(t: Transaction, holder: Var) -> None:
    """What a prefetch hands to the tree has been read completely."""
    t.expect(prefetch(holder), "the holder is a prefetch")
    t.require(~filling(holder), "the storage read has ended", danger=filling(holder))
    t.promise(~filling(holder), "pages enter the tree only when their bytes are there", "bytes are there")


@action()
def end_prefetch(t: Transaction, p: Setting, holder: Holder) -> None:
    """A prefetch is over or aborted: what is left of its reservation is freed, not while it is being filled (SGLang #31296)."""
    t.expect(prefetch(holder), "the holder is a prefetch")
    t.require(~filling(holder), "the storage read has ended", danger=filling(holder))
    t.promise(~filling(holder), "a reservation is not freed while it is being filled", "unused reservation")
    t.end(reserved, holder)
    unlock_all(t, p, holder, host_lock)
    t.give_back(anchor, holder)
    t.end(prefetch, holder)


@action()
def begin_storage_backup(t: Transaction, p: Setting, node: Inner, holder: Idle) -> None:
    """Storage starts to read a host copy, which is host-locked for as long (SGLang #38480)."""
    t.expect(host[FULL](node), "FULL is on the host")
    t.require(host_arrived[FULL](node), "the bytes to store have arrived", danger=someone(writes[FULL], node))
    t.read(host[FULL], t.one(node))
    t.grant(host_lock[FULL], t.one(node), holder)
    t.grant(storage_reads, t.one(node), holder)
    t.begin(storing, holder)


@action()
def ack_storage_backup(t: Transaction, p: Setting, holder: Holder) -> None:
    """Storage has it: every node that it has been split into since."""
    t.expect(storing(holder), "the holder is a storage backup in flight")
    t.set(stored, t.held_by(storage_reads, holder), True)
    finish_storage_backup(t, p, holder)


@action()
def fail_storage_backup(t: Transaction, p: Setting, holder: Holder) -> None:
    """Storage does not have it, wholly or in part: the node does not count as stored (SGLang #39444)."""
    t.expect(storing(holder), "the holder is a storage backup in flight")
    finish_storage_backup(t, p, holder)


def finish_storage_backup(t: Transaction, p: Setting, holder: Var) -> None:
    """However it ends, the host slots are not read any more."""
    t.give_back(storage_reads, holder)
    unlock_all(t, p, holder, host_lock)
    t.end(storing, holder)


# Everything ------------------------------------------------------------------------------------------------------------
@action()
def reset(t: Transaction, p: Setting) -> None:
    """The cache is emptied; refused while any operation is under way (SGLang #26009)."""
    t.require(~some_holder(busy), "no operation is under way", danger=some_holder(busy))
    forget(t, p, t.everywhere().where(lambda m: ~same(m, ROOT)))
