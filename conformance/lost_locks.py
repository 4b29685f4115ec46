"""Locks that a target has lost count of: what a model with the same mistake would show."""

from __future__ import annotations

import re
from collections import Counter

from ..model.state import State
from .cause import NONE, Cause
from .events import Event, Tier, action_of
from .violation import Violation

LOCKS: dict[Tier, tuple[str, ...]] = {
    "device": ("lock", "lock_without_state", "begin_backup", "backup_aux", "begin_load_back", "commit_load_back"),
    "host": ("begin_load_back", "begin_prefetch", "begin_storage_backup"),
}
"""Actions by which a holder locks, by tier."""
ENDS: dict[Tier, tuple[str, ...]] = {
    "device": ("unlock", "release_window", "ack_backup", "ack_load_back"),
    "host": (
        "ack_load_back", "abort_load_back", "refuse_load_back",
        "end_prefetch", "ack_storage_backup", "fail_storage_backup",
    ),
}  # fmt: skip
"""Actions by which a holder gives its locks back."""

_SLOT = re.compile(r"slot (?P<slot>\d+) of (?:the )?(?P<pool>\w+ pool of \w+)")
_OWNER = re.compile(r"\(node (?P<node>\d+)\)")
_READER = re.compile(r"while holder (?P<holder>\d+) \w+ it")
_NOTHING = (NONE, 0)


class LostLocks(Cause):
    """Locks of one component on one tier: pairs of a node and a holder.

    Attributes:
        lost: every pair that was ever lost for certain.
        taken: for a node, how many other locks went since, because somebody gave back what the target did not count.
        exposed: the pairs that those may have been.
        bare: nodes that lost a copy under a lock that was lost.
        harmed: slots that were freed though one of those pairs protected them, with their pool.
    """

    tier: Tier = "host"
    field = "host_lock_ref"

    def __init__(self, component: str) -> None:
        self.component = component
        self.relation = f"{self.tier}_lock.{component}"
        self.lost: set[tuple[int, int]] = set()
        self.taken: Counter[int] = Counter()
        self.exposed: set[tuple[int, int]] = set()
        self.bare: set[int] = set()
        self.harmed: set[tuple[str, int]] = set()
        self._before: dict[int, tuple[range, int]] = {}
        """Node: how many locks were missing before the event, and how many there should have been."""

    def saw(self, event: Event, state: State) -> None:
        """Note what is missing before the event, then what the event loses."""
        held = state.pairs.get(self.relation)
        if held is None or event.outcome != "done":
            return
        for node in [node for node in self.taken if not held.holders(node)]:
            del self.taken[node]
        nodes = {node for node, _ in self.lost | self.exposed}
        self._before = {node: (self._range(node, state), len(held.holders(node))) for node in nodes}
        self.lose(event.action, action_of(event)[1], state)

    def lose(self, action: str, args: dict[str, int], state: State) -> None:
        """Take in what is lost by an event; `state` is the model's before it."""

    def take(self, node: int, state: State, but: int = -1) -> None:
        """Somebody gives back a lock of the node that the target does not count: another's goes, if there is one."""
        others = state.pairs[self.relation].holders(node) - {but}
        if others:
            self.taken[node] += 1
            self.exposed.update((node, other) for other in others)

    def walk_past(self, holder: int, state: State) -> None:
        """Whoever gives a window back goes on until it has met the end of it: not at all where that lock is gone."""
        nodes = state.pairs[self.relation].nodes(holder)
        if any((node, holder) in self.lost | self.exposed for node in nodes):
            for above in {each for node in nodes for each in state.above(node) if each} - nodes:
                self.take(above, state, holder)

    def missing(self, field: str, component: str, node: int, state: State) -> range:
        """How many locks the target may not count: those lost that the model still has, and those taken."""
        return self._range(node, state) if (field, component) == (self.field, self.component) else NONE

    def was_missing(self, field: str, component: str, node: int) -> range:
        """What `missing` said before the event."""
        return self._before.get(node, _NOTHING)[0] if (field, component) == (self.field, self.component) else NONE

    def _range(self, node: int, state: State) -> range:
        missing = self.certain(node, state)
        return range(missing, missing + self.taken[node] + 1)

    def certain(self, node: int, state: State) -> int:
        """Pairs that were lost for certain and that the model still has."""
        return sum((node, holder) in self.lost for holder in state.pairs[self.relation].holders(node))

    def explains(self, violation: Violation, event: Event | None, state: State) -> bool:
        """A copy was given up that the target counted no lock of; or its slots are not what somebody takes them for."""
        if violation.kind == "crash":
            return bool(self.taken)
        if violation.rule.startswith("target/"):
            return self._explains_report(violation.words)
        args = action_of(event)[1] if event is not None else {}
        node = args.get("node", -1)
        if violation.rule in (f"ack_backup/has host.{self.component}", f"ack_backup/{self.component}"):
            # Its bytes arrive where they were sent, and the slot is nobody's by now, or somebody else's.
            return any((bare, args.get("holder", -1)) in self.lost | self.exposed for bare in self.bare)
        rows = event.slots if event is not None else []
        if violation.rule.endswith((f"/no {self.component} {self.tier} lock", f"/unused host.{self.component}")):
            missing, held = self._before.get(node, _NOTHING)
            if not 0 < held < missing.stop and node not in self.bare:
                return False
            self.bare.add(node)
            given = [row for row in rows if row[0] == "give" and row[2] == self.component]
            self.harmed |= {(f"{row[1]} pool of {row[2]}", slot) for row in given for slot in row[3]}
            return True
        # A slot that was freed under a copy has another owner now, and bytes of that copy are still to come.
        moved = {(f"{row[1]} pool of {row[2]}", slot) for row in rows if row[0] == "move" for slot in row[3]}
        return violation.field == self.component and bool(moved & self.harmed)

    def _explains_report(self, words: str) -> bool:
        named = _SLOT.search(words)
        if named is None or not named["pool"].endswith(f"of {self.component}"):
            return False
        slot = named["pool"], int(named["slot"])
        owner, reader = _OWNER.search(words), _READER.search(words)
        if owner is not None and self.unprotected(int(owner["node"]), int(reader["holder"]) if reader else None):
            self.harmed.add(slot)
        return slot in self.harmed

    def unprotected(self, node: int, reader: int | None) -> bool:
        """Whether the target may have known of no lock that kept the node's slots from being freed under a reader."""
        pairs = self.lost | self.exposed
        return node in self.bare or any(node == other and reader in (None, holder) for other, holder in pairs)


class LostInASplit(LostLocks):
    """A split gives the prefix none of the node's host locks; whoever gives them back may take others of the prefix."""

    def lose(self, action: str, args: dict[str, int], state: State) -> None:
        """The holders of the node ought to hold the prefix as well."""
        held = state.pairs[self.relation]
        if action == "split":
            self.lost.update((args["prefix"], holder) for holder in held.holders(args["node"]))
        elif action in ENDS["host"] and self.component == "swa":  # a lock of FULL is on one node, and given back there
            for node in held.nodes(args["holder"]):
                if (node, args["holder"]) in self.lost:
                    self.take(node, state, args["holder"])
            self.walk_past(args["holder"], state)


class GivenBackTwice(LostLocks):
    """A request that has given its window back, and the state's lock with it, gives the latter back at its end too."""

    tier: Tier = "device"
    field = "lock_ref"

    def __init__(self, component: str) -> None:
        super().__init__(component)
        self._released: dict[int, int] = {}

    def lose(self, action: str, args: dict[str, int], state: State) -> None:
        """Another's lock of the node goes, if there is one."""
        if action == "release_window" and state.pairs[self.relation].has(args["node"], args["holder"]):
            self._released[args["holder"]] = args["node"]
        elif action == "unlock" and args["holder"] in self._released:
            self.take(self._released.pop(args["holder"]), state)


class SkippedThenSplit(LostLocks):
    """A lock passes over nodes without a copy, and its receipt names them; a split makes a prefix that it does not
    name, so that giving the lock back takes somebody else's lock of the prefix, once that has a copy again.
    """

    def __init__(self, component: str, tier: Tier) -> None:
        self.tier, self.field = tier, "lock_ref" if tier == "device" else "host_lock_ref"
        super().__init__(component)
        self._skipped: set[tuple[int, int]] = set()
        self._unnamed: set[tuple[int, int]] = set()

    def lose(self, action: str, args: dict[str, int], state: State) -> None:
        """Another's lock of a prefix goes, if there is one."""
        holder, there = args.get("holder", -1), state.marks[f"{self.tier}.{self.component}"]
        if action == "split":
            made = {(args["prefix"], h) for node, h in self._skipped | self._unnamed if node == args["node"]}
            self._unnamed |= made
        elif action in LOCKS[self.tier]:
            path = state.path(args.get("base", args["node"]))
            self._skipped |= {(node, holder) for node in path if node and node not in there}
        elif action in ENDS[self.tier]:
            for node in [node for node, h in self._unnamed if h == holder]:
                self.take(node, state, holder)
            self.walk_past(holder, state)


class SkippedThenReleased(LostLocks):
    """A lock passes over nodes without a window, and giving the window back early does not ask the receipt which: where
    one is there again, it takes somebody else's lock.
    """

    tier: Tier = "device"
    field = "lock_ref"

    def __init__(self, component: str) -> None:
        super().__init__(component)
        self._skipped: set[tuple[int, int]] = set()

    def lose(self, action: str, args: dict[str, int], state: State) -> None:
        """Another's lock of a node that was passed over goes, if there is one."""
        there = state.marks[f"device.{self.component}"]
        if action == "split":
            self._skipped |= {(args["prefix"], h) for node, h in self._skipped if node == args["node"]}
        elif action in ("lock", "lock_without_state"):
            path = state.path(args["node"])
            self._skipped |= {(node, args["holder"]) for node in path if node and node not in there}
        elif action == "release_window":
            for node in [node for node, holder in self._skipped if holder == args["holder"]]:
                self.take(node, state, args["holder"])
        if action in ENDS["device"]:
            self.walk_past(args["holder"], state)
