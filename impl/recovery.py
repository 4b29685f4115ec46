"""Failed transfers that could not be cleared away at once: what stands in their way goes, if nobody has
locked it.
"""

from __future__ import annotations

from .config import FULL
from .core import Core
from .device_room import delete_leaf, demote, drop_subtree
from .host_room import evict_host_leaf
from .node import Node, Operation
from .settle import Settled, retry_doomed


def recover(core: Core) -> list[Settled]:
    """End doomed operations, shedding what hangs on them. Those that are still in use stay doomed."""
    ended = retry_doomed(core)
    if core.doomed:
        for receipt in reversed(core.doomed):
            _shed(core, receipt)
        ended += retry_doomed(core)
    return ended


def _shed(core: Core, receipt: Operation) -> None:
    """Take away what strictly below relies on the failed copies; never what is in use."""
    tier = "host" if receipt.kind == "backup" else "device"
    for seat, node in list(receipt.moving.items()):
        if seat is not node.seats(tier)[FULL]:
            continue
        for member in reversed(node.subtree()[1:]):
            if member.id in core.nodes and seat.pending is not member.seats(tier)[FULL].pending:
                _take_away(core, member, tier)


def _take_away(core: Core, node: Node, tier: str) -> None:
    if not demote(core, node) and not delete_leaf(core, node):
        drop_subtree(core, node)
    if tier == "host" and node.id in core.nodes and core.is_host_leaf(node):
        evict_host_leaf(core, node)
