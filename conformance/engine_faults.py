"""Faults in how the cache orders its copies: each lets two accesses to one page meet, if the schedule is unkind.

Each is found twice over, by the bytes that come out when the schedule is unkind, and by happens-before when it is kind.
Two guards of the cache would tell of most of them first; `UNGUARDED` takes those away.
"""

from __future__ import annotations

from .faults import FAULTS, Edit, Fault

UNGUARDED = Fault(
    "unguarded",
    "Free lists do not know which slots are in transfer.",
    "",
    (
        Edit("transfers.base:Ticket.hold", "for copy in self.copies:", "for copy in ():"),
        Edit("transfers.base:Ticket.hold", "self._held = True", "pass"),
    ),
)

_NEW = (
    Fault(
        "no-store-fence",
        "A backup starts before the request has computed what it copies.",
        "vLLM #47282",
        (Edit("backup:backup", 'submit("backup", copies, core.engine.fence(),', 'submit("backup", copies, (),'),),
    ),
    Fault(
        "no-load-fence",
        "A load-back writes into pages that requests have not finished reading.",
        "vLLM #47282",
        (Edit("loading:commit", "core.engine.fence()", "()"),),
    ),
    Fault(
        "device-eviction-ignores-locks",
        "Device leaves are evicted although a request has locked them.",
        "SGLang #27444",
        (
            Edit("core:Core.is_device_leaf", "node.lock_ref or ", ""),
            Edit("device_room:_unlocked", "node.lock_ref or ", ""),
        ),
    ),
    Fault(
        "auxiliary-host-eviction-ignores-locks",
        "Host copies of windows and states are evicted although a load-back has locked and reads them.",
        "SGLang #27444",
        (Edit("core:Core._aux_fits", "is not None and not seat.locks\n", "is not None\n"),),
        components=("full", "mamba"),
    ),
    Fault(
        "layer-not-waited-for",
        "A forward that starts before its load-back ends does not wait for each layer.",
        "SGLang #22811",
        (
            Edit(
                "reading:read_layer",
                "[LayerFence(ticket, layer) for ticket in tickets(receipt)]",
                "[]",
            ),
        ),
    ),
)

ENGINE_FAULTS: dict[str, Fault] = {
    "no store fence": _NEW[0],
    "no load fence": _NEW[1],
    "no device lock": _NEW[2],
    "no host lock": _NEW[3],
    "no layer wait": _NEW[4],
    "evict while pending": FAULTS["demoted-before-arrival"],
    "ack at submit": FAULTS["ack-at-submit"],
    "reset without drain": FAULTS["reset-does-not-drain"],
}
"""The faults of engines, by what is missing."""

ALL_FAULTS: dict[str, Fault] = FAULTS | {fault.name: fault for fault in _NEW}
"""Every fault that can be patched into the cache, by name."""
