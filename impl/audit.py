"""Looks at everything there is and says what is wrong.

For tests and for idle moments: it costs the whole tree.
"""

from __future__ import annotations

from array import array
from collections import Counter

import torch

from .config import FULL, MAMBA, NAMES
from .content import DIGEST, identities, page_bytes
from .core import Core
from .node import Node, Operation, Prefetch
from .pools import Pool
from .slots import Slots
from .tree import walk


def audit(core: Core, *, content: bool = True) -> list[str]:
    """Every finding in words; nothing if all is well.

    Slots have exactly one owner; lock counts equal holders; copies in flight have one; structure; duplicates;
    eviction queues are complete; and, with `content`, arrived copies hold their tokens' bytes on both tiers.
    """
    found = _structure(core) + _owners(core) + _locks(core) + _flights(core) + _queues(core)
    if content and core.config.content:
        found += _bytes(core)
    return found


def _all(core: Core) -> list[Node]:
    """Every node, and every namespace's root."""
    return [*core.roots.values(), *(node for node in core.nodes.values() if node.parent is not None)]


def _owners(core: Core) -> list[str]:
    found = []
    for tier in ("device", "host"):
        for c, pool in core.pools.of(tier).items():
            owners = [0] * pool.slots.size
            listed = [0] * pool.slots.size
            for node in core.nodes.values():
                for slot in node.seats(tier)[c].slots or ():
                    owners[slot] += 1
            for holder in core.holders.values():
                if tier == "host" and isinstance(holder, Prefetch):
                    for slot in holder.reserved.get(c, ()):
                        owners[slot] += 1
            for slot in pool.slots.free:
                listed[slot] += 1
            name = f"{tier}.{NAMES[c]}"
            for slot, (count, free) in enumerate(zip(owners, listed, strict=True)):
                used = pool.slots.is_used(slot)
                if count != used or free == used:
                    found.append(f"{name} slot {slot}: used {used}, owners {count}, in the free list {free}")
    return found


def _locks(core: Core) -> list[str]:
    found = []
    paths: Counter[Node] = Counter()
    for holder in core.holders.values():
        if holder.over:
            found.append(f"holder {holder.id} is over and registered")
        if holder.path is not None:
            paths.update(holder.path.path())
        for seat, node in holder.locks.items():
            if (node.parent is not None and core.nodes.get(node.id) is not node) or not (
                seat in node.device or seat in node.host
            ):
                found.append(f"holder {holder.id} has locked node {node.id}, which is gone")
            if holder not in (seat.locks or ()):
                found.append(f"holder {holder.id} has locked a seat of node {node.id} that does not know it")
    for node in _all(core):
        if node.lock_ref != paths[node]:
            found.append(f"node {node.id} lock_ref {node.lock_ref}, holders {paths[node]}")
        for seat in (*node.device, *node.host):
            for holder in seat.locks or ():
                if core.holders.get(holder.id) is not holder or holder.locks.get(seat) is not node:
                    found.append(f"node {node.id} is locked by {holder}, which does not know it")
    return found


def _flights(core: Core) -> list[str]:
    found = []
    holds = 0
    for holder in core.holders.values():
        if isinstance(holder, Operation) and holder.ticket is not None and not holder.doomed:
            if not holder.doomed and holder not in core.in_flight[holder.ticket.direction]:
                done = isinstance(holder, Prefetch) and not holder.filling
                if not done:
                    found.append(f"holder {holder.id} is in flight, and nobody waits for it")
            if holder in core.in_flight[holder.ticket.direction]:
                for copy in holder.ticket.copies:
                    holds += len(copy.sources) * hasattr(copy.source, "slots") + len(copy.targets) * hasattr(
                        copy.target, "slots"
                    )
    if holds != sum(pool.slots.in_transfer for pool in core.pools.all()):
        found.append(f"{sum(pool.slots.in_transfer for pool in core.pools.all())} holds on slots, {holds} in flight")
    for node in core.nodes.values():
        for seat in (*node.device, *node.host):
            pending = seat.pending
            if pending is not None and (
                core.holders.get(pending.id) is not pending or pending.moving.get(seat) is not node
            ):
                found.append(f"node {node.id} waits for {pending}, which does not bring anything")
            if pending is not None and seat.slots is None:
                found.append(f"node {node.id} waits for a copy that it has no slots for")
        for name in ("load_back_pending_id", "write_through_pending_id"):
            id_ = getattr(node, name)
            if id_ and id_ not in core.holders:
                found.append(f"node {node.id} {name} {id_} is over")
        if node.load_back_pending_id and (not core.write_back or node.device[FULL].pending is None):
            found.append(f"node {node.id} is pinned by {node.load_back_pending_id}, which does not load it")
    return found


def _structure(core: Core) -> list[str]:
    found = []
    reached = {node.id: node for root in reversed(core.roots.values()) for node in root.subtree()}
    if reached != core.nodes:
        found.append(f"nodes {sorted(reached.keys() ^ core.nodes.keys())} are either lost or dead")
    for node in _all(core):
        children = node.children.values()
        for first, child in node.children.items():
            if (
                child.parent is not node
                or child.key[: core.stride] != first
                or not child.key
                or len(child.key) % core.stride
            ):
                found.append(f"node {child.id} hangs wrongly below {node.id}")
            if child.end != node.end + core.pages(child):
                found.append(f"node {child.id} ends at {child.end}")
        if node.device_children != sum(c.on_device for c in children) or node.host_children != sum(
            c.on_host for c in children
        ):
            found.append(f"node {node.id} miscounts its children")
        if node.parent is None:
            continue
        if not (node.on_device or node.on_host):
            found.append(f"node {node.id} is on no tier")
        if node.on_device and not node.parent.on_device:
            found.append(f"node {node.id} is on the device, its parent is not")
        if not core.write_back and node.on_host and not node.parent.on_host:
            found.append(f"node {node.id} is on the host, its parent is not")
        for c in core.components:
            for tier in ("device", "host"):
                slots = node.seats(tier)[c].slots
                if slots is not None and len(slots) != core.need(node, c):
                    found.append(f"node {node.id} has {len(slots)} {tier} {NAMES[c]} slots, wants {core.need(node, c)}")
            if c != FULL and node.device[c].slots is not None and not node.on_device:
                found.append(f"node {node.id} has {NAMES[c]} on the device without FULL")
        if node.duplicate != core.settled(node):
            found.append(f"node {node.id} is {'' if node.duplicate else 'not '}tracked as a duplicate")
    return found


def _queues(core: Core) -> list[str]:
    found = []
    for node in core.nodes.values():
        for queue in core.queues:
            if queue.fits(node) and not node.queued & queue.bit:
                found.append(f"node {node.id} is missing in eviction queue {queue.bit}")
    return found


def _bytes(core: Core) -> list[str]:
    found = []
    inner = [node for node in core.nodes.values() if node.parent is not None]
    for tier in ("device", "host"):
        for c, pool in core.pools.of(tier).items():
            seats = [(node, node.seats(tier)[c]) for node in inner]
            arrived = [(node, seat.slots) for node, seat in seats if seat.slots is not None and seat.pending is None]
            arrived = [(node, slots) for node, slots in arrived if core.computing.written(pool, slots)]
            if arrived and not _same(core, c, pool, arrived):
                wrong = [node.id for node, slots in arrived if not _same(core, c, pool, [(node, slots)])]
                found.append(f"nodes {wrong} have wrong {NAMES[c]} bytes on the {tier}")
    for node in inner:
        if walk(node.path()[-1], _tokens(node), core.stride)[0] is not node:
            found.append(f"node {node.id} is not where its tokens lead")
    return found


def _same(core: Core, component: int, pool: Pool, arrived: list[tuple[Node, Slots]]) -> bool:
    """The slots of these nodes hold their own bytes."""
    wanted = [core.hashes(node) for node, _ in arrived]
    ids = identities(b"".join(h[-DIGEST:] for h in wanted) if component == MAMBA else b"".join(wanted))
    slots = array("i")
    for _, own in arrived:
        slots.extend(own)
    data = pool.data
    return torch.equal(pool.pages(slots), page_bytes(ids, component, data.shape[1], data.shape[2]))


def _tokens(node: Node) -> bytes:
    return b"".join(member.key for member in reversed(node.path()))
