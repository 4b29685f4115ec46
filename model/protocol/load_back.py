"""Host to device: lock, make room, commit, acknowledge; and every way in which that can end early.

Pins (`load_back_pending`) exist under write_back alone, on the FULL sources of a load-back alone, from commit
to ack (SGLang #34519, #36317).
"""

from __future__ import annotations

from ..algebra import Relation, Var, ancestor, any_of, below, every, path, some, someone
from ..transaction import Transaction
from ..vocabulary import (
    FULL,
    MAMBA,
    SWA,
    anchor,
    device,
    device_lock,
    host,
    host_lock,
    load_back,
    load_back_pending,
    loading,
    of_its_namespace,
    reads,
    tracked_duplicate,
)
from .common import copying_to_host, lock_device, refresh_duplicates, unlock_all
from .setting import Holder, Idle, Inner, Live, Setting, action


@action()
def begin_load_back(t: Transaction, p: Setting, node: Inner, boundary: Live, holder: Idle) -> None:
    """A request wants what is on the host. Whatever it is going to use is locked before room is made for it
    (SGLang #27444, #27631).
    """
    t.expect(of_its_namespace(node, holder), "the node is of the request's namespace")
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

    FULL comes from the whole path; SWA and MAMBA from what the holder has host-locked. Under write_back the
    FULL sources are pinned, since they are duplicates from now on; two anchors never need the same FULL source,
    so the assertion cannot fire.
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

    Under write_through nothing was pinned; a node prefetched from storage becomes a duplicate here for the
    first time.
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
