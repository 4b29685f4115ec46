"""The causes that files of specs/deviations name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ..model.state import State
from .cause import AnyOf, Cause
from .events import Event, action_of
from .lost_locks import ENDS, GivenBackTwice, LostInASplit, SkippedThenReleased, SkippedThenSplit
from .violation import Violation


class SourcePinnedByAnother(Cause):
    """A load-back is refused for an auxiliary source whose node another load-back has pinned for FULL."""

    def __init__(self) -> None:
        self._at = -1

    def saw(self, event: Event, state: State) -> None:
        """Look at the load-back that is refused."""
        if event.action in ("commit_load_back", "refuse_load_back"):
            args = action_of(event)[1]
            pins = state.pairs["load_back_pending"]
            if any(pins.holders(node) - {args["holder"]} for node in auxiliary_sources(args, state)):
                self._at = event.seq

    def explains(self, violation: Violation, event: Event | None, state: State) -> bool:
        """The violation is this refusal."""
        return event is not None and violation.seq == self._at


class AuxiliarySourcePinned(Cause):
    """A load-back pins the nodes that it reads only SWA or MAMBA of, too, and asserts that nobody else has."""

    def __init__(self) -> None:
        self.pinned: set[int] = set()
        self._at = -1

    def saw(self, event: Event, state: State) -> None:
        """Mark the nodes that are pinned for nothing; a split hands that on."""
        args = action_of(event)[1]
        if event.action == "split" and args["node"] in self.pinned:
            self.pinned.add(args["prefix"])
        elif event.action == "commit_load_back":
            pins, on_device = state.pairs["load_back_pending"], state.marks["device.full"]
            auxiliary = set(auxiliary_sources(args, state))
            sources = auxiliary | {node for node in state.path(args["node"]) if node not in on_device}
            if event.outcome == "refused":
                conflict = any(pins.holders(node) - {args["holder"]} for node in sources)
                self._at = event.seq if conflict or sources & self.pinned else -1
            else:
                self.pinned |= auxiliary & on_device

    def explains(self, violation: Violation, event: Event | None, state: State) -> bool:
        """The assertion and the end of the server that it is, or a pin where none should be."""
        if violation.kind in ("crash", "permissiveness"):
            return self._at >= 0 and violation.seq == self._at
        return violation.node in self.pinned


class CopiedAgain(Cause):
    """A backup copies what the host has already, and the tree keeps the copy that it had."""

    def __init__(self) -> None:
        self.had: set[tuple[str, int]] = set()

    def saw(self, event: Event, state: State) -> None:
        """Mark the copies that a node has when its backup begins."""
        if event.action == "begin_backup":
            node = action_of(event)[1]["node"]
            self.had |= {(name, node) for name in ("swa", "mamba") if node in state.marks.get(f"host.{name}", ())}

    def explains(self, violation: Violation, event: Event | None, state: State) -> bool:
        """The slots are lost of a copy that the node had."""
        found = _LOST.search(violation.words)
        return found is not None and (found["component"], int(found["node"])) in self.had


class LeftOutOfTheLeaves(Cause):
    """Giving a lock back looks at the nodes of its path while their windows are locked still, and not again."""

    def __init__(self) -> None:
        self.unlocked: set[int] = set()

    def saw(self, event: Event, state: State) -> None:
        """Mark the nodes whose window the holder had locked."""
        locks = state.pairs.get("device_lock.swa")
        if locks is not None and event.outcome == "done" and event.action in ENDS["device"] + ENDS["host"]:
            self.unlocked |= locks.nodes(action_of(event)[1].get("holder", -1))

    def explains(self, violation: Violation, event: Event | None, state: State) -> bool:
        """It is one of those nodes that nothing evicts; the core's own check does not say which."""
        found = _NODE.search(violation.words)
        return bool(self.unlocked) if found is None else int(found["node"]) in self.unlocked


_NODE = re.compile(r"\(node (?P<node>\d+)\)")
_LOST = re.compile(r"slots \[[\d, ]+\] of the host pool of (?P<component>\w+) are lost: \(node (?P<node>\d+)\)")


def auxiliary_sources(args: dict[str, int], state: State) -> Iterator[int]:
    """Nodes of which a load-back wants SWA or MAMBA."""
    node, marks = args["node"], state.marks
    if "host.swa" in marks:
        for each in state.segment(node, args.get("boundary", node)):
            if each in marks["host.swa"] and each not in marks["device.swa"]:
                yield each
    if "host.mamba" in marks and node in marks["host.mamba"] and node not in marks["device.mamba"]:
        yield node


CAUSES: dict[str, Callable[[], Cause]] = {
    "full-host-lock-lost-in-a-split": lambda: LostInASplit("full"),
    "swa-host-lock-lost-in-a-split": lambda: LostInASplit("swa"),
    "window-skipped-then-split": lambda: AnyOf(SkippedThenSplit("swa", "device"), SkippedThenSplit("swa", "host")),
    "window-skipped-then-released": lambda: SkippedThenReleased("swa"),
    "state-lock-given-back-twice": lambda: GivenBackTwice("mamba"),
    "source-pinned-by-another": SourcePinnedByAnother,
    "auxiliary-source-pinned": AuxiliarySourcePinned,
    "copied-again": CopiedAgain,
    "left-out-of-the-leaves": LeftOutOfTheLeaves,
}
"""By name."""
