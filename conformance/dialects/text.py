"""The actions that SGLang's cores word otherwise, in the language of the protocol text (see `sglang.DIFFERENCES`).

Locks reach up to a node that the target names, since it depends on lengths in tokens: `boundary` is the top of the
window, `locked` that of a device lock and `host_locked` that of a host lock, which differ where tombstones are skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...model.algebra import Var, above, any_of, every, someone
from ...model.protocol import TEXT, Entry, Setting
from ...model.protocol.common import refresh_duplicates, unlock_all
from ...model.protocol.load_back import finish_load_back
from ...model.protocol.setting import Holder, Idle, Inner, Live
from ...model.protocol.storage import pages_are_there
from ...model.transaction import Nodes, Transaction
from ...model.vocabulary import (
    FULL,
    MAMBA,
    SWA,
    WRITE_BACK,
    Component,
    PerComponent,
    anchor,
    backup,
    busy,
    device,
    device_arrived,
    device_lock,
    filling,
    host,
    host_arrived,
    host_lock,
    load_back,
    load_back_pending,
    loading,
    prefetch,
    reads,
    request,
    reserved,
    storage_reads,
    storing,
    tracked_duplicate,
    write_through_pending,
    writes,
)

WINDOW_TOPS = ("boundary", "locked", "host_locked")
"""Parameters that name the top of a window; an event that leaves one out means the one before, or the node itself."""


@dataclass(frozen=True, slots=True)
class Habits:
    """What differs from release to release: see the difference of that name."""

    tombstones: bool = False
    marks_all: bool = False
    refills_full: bool = False
    insert_backs_up: bool = False


REFILL = "refill_host"
"""An action that the protocol text does not have; events call it `attach_host_aux` of FULL."""


def text(habits: Habits) -> dict[str, Entry]:
    """The actions with their words in this dialect."""
    made = {**_requests(habits), **_backups(habits), **_load_backs(habits), **_storage(habits)}
    found = {name: replace(TEXT.get(name, TEXT["lock"]), text=words) for name, words in made.items()}
    if habits.refills_full:
        found[REFILL] = replace(TEXT["insert_host"], text=refill_host)
    if habits.insert_backs_up:

        def lock_backup(t: Transaction, p: Setting, node: Live, locked: Live, holder: Holder) -> None:
            """The backup that an insert has begun takes a request's lock, under write_back as under write_through."""
            t.expect(backup(holder), "the holder is a backup in flight")
            _lock_device(t, p, habits, node, locked, holder)

        found[lock_backup.__name__] = Entry(lock_backup, (WRITE_BACK,), per_aux=False)
    return found


def refill_host(t: Transaction, p: Setting, node: Inner, holder: Holder) -> None:
    """Pages that were read become the host copy of a node that has FULL on the device alone."""
    pages_are_there(t, holder)
    t.expect(device[FULL](node) & ~host[FULL](node), "FULL is on the device only")
    t.fill(host[FULL], t.one(node))
    refresh_duplicates(t, t.one(node))


Texts = dict[str, Callable[..., None]]


def _lock(
    t: Transaction, p: Setting, habits: Habits, lock: PerComponent, copy: PerComponent, node: Var, top: Var, holder: Var
) -> None:
    """The auxiliary part of a lock: the window up to `top`, and the state."""

    def counted(nodes: Nodes, c: Component) -> Nodes:
        return nodes if habits.tombstones else nodes.where(copy[c])

    if SWA in p.components:
        t.grant(lock[SWA], counted(t.segment(node, top), SWA), holder)
    if MAMBA in p.components:
        t.grant(lock[MAMBA], counted(t.one(node), MAMBA), holder)


def _lock_device(t: Transaction, p: Setting, habits: Habits, node: Var, top: Var, holder: Var) -> None:
    whole = t.path(node)
    t.grant(device_lock[FULL], whole if habits.tombstones else whole.where(device[FULL]), holder)
    _lock(t, p, habits, device_lock, device, node, top, holder)


def _lock_host(t: Transaction, p: Setting, habits: Habits, node: Var, top: Var, holder: Var) -> None:
    own = t.one(node)
    t.grant(host_lock[FULL], own if p.write_back else own.where(host[FULL]), holder)
    _lock(t, p, habits, host_lock, host, node, top, holder)


def _requests(habits: Habits) -> Texts:
    def lock(t: Transaction, p: Setting, node: Live, locked: Live, holder: Idle) -> None:
        """A request locks the path, its window and its state."""
        t.expect(device[FULL](node), "the node is on the device")
        _lock_device(t, p, habits, node, locked, holder)
        t.begin(request, holder)

    def forward(t: Transaction, p: Setting, node: Live, holder: Holder) -> None:
        """A request reads the locked path, where something is locked: not before its bytes have arrived."""
        t.expect(request(holder) & device_lock[FULL](node, holder), "the request holds the path")
        for c in p.components:
            held = (t.path(node) if c == FULL else t.held_by(device_lock[c], holder)).where(device[c])
            t.require(
                held.all(device_arrived[c]),
                f"the {c} bytes have arrived",
                danger=held.any(lambda m, c=c: someone(reads[c], m)),  # type: ignore[misc]
            )
            t.read(device[c], held)

    def release_window(t: Transaction, p: Setting, node: Live, holder: Holder) -> None:
        """A request has moved on: it gives back its whole window, and the state with it."""
        t.expect(request(holder), "the holder is a request")
        for c in p.aux:
            t.give_back(device_lock[c], holder)

    def lock_without_state(t: Transaction, p: Setting, node: Live, locked: Live, holder: Idle) -> None:
        """A request that has its own copy of the state leaves the node's to be evicted."""
        t.expect(device[FULL](node), "the node is on the device")
        _lock_device(t, Setting(p.policy, tuple(c for c in p.components if c != MAMBA)), habits, node, locked, holder)
        t.begin(request, holder)

    def pin_full(t: Transaction, p: Setting, node: Live, holder: Idle) -> None:
        """Somebody locks FULL of the path and nothing else, and gives it back like a request."""
        t.expect(device[FULL](node), "the node is on the device")
        t.grant(device_lock[FULL], t.path(node), holder)
        t.begin(request, holder)

    own: Texts = {"lock_without_state": lock_without_state, "pin_full": pin_full}
    return {"lock": lock, "forward": forward, "release_window": release_window, **own}


def _backups(habits: Habits) -> Texts:
    def take(t: Transaction, p: Setting, base: Var, locked: Var, holder: Var) -> None:
        if not p.write_back:
            _lock_device(t, p, habits, base, locked, holder)
        _mark(t, base, holder)
        t.begin(backup, holder)

    def begin_backup(t: Transaction, p: Setting, node: Inner, top: Inner, locked: Live, holder: Idle) -> None:
        """A D2H copy starts: it is marked, and under write_through locked like what a request reads."""
        t.expect(device[FULL](node) & ~host[FULL](node), "FULL is on the device only")
        if not p.write_back:
            t.expect(every(above(node), host[FULL]), "the parent is backed up")
        t.require(device_arrived[FULL](node), "the bytes to copy have arrived", danger=someone(reads[FULL], node))
        copied = t.one(node)
        t.read(device[FULL], copied)
        t.publish(host[FULL], copied)
        t.grant(writes[FULL], copied, holder)
        take(t, p, node, locked, holder)

    def backup_aux(
        t: Transaction, p: Setting, c: Component, node: Inner, base: Inner, locked: Live, holder: Holder
    ) -> None:
        """A D2H copy of SWA or MAMBA starts, of the backup of `base`."""
        t.expect(~busy(holder) | backup(holder), "the holder is idle or this backup")
        t.expect(device[c](node) & ~host[c](node), f"{c} is on the device only")
        t.require(device_arrived[c](node), "the bytes to copy have arrived", danger=someone(reads[c], node))
        copied = t.one(node)
        t.read(device[c], copied)
        t.publish(host[c], copied)
        t.grant(writes[c], copied, holder)
        if habits.marks_all:
            _mark(t, node, holder)
        take(t, p, base, locked, holder)

    def ack_backup(t: Transaction, p: Setting, holder: Holder) -> None:
        """The D2H is complete: every node that was marked is looked at again."""
        t.expect(backup(holder), "the holder is a backup in flight")
        marked = t.held_by(write_through_pending, holder)
        for c in p.components:
            t.arrive(host[c], t.held_by(writes[c], holder))
            t.give_back(writes[c], holder)
        t.give_back(write_through_pending, holder)
        unlock_all(t, p, holder)
        refresh_duplicates(t, marked)
        t.end(backup, holder)

    return {"begin_backup": begin_backup, "backup_aux": backup_aux, "ack_backup": ack_backup}


def _mark(t: Transaction, node: Var, holder: Var) -> None:
    t.grant(write_through_pending, t.one(node), holder)
    t.set(tracked_duplicate, t.one(node), False)


def _load_backs(habits: Habits) -> Texts:
    def begin_load_back(t: Transaction, p: Setting, node: Inner, locked: Live, host_locked: Live, holder: Idle) -> None:
        """A request wants what is on the host: the node, its window and its state are locked on both tiers."""
        _lock_host(t, p, habits, node, host_locked, holder)
        _lock_device(t, p, habits, node, locked, holder)
        t.grant(anchor, t.one(node), holder)
        t.begin(loading, holder)

    def wanted(t: Transaction, p: Setting, node: Var, boundary: Var) -> dict[Component, Nodes]:
        found = {}
        if SWA in p.components:
            found[SWA] = t.segment(node, boundary).where(lambda m: host[SWA](m) & ~device[SWA](m))
        if MAMBA in p.components:
            found[MAMBA] = t.one(node).where(lambda m: host[MAMBA](m) & ~device[MAMBA](m))
        return {FULL: t.path(node).where(lambda m: ~device[FULL](m)), **found}

    def commit_load_back(t: Transaction, p: Setting, node: Inner, boundary: Live, locked: Live, holder: Holder) -> None:
        """The H2D copies start: FULL of the path, SWA of the window, MAMBA of the node. Device locks are taken anew."""
        t.expect(loading(holder) & anchor(node, holder), "the load-back was begun here")
        sources = wanted(t, p, node, boundary)
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
            t.give_back(device_lock[c], holder)
        _lock_device(t, p, habits, node, locked, holder)
        t.end(loading, holder)
        t.begin(load_back, holder)

    def refuse_load_back(t: Transaction, p: Setting, node: Inner, boundary: Live, holder: Holder) -> None:
        """There is nothing to load: the only excuse for answering a load-back with nothing."""
        t.expect(loading(holder) & anchor(node, holder), "the load-back was begun here")
        sources = wanted(t, p, node, boundary)
        t.require_reason(sources[FULL].none(), "FULL is on the device")
        for c in p.aux:
            t.require_reason(sources[c].none(), f"all wanted {c} is on the device")
        finish_load_back(t, p, holder, loading)

    return {
        "begin_load_back": begin_load_back,
        "commit_load_back": commit_load_back,
        "refuse_load_back": refuse_load_back,
    }


def _storage(habits: Habits) -> Texts:
    def begin_prefetch(t: Transaction, p: Setting, node: Live, host_locked: Live, holder: Idle) -> None:
        """A storage read starts into host slots that the prefetch reserves; its anchor must stay until it ends."""
        t.expect(host[FULL](node), "the anchor has a host copy")
        _lock_host(t, p, habits, node, host_locked, holder)
        t.grant(anchor, t.one(node), holder)
        for phase in (reserved, filling, prefetch):
            t.begin(phase, holder)

    def begin_storage_backup(t: Transaction, p: Setting, node: Inner, host_locked: Live, holder: Idle) -> None:
        """Storage starts to read the host copies, which are host-locked for as long."""
        t.expect(host[FULL](node), "FULL is on the host")
        t.require(host_arrived[FULL](node), "the bytes to store have arrived", danger=someone(writes[FULL], node))
        t.read(host[FULL], t.one(node))
        _lock_host(t, p, habits, node, host_locked, holder)
        t.grant(storage_reads, t.one(node), holder)
        t.begin(storing, holder)

    return {"begin_prefetch": begin_prefetch, "begin_storage_backup": begin_storage_backup}
