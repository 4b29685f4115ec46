"""The load-back as a whole: lock, make room, commit, or give up with nothing left behind."""

from __future__ import annotations

from .config import NAMES
from .core import Core
from .errors import NothingToDo, OutOfDeviceSlots
from .evict import make_device_room
from .load_back import (
    abort_load_back,
    begin_load_back,
    commit_load_back,
    refuse_load_back,
    sources,
)
from .node import Node, Operation


def load_back(core: Core, node: Node) -> Operation:
    """Bring FULL of the path of `node`, its window and its state to the device.

    Raises:
        NothingToDo: all of it is there.
        OutOfDeviceSlots: no room.
    """
    receipt = begin_load_back(core, node)
    commit(core, receipt)
    return receipt


def commit(core: Core, receipt: Operation) -> None:
    """Make room and start the copies of a load-back that was begun. Evicting for it cannot hurt: what it uses
    is locked.

    Raises:
        NothingToDo, OutOfDeviceSlots: as `load_back`; its locks are given back then.
    """
    node = receipt.node
    while True:
        # What somebody else has loaded since the beginning is not locked here: room may be made of it.
        wanted = sources(core, receipt)
        if not wanted:
            refuse_load_back(core, receipt)
            raise NothingToDo("node", f"all of node {node.id} is on the device")
        short = _short(core, wanted)
        if short is None:
            break
        component, need = short
        if not make_device_room(core, component, need):
            abort_load_back(core, receipt)
            raise OutOfDeviceSlots("node", f"no room for {need} {NAMES[component]} pages of node {node.id}")
    copies = commit_load_back(core, receipt, wanted)
    receipt.ticket = core.engine.submit("load_back", copies, core.engine.fence(), core.config.group)
    core.in_flight["load_back"].append(receipt)


def _short(core: Core, wanted: list[tuple[Node, int]]) -> tuple[int, int] | None:
    """A component that lacks room, and the pages to load of it."""
    needs: dict[int, int] = {}
    for node, c in wanted:
        needs[c] = needs.get(c, 0) + core.need(node, c)
    for c, need in sorted(needs.items()):
        if core.starved["device"] or core.pools.device[c].slots.available < need:
            return c, need
    return None
