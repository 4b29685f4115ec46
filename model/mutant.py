"""What a faulty protocol is: a mistake from a public report, and the obligation that must catch it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .edits import Edit, apply
from .instance import Instance
from .protocol import Setting
from .vocabulary import COMPONENT_SETS, MAMBA, SWA, WRITE_BACK, WRITE_THROUGH, Component, Policy

SHAPES = {
    1: "published before complete",
    2: "protection scoped to the call, not to the ack",
    3: "re-entrant eviction",
    4: "split while in flight",
    5: "release decided from current state instead of from a receipt",
    6: "one scalar where a multiset is needed",
    7: "policy-dependent protocol used under the other policy",
    8: "lookup used as a reservation",
    9: "one of several ends forgets to release",
    10: "two releasers",
    11: "count agreed between ranks, content not",
    12: "a safety fix that refuses too much",
    13: "two correct fixes collide",
    14: "the checker itself is wrong",
    15: "identity differs between tiers",
}
"""The recurring shapes of ownership bugs. Number 11 needs several ranks; the protocol knows of one,
and ARCHITECTURE.md says how a group is reduced to that one.
"""

Sets = tuple[tuple[Component, ...], ...]
ALL: Sets = COMPONENT_SETS
WITH_SWA: Sets = tuple(c for c in COMPONENT_SETS if SWA in c)
WITH_MAMBA: Sets = tuple(c for c in COMPONENT_SETS if MAMBA in c)
WITH_AUX: Sets = tuple(c for c in COMPONENT_SETS if len(c) > 1)
BOTH: tuple[Policy, ...] = (WRITE_BACK, WRITE_THROUGH)
BACK: tuple[Policy, ...] = (WRITE_BACK,)
THROUGH: tuple[Policy, ...] = (WRITE_THROUGH,)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A protocol with one mistake.

    `caught_by` is a property's id, or an obligation's `action.kind.subject` in which `*` stands for anything. It must
    fail under every one of `policies` for every one of `components`.
    """

    id: str
    shape: int
    report: str
    words: str
    caught_by: str
    edits: tuple[Edit, ...]
    policies: tuple[Policy, ...] = BOTH
    components: Sets = ALL

    def instance(self, policy: Policy, components: tuple[Component, ...]) -> Instance:
        """The faulty protocol under one policy, for one component set.

        Raises:
            StaleEdit: the text has no such place to be wrong in.
        """
        return apply(self.edits, Setting(policy, components))

    def bites(self) -> Iterator[tuple[Policy, tuple[Component, ...]]]:
        """Where it must be caught."""
        for policy in self.policies:
            for components in self.components:
                yield policy, components

    def actions(self) -> frozenset[str]:
        """The actions that it changes, without their component."""
        return frozenset(edit.action for edit in self.edits)
