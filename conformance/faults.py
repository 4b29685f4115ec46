"""Faults that are patched into the cache, one at a time: what a checker that finds nothing must be tried on.

A fault is an edit of the cache's source, as a careless change would make it; most of them are changes that somebody
did make somewhere. An edit that no longer applies raises, so that no fault counts as found that was not there.
"""

from __future__ import annotations
import __future__

import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

from ..model.vocabulary import Component, Policy
from .errors import ConformanceError


class FaultDoesNotApply(ConformanceError):
    """The source that a fault edits has changed. Names the fault and the function."""


@dataclass(frozen=True, slots=True)
class Edit:
    """In one function of the cache (`module:function` or `module:Class.method`), `old` becomes `new`."""

    where: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Fault:
    """A faulty cache.

    Attributes:
        words: what is wrong with it.
        source: the report of a fault of this kind.
        policy, components: under which it shows.
        single_actions: it takes orders of events that the cache's own operations do not lead to.
    """

    name: str
    words: str
    source: str
    edits: tuple[Edit, ...]
    policy: Policy = "write_back"
    components: tuple[Component, ...] = ("full",)
    single_actions: bool = False


@contextmanager
def injected(fault: Fault) -> Iterator[None]:
    """The cache has this fault as long as the context lasts. Caches made before may have it too.

    Raises:
        FaultDoesNotApply: the source is not as the fault expects.
    """
    with ExitStack() as stack:
        edited: dict[str, str] = {}
        for edit in fault.edits:
            source = edited.get(edit.where) or textwrap.dedent(inspect.getsource(_find(edit.where)[1]))
            if source.count(edit.old) != 1:
                raise FaultDoesNotApply(f"{fault.name}: {edit.where} has {source.count(edit.old)} times {edit.old!r}")
            edited[edit.where] = source.replace(edit.old, edit.new)
        for where, source in edited.items():
            stack.enter_context(_replaced(where, source))
        yield


def _find(where: str) -> tuple[Any, FunctionType, ModuleType]:
    """Owner, function and module."""
    module_name, _, path = where.partition(":")
    module = import_module(f"..impl.{module_name}", __package__)
    owner: Any = module
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    return owner, getattr(owner, name), module


@contextmanager
def _replaced(where: str, source: str) -> Iterator[None]:
    owner, old, module = _find(where)
    scope: dict[str, Any] = {}
    code = compile(source, f"<{where}, edited>", "exec", flags=__future__.annotations.compiler_flag, dont_inherit=True)
    exec(code, module.__dict__, scope)
    new = scope[old.__name__]
    places = [(owner, old.__name__)]
    if isinstance(owner, ModuleType):
        root = __package__.rpartition(".")[0]
        modules = [m for name, m in list(sys.modules.items()) if name.startswith(f"{root}.impl") and m is not None]
        places += [(m, name) for m in modules for name, value in list(vars(m).items()) if value is old]
    for place, name in places:
        setattr(place, name, new)
    try:
        yield
    finally:
        for place, name in places:
            setattr(place, name, old)


def _one(where: str, old: str, new: str) -> tuple[Edit, ...]:
    return (Edit(where, old, new),)


FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault(
            "pin-forgotten-on-split",
            "A split leaves the new prefix without the pin of the load-back that reads its host slots.",
            "SGLang #27072",
            _one("requests:split", "prefix.load_back_pending_id = node.load_back_pending_id\n", "pass\n"),
        ),
        Fault(
            "mark-forgotten-on-split",
            "A split leaves the new prefix without the mark of the backup that writes its host slots.",
            "SGLang #16946",
            _one("requests:split", "prefix.write_through_pending_id = node.write_through_pending_id\n", "pass\n"),
            "write_through",
        ),
        Fault(
            "host-lock-forgotten-on-split",
            "A split leaves the new prefix without the locks of those who use its copies.",
            "SGLang #38480",
            _one("node:halve", "for receipt in seat.locks or ():", "for receipt in ():"),
        ),
        Fault(
            "slots-swapped-on-split",
            "A split gives the prefix the last slots instead of the first.",
            "SGLang #29352",
            _one(
                "node:halve",
                "upper.slots = seat.slots[:pages]\n        seat.slots = seat.slots[pages:]",
                "upper.slots = seat.slots[-pages:]\n        seat.slots = seat.slots[:-pages]",
            ),
        ),
        Fault(
            "ack-clears-anothers-pin",
            "The ack of a load-back clears all pins on its path, those of other load-backs too.",
            "InferenceX #2704",
            _one(
                "load_back:finish_load_back",
                "touched = core.release_all(receipt)",
                "touched = core.release_all(receipt)\n"
                "    for member in receipt.node.path():\n        member.load_back_pending_id = 0",
            ),
            single_actions=True,
        ),
        Fault(
            "reclaim-ignores-pin",
            "Duplicates are reclaimed while a load-back still reads their host slots.",
            "SGLang #33777",
            (
                Edit(
                    "core:Core.is_reclaimable",
                    "node.duplicate and not node.load_back_pending_id",
                    "node.parent is not None and node.on_device and node.on_host",
                ),
                Edit("host_room:reclaim_duplicate", "    assert core.settled(node)\n", ""),
            ),
        ),
        Fault(
            "host-eviction-ignores-locks",
            "Host leaves are evicted although somebody has locked them.",
            "SGLang #27444",
            _one("core:Core.is_host_leaf", "and self.host_unlocked(node)", ""),
        ),
        Fault(
            "ack-at-submit",
            "Copies count as complete as soon as they have been submitted.",
            "SGLang #22811",
            (
                Edit("settle:deliver", " and queue[0].ticket.ended", ""),
                Edit("settle:_settle", "ticket.release()", "ticket.over = True\n    ticket.release()"),
            ),
        ),
        Fault(
            "read-without-fence",
            "A request reads its locked path without waiting for load-backs under way.",
            "SGLang #29819",
            _one(
                "requests:unarrived", "if (source := walker.device[FULL].pending) is not None:", "if (source := None):"
            ),
        ),
        Fault(
            "insert-frees-copy-targets",
            "An insert takes the slots that a load-back is filling for duplicates of its own, and frees them.",
            "SGLang #29310",
            _one(
                "inserting:_apply",
                "    absent = []\n",
                "    absent = []\n"
                "    for member in node.path()[:-1]:\n"
                "        seat = member.device[FULL]\n"
                "        if seat.pending is not None:\n"
                "            core.pools.device[FULL].slots.give(seat.slots)\n"
                "            seat.slots = core.take('device', FULL, core.pages(member))\n",
            ),
        ),
        Fault(
            "release-from-current-state",
            "A request gives back the window that it would lock now, not the one that it locked.",
            "SGLang #24972",
            _one(
                "core:Core.release_all",
                "for seat in receipt.locks:\n",
                "from .tree import window_top\n"
                "    top = window_top(receipt.node, self.window, self.stride)\n"
                "    for seat, owner in receipt.locks.items():\n"
                "        if receipt.kind == 'request' and owner in top.path()[1:]:\n"
                "            continue\n",
            ),
            components=("full", "swa"),
        ),
        Fault(
            "duplicate-lost",
            "The ack of a load-back does not track what it has made a duplicate.",
            "SGLang #33777",
            _one(
                "load_back:finish_load_back", "for member in loaded if core.write_back else path:", "for member in ():"
            ),
        ),
        Fault(
            "host-lock-leaked-on-abort",
            "A load-back that is given up keeps the host lock on its anchor.",
            "SGLang #15439",
            _one(
                "load_back:abort_load_back",
                "touched = core.release_all(receipt)",
                "receipt.locks.pop(receipt.node.host[0], None)\n    touched = core.release_all(receipt)",
            ),
        ),
        Fault(
            "reset-does-not-drain",
            "The cache is emptied while copies are under way.",
            "SGLang #26009",
            _one("cache:TieredCache.reset", "if core.holders:", "if False:"),
        ),
        Fault(
            "failed-copy-published",
            "A copy that failed counts as complete.",
            "SGLang #39444",
            _one("settle:_settle", "if ticket.error is None and (receipt.kind", "if (receipt.kind"),
        ),
        Fault(
            "demoted-before-arrival",
            "A node gives up its device copy while its backup still reads it.",
            "SGLang #24585",
            _one("device_room:demote", " or in_flight(node)", ""),
        ),
        Fault(
            "anchor-not-locked",
            "A load-back does not host-lock its anchor before room is made for it.",
            "SGLang #27631",
            _one(
                "load_back:begin_load_back",
                "if present is not node:\n        lock_seat",
                "if False:\n        lock_seat",
            ),
        ),
        Fault(
            "pins-under-every-policy",
            "Load-backs pin their sources under write-through too, where nothing reclaims them.",
            "SGLang #34519",
            _one("load_back:commit_load_back", "elif core.write_back:", "else:"),
            "write_through",
        ),
        Fault(
            "pins-on-auxiliary-sources",
            "Load-backs pin the sources of window slices and states too, and conflict over them.",
            "SGLang #36317",
            (
                Edit("load_back:commit_load_back", "elif core.write_back:", "if core.write_back:"),
                Edit(
                    "load_back:commit_load_back",
                    "member.load_back_pending_id == 0",
                    "member.load_back_pending_id in (0, receipt.id)",
                ),
            ),
            components=("full", "swa"),
        ),
        Fault(
            "silent-refusal",
            "A load-back whose path somebody else has pinned is answered with nothing.",
            "SGLang #35931",
            _one(
                "loading:commit",
                "if not wanted:",
                "if not wanted or any(m.load_back_pending_id for m in node.path()):",
            ),
            components=("full", "mamba"),
        ),
        Fault(
            "slots-leaked",
            "Auxiliary slots of a copy that is given up are never handed back to their pool.",
            "SGLang #24869",
            _one(
                "core:Core.vacate",
                "(self.pools.device if here else self.pools.host)[component].slots.give(slots)",
                "if component == FULL:\n"
                "        (self.pools.device if here else self.pools.host)[component].slots.give(slots)",
            ),
            components=("full", "mamba"),
        ),
        Fault(
            "window-given-back-twice",
            "A window that was given back early is given back again at the end.",
            "SGLang #36350",
            _one("requests:release_window", "            del receipt.locks[seat]\n", ""),
            components=("full", "swa"),
        ),
        Fault(
            "backup-destination-unlocked",
            "The host slots that a backup writes are not locked.",
            "SGLang #28468",
            _one("backup:begin_backup", "lock_seat(member.host[FULL], member, receipt)", "pass"),
        ),
        Fault(
            "match-ignores-the-namespace",
            "A match finds what another namespace has of the same tokens.",
            "SGLang #26747",
            _one("matching:match", "walk(root, key, core.stride)", "walk(core.root, key, core.stride)"),
        ),
        Fault(
            "storage-ignores-the-namespace",
            "Pages are asked for in storage by their tokens alone, and those of another namespace come back.",
            "SGLang #26747",
            _one(
                "prefetching:prefetch",
                "chain(core.last_hash(node), ",
                'chain(core.last_hash(node) if node.end else b"", ',
            ),
        ),
        Fault(
            "mirror-reclaimed-above-a-backed-up-child",
            "Under write_through host copies are reclaimed whatever is backed up below them.",
            "SGLang #33862",
            _one("core:Core.is_reclaimable", "if not self.write_back and node.host_children:", "if False:"),
            "write_through",
        ),
        Fault(
            "prefetch-ended-while-reading",
            "An aborted prefetch frees its reservation while storage still writes into it.",
            "SGLang #31296",
            (
                Edit("cache:TieredCache.abort", "if not receipt.filling:", "if True:"),
                Edit(
                    "storage:end_prefetch",
                    '    assert not receipt.filling, "a reservation is not freed while it is being filled"\n',
                    "",
                ),
            ),
        ),
    )
}
"""The faults, by name."""
