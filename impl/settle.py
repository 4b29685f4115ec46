"""The one place where ends of transfers are taken notice of: in the order in which transfers of a direction
began.
"""

from __future__ import annotations

from .backup import ack_backup, fail_backup, may_ack_backup, may_fail_backup
from .config import FULL
from .core import Core
from .load_back import fail_load_back, finish_load_back, may_fail_load_back
from .node import Node, Operation, Prefetch
from .prefetching import storage_backup
from .storage import ack_storage_backup, complete_prefetch, end_prefetch, fail_storage_backup

Settled = tuple[int, str]
"""An operation and what became of it: "acked", "failed", "doomed" or "completed" (a storage read)."""


def deliver(core: Core) -> list[Settled]:
    """Take notice of every transfer that has ended and whose predecessors have. Never blocks."""
    settled = []
    for queue in core.in_flight.values():
        while queue and queue[0].ticket is not None and queue[0].ticket.ended:
            settled.append(_settle(core, queue.popleft()))
    return settled


def wait_for(core: Core, receipt: Operation) -> None:
    """Block until the transfer of `receipt` has ended, and those before it, and take notice."""
    ticket = receipt.ticket
    assert ticket is not None
    queue = core.in_flight[ticket.direction]
    while receipt in queue:
        first = queue[0].ticket
        assert first is not None
        core.engine.wait(first)
        deliver(core)


def _settle(core: Core, receipt: Operation) -> Settled:
    ticket = receipt.ticket
    assert ticket is not None
    ticket.release()
    if core.meter is not None:
        core.meter.copied(ticket, core.config.layers * core.config.layer_bytes)
    if isinstance(receipt, Prefetch):
        complete_prefetch(core, receipt)
        if receipt.aborted:
            end_prefetch(core, receipt)
        return receipt.id, "completed"
    if receipt.kind == "storage_backup":
        if ticket.error is None and ack_storage_backup(core, receipt):
            return receipt.id, "acked"
        if not receipt.over:
            fail_storage_backup(core, receipt)
        return receipt.id, "failed"
    if ticket.error is None and (receipt.kind != "backup" or may_ack_backup(core, receipt)):
        if receipt.kind != "backup":
            finish_load_back(core, receipt)
            return receipt.id, "acked"
        written = list(dict.fromkeys(receipt.moving.values()))
        ack_backup(core, receipt)
        if core.storage_at_ack:
            for node in written:
                _store(core, node)
        return receipt.id, "acked"
    receipt.doomed = True
    if may_end(core, receipt):
        end_doomed(core, receipt)
        return receipt.id, "failed"
    core.doomed.append(receipt)
    return receipt.id, "doomed"


def _store(core: Core, node: Node) -> None:
    """What has arrived on the host goes on to storage. FULL may be on its way yet; its own ack follows then."""
    host = node.host[FULL]
    if host.slots is not None and host.pending is None:
        storage_backup(core, node)


def may_end(core: Core, receipt: Operation) -> bool:
    """What a failed transfer was to fill can be freed now."""
    return may_fail_backup(core, receipt) if receipt.kind == "backup" else may_fail_load_back(core, receipt)


def end_doomed(core: Core, receipt: Operation) -> None:
    """Free what a failed transfer was to fill."""
    (fail_backup if receipt.kind == "backup" else fail_load_back)(core, receipt)


def retry_doomed(core: Core) -> list[Settled]:
    """End every doomed operation that can be ended, youngest first: the younger hang below the older."""
    ended = []
    again = True
    while again:
        again = False
        for receipt in reversed(core.doomed):
            if may_end(core, receipt):
                core.doomed.remove(receipt)
                end_doomed(core, receipt)
                ended.append((receipt.id, "failed"))
                again = True
                break
    return ended
