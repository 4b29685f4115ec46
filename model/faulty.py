"""Actions as they should not be: texts that mutants put in the place of the protocol's own.

Each is the right text with the mistake of a public report; `mutants.py` says which.
"""

from __future__ import annotations

from dataclasses import dataclass

from .algebra import Formula, Var, above, ancestor, any_of, every, someone
from .protocol.common import refresh_duplicates, settled, unlock_all
from .protocol.load_back import finish_load_back
from .protocol.setting import Holder, Idle, Inner, Live, Setting
from .transaction import Nodes, Transaction
from .vocabulary import (
    FULL,
    SWA,
    Component,
    anchor,
    backup,
    device,
    device_arrived,
    device_lock,
    host,
    host_lock,
    load_back,
    load_back_pending,
    loading,
    reads,
    request,
    tracked_duplicate,
    write_through_pending,
    writes,
)


@dataclass(frozen=True, slots=True)
class Commit:
    """Variants of `commit_load_back`.

    Args:
        pins: which sources are pinned, and under which policies; the right one is FULL under write_back.
        assertion: the sources must not be pinned by another anchor, every one of those that are pinned here.
        refuses: a foreign pin on any source is answered with a silent refusal.
        looked_up: auxiliary sources are what the path has on the host now, not what was locked for them.
        arrives: the bytes count as arrived as soon as the copy has started.
        releases: the host locks go back as soon as the copy has started.
    """

    pins: str = "full under write_back"
    assertion: bool = True
    refuses: bool = False
    looked_up: bool = False
    arrives: bool = False
    releases: bool = False

    def __call__(self, t: Transaction, p: Setting, node: Inner, holder: Holder) -> None:
        """Room is there: the H2D copies start and their destinations are published."""
        t.expect(loading(holder) & anchor(node, holder), "the load-back was begun here")
        sources = {c: self._auxiliary(t, c, node, holder) for c in p.aux}
        sources[FULL] = t.path(node).where(lambda m: ~device[FULL](m))
        t.expect(any_of(*(sources[c].any() for c in p.components)), "something is to be loaded")
        if self.refuses:
            t.require(
                ~any_of(*(_pinned(sources[c], holder) for c in p.components)),
                "no source is pinned by another anchor",
                danger=any_of(*(_being_loaded(sources[c], c) for c in p.components)),
            )
        for c in self._pinned_components(p):
            if self.assertion:
                t.assert_never(_pinned(sources[c], holder), f"no {c} source is pinned by another anchor")
            t.grant(load_back_pending, sources[c], holder)
        for c in p.components:
            t.read(host[c], sources[c])
            t.publish(device[c], sources[c])
            if self.arrives:
                t.arrive(device[c], sources[c])
            t.grant(reads[c], sources[c], holder)
            t.grant(device_lock[c], t.path(node) if c == FULL else sources[c], holder)
            if self.releases:
                t.give_back(host_lock[c], holder)
        t.end(loading, holder)
        t.begin(load_back, holder)

    def _auxiliary(self, t: Transaction, c: Component, node: Var, holder: Var) -> Nodes:
        if self.looked_up:
            return t.path(node).where(lambda m: host[c](m) & ~device[c](m) & device_arrived[FULL](m))
        return t.held_by(host_lock[c], holder).where(lambda m: ~device[c](m))

    def _pinned_components(self, p: Setting) -> tuple[Component, ...]:
        if self.pins == "every transfer under every policy":
            return p.components
        if self.pins == "every transfer under write_back" and p.write_back:
            return p.components
        return (FULL,) if p.write_back else ()


def _pinned(sources: Nodes, holder: Var) -> Formula:
    return sources.any(lambda m: someone(load_back_pending, m, except_for=holder))


def _being_loaded(sources: Nodes, c: Component) -> Formula:
    return sources.any(lambda m: someone(reads[c], m))


@dataclass(frozen=True, slots=True)
class Ack:
    """Variants of `ack_load_back`.

    Args:
        clears_all: the walk over the path clears whatever pins it finds, not only its own.
        tracks_all: the whole path is tracked as duplicates without asking whether the last reader is done.
        refreshes_pinned: under every policy only nodes that were pinned are refreshed.
    """

    clears_all: bool = False
    tracks_all: bool = False
    refreshes_pinned: bool = False

    def __call__(self, t: Transaction, p: Setting, node: Inner, holder: Holder) -> None:
        """The H2D is complete."""
        t.expect(load_back(holder) & anchor(node, holder), "the load-back was begun here")
        for c in p.components:
            t.arrive(device[c], t.held_by(reads[c], holder))
            t.give_back(reads[c], holder)
        path = t.path(node)
        pinned = path.where(
            lambda m: someone(load_back_pending, m) if self.clears_all else load_back_pending(m, holder)
        )
        if p.write_back:
            t.revoke(load_back_pending, pinned, holder)
        finish_load_back(t, p, holder, load_back)
        if self.tracks_all:
            t.set(tracked_duplicate, path.where(lambda m: device[FULL](m) & host[FULL](m)), True)
        else:
            refresh_duplicates(t, pinned if p.write_back or self.refreshes_pinned else path)


def backup_by_the_other_policy(t: Transaction, p: Setting, node: Inner, top: Inner, holder: Idle) -> None:
    """`begin_backup`, with the two policies' locks exchanged."""
    t.expect(ancestor(top, node), "top is on the path")
    copied = t.segment(node, top)
    t.expect(copied.all(lambda m: device[FULL](m) & ~host[FULL](m)), "FULL is on the device only")
    if not p.write_back:
        t.expect(every(above(top), host[FULL]), "the parent is backed up")
    t.publish(host[FULL], copied)
    t.grant(writes[FULL], copied, holder)
    if p.write_back:
        t.grant(device_lock[FULL], t.path(node), holder)
        t.grant(write_through_pending, copied, holder)
    else:
        t.grant(host_lock[FULL], copied, holder)
    t.begin(backup, holder)


def backup_that_counts_at_once(t: Transaction, p: Setting, node: Inner, holder: Idle) -> None:
    """`begin_backup`, for which the copy is there as soon as it is under way."""
    t.expect(device[FULL](node) & ~host[FULL](node), "FULL is on the device only")
    t.expect(every(above(node), host[FULL]), "the parent is backed up")
    copied = t.one(node)
    t.fill(host[FULL], copied)
    t.grant(writes[FULL], copied, holder)
    if p.write_back:
        t.grant(host_lock[FULL], copied, holder)
    else:
        t.grant(device_lock[FULL], t.path(node), holder)
        t.grant(write_through_pending, copied, holder)
    t.begin(backup, holder)


def ack_of_one_fragment(t: Transaction, p: Setting, node: Inner, holder: Holder) -> None:
    """`ack_backup`, which knows its node by id and not the fragments it has been split into."""
    t.expect(backup(holder) & writes[FULL](node, holder), "the holder is the node's backup in flight")
    written = t.one(node)
    t.arrive(host[FULL], written)
    t.revoke(writes[FULL], written, holder)
    t.set(tracked_duplicate, written.where(settled), True)
    t.give_back(write_through_pending, holder)
    unlock_all(t, p, holder)
    t.end(backup, holder)


def ack_that_unlocks_the_device(t: Transaction, p: Setting, holder: Holder) -> None:
    """`ack_backup`, which releases device locks whatever the policy."""
    t.expect(backup(holder), "the holder is a backup in flight")
    written = {c: t.held_by(writes[c], holder) for c in p.components}
    t.revoke(device_lock[FULL], written[FULL], holder)
    for c in p.components:
        t.arrive(host[c], written[c])
        t.give_back(writes[c], holder)
    t.give_back(write_through_pending, holder)
    unlock_all(t, p, holder)
    refresh_duplicates(t, written[FULL])
    t.end(backup, holder)


def unlock_what_is_there(t: Transaction, p: Setting, node: Live, holder: Holder) -> None:
    """`unlock`, which releases what the path has now instead of what was taken."""
    t.expect(request(holder) & device_lock[FULL](node, holder), "the request holds the path")
    for c in p.components:
        t.revoke(device_lock[c], t.path(node).where(device[c]), holder)
    t.end(request, holder)


def release_window_that_is_there(t: Transaction, p: Setting, node: Live, holder: Holder) -> None:
    """`release_window`, which releases what lies above now instead of what was taken."""
    t.expect(request(holder) & device_lock[FULL](node, holder), "the request holds the path")
    t.revoke(device_lock[SWA], t.above(node).where(device[SWA]), holder)


def recovery_that_replaces_full(t: Transaction, p: Setting, c: Component, node: Inner) -> None:
    """`attach_aux`, which puts the request's own FULL slots in the place of the node's, too."""
    t.expect(device_arrived[FULL](node), "FULL is on the device")
    t.expect(~device[c](node), f"{c} is not on the device")
    t.free(device[FULL], t.one(node))
    t.fill(device[FULL], t.one(node))
    t.fill(device[c], t.one(node))


def insert_that_replaces(t: Transaction, p: Setting, node: Inner) -> None:
    """`unevict` of any node: what is on the device already is freed for what was just computed."""
    t.expect(every(above(node), device[FULL]), "its parent is on the device")
    t.free(device[FULL], t.one(node))
    t.fill(device[FULL], t.one(node))
    refresh_duplicates(t, t.one(node))


def failed_load_that_stays(t: Transaction, p: Setting, node: Inner, holder: Holder) -> None:
    """`fail_load_back`, after which the pages stay in the tree as if they had been loaded."""
    t.expect(load_back(holder) & anchor(node, holder), "the load-back was begun here")
    for c in p.components:
        t.arrive(device[c], t.held_by(reads[c], holder))
        t.give_back(reads[c], holder)
    t.give_back(load_back_pending, holder)
    finish_load_back(t, p, holder, load_back)
    refresh_duplicates(t, t.path(node))
