"""The storage tier: prefetch into reserved host slots, back host copies up."""

from __future__ import annotations

from ..algebra import Var, someone
from ..transaction import Transaction
from ..vocabulary import (
    FULL,
    Component,
    anchor,
    filling,
    host,
    host_arrived,
    host_lock,
    of_its_namespace,
    prefetch,
    reserved,
    same_namespace,
    storage_reads,
    stored,
    storing,
    writes,
)
from .common import unlock_all
from .setting import Fresh, Holder, Idle, Inner, Live, Setting, action


@action()
def begin_prefetch(t: Transaction, p: Setting, node: Live, holder: Idle) -> None:
    """A storage read starts into host slots that the prefetch reserves; its anchor must stay until it ends."""
    t.expect(of_its_namespace(node, holder), "the anchor is of the request's namespace")
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
    """Pages that were read become a host-only leaf. Under write_through only below a backed-up parent (SGLang
    #31902).

    What was read for one namespace is no other's, whatever its tokens (SGLang #26747).
    """
    pages_are_there(t, holder)
    t.expect(of_its_namespace(leaf, holder), "the pages were read for its namespace")
    t.expect(same_namespace(parent, leaf), "the parent is of its namespace")
    if not p.write_back:
        t.expect(host[FULL](parent), "the parent is backed up")
    t.grow(leaf, parent)
    t.fill(host[FULL], t.one(leaf))


@action(per_aux=True)
def attach_host_aux(t: Transaction, p: Setting, c: Component, node: Inner, holder: Holder) -> None:
    """An auxiliary copy that was read is given to a node."""
    pages_are_there(t, holder)
    t.expect(of_its_namespace(node, holder), "the pages were read for its namespace")
    t.expect(~host[c](node), f"{c} is not on the host")
    t.fill(host[c], t.one(node))


def pages_are_there(t: Transaction, holder: Var) -> None:
    """What a prefetch hands to the tree has been read completely."""
    t.expect(prefetch(holder), "the holder is a prefetch")
    t.require(~filling(holder), "the storage read has ended", danger=filling(holder))
    t.promise(~filling(holder), "pages enter the tree only when their bytes are there", "bytes are there")


@action()
def end_prefetch(t: Transaction, p: Setting, holder: Holder) -> None:
    """A prefetch is over or aborted: what is left of its reservation is freed, not while it is being filled
    (SGLang #31296).
    """
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
