"""What a request reads of what it has locked: waiting for it, reading it layer by layer, copying it out."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from . import requests
from .config import FULL, NAMES
from .core import Core
from .errors import NotReady, SlotError
from .node import Receipt
from .settle import wait_for
from .transfers.base import LayerFence, Ticket


def forward(core: Core, receipt: Receipt, *, wait: bool) -> None:
    """A request reads all that it has locked; see `TieredCache.forward`. Raises NotReady."""
    while (missing := requests.unarrived(receipt)) is not None:
        node, source = missing
        if wait and not source.doomed:
            wait_for(core, source)
            continue
        reason = f"the load of node {node.id} failed" if source.doomed else f"node {node.id} is being loaded"
        core.refuse("forward", {"node": receipt.node.id, "holder": receipt.id}, reason)
        raise NotReady("holder", reason)
    if core.config.verify or core.order is not None:
        read(core, receipt)
    requests.forward(core, receipt)


def read_layer(core: Core, receipt: Receipt, layer: int) -> None:
    """A request reads one layer while others are on their way; see `TieredCache.read_layer`. Raises NotReady."""
    missing = requests.unarrived(receipt)
    if missing is not None and missing[1].doomed:
        raise NotReady("holder", f"the load of node {missing[0].id} failed")
    read(core, receipt, layer, [LayerFence(ticket, layer) for ticket in tickets(receipt)])


def tickets(receipt: Receipt) -> list[Ticket]:
    """The transfers that a request would wait for."""
    seats = [node.device[FULL] for node in (receipt.path.path() if receipt.path else ())] + list(receipt.locks)
    found = {
        seat.pending.ticket: None for seat in seats if seat.pending is not None and seat.pending.ticket is not None
    }
    return list(found)


def read(core: Core, receipt: Receipt, layer: int | None = None, after: Sequence[LayerFence] = ()) -> None:
    """Read what a request has locked, all layers or one; in builds that verify, compare it with what it should be.

    The pages are those of this moment, as a request hands them to its kernels.
    """
    wanted = requests.reads(receipt)
    layers = None if layer is None else (layer, layer + 1)
    pages = [(node, c, node.device[c].slots, core.expected(node, c)) for node, c in wanted if core.config.verify]

    def look() -> None:
        if any(fence.ticket.error is not None for fence in after):
            return
        low, high = layers or (0, core.config.layers)
        for node, c, slots, expected in pages:
            pool = core.pools.device[c]
            if slots is None or not torch.equal(pool.pages(slots)[:, low:high], expected[:, low:high]):
                raise SlotError("holder", f"node {node.id} has not its own {NAMES[c]} bytes")

    parts = requests.pages_of(core, wanted)
    core.computing.read(parts, layers, after, look)
    if layer is None:
        core.computing.reads_on(receipt.id, parts)


def gather(core: Core, receipt: Receipt, component: int) -> torch.Tensor:
    """A copy of what a request has locked of a component; see `TieredCache.gather`. Raises NotReady."""
    if (missing := requests.unarrived(receipt)) is not None:
        raise NotReady("holder", f"node {missing[0].id} is being loaded")
    pool = core.pools.device[component]
    locked = [node.device[FULL] for node in (receipt.path.path()[-2::-1] if receipt.path else ())]
    if component != FULL:
        seats = [(node, seat) for seat, node in receipt.locks.items() if seat is node.device[component]]
        locked = [seat for node, seat in sorted(seats, key=lambda pair: pair[0].end)]
    parts = [(pool, seat.slots) for seat in locked if seat.slots is not None]
    core.computing.read_now(parts)
    pages = [pool.pages(slots) for _, slots in parts]
    return torch.cat(pages) if pages else torch.empty((0, *pool.data.shape[1:]), dtype=torch.int64)
