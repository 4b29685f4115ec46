"""What the checker finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from .events import Event

Kind = Literal["safety", "permissiveness", "refinement", "accounting", "bytes", "crash"]
"""safety         the target did what a guard of the protocol forbids
permissiveness the target refused, or answered with nothing, where nothing forbids
refinement     what the target shows of a node is not what the protocol says
accounting     slots: two owners, freed twice, freed while owned, never freed, sizes that do not add up
bytes          a page that counts as arrived does not hold the bytes of its key and layer
crash          the target ended, raised, or did not answer
"""


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that is wrong, with what one needs to understand it.

    Attributes:
        kind: see `Kind`.
        seq: the event it was seen at; -1 before the first.
        rule: stable id: `action/guard` of the protocol text, or the name of a check.
        words: what should have been.
        action: the event's action and arguments.
        node, field, expected, observed: where and how the observed state differs (refinement).
        conjuncts: the parts of the guard that do not hold, in words.
        recent: the last events that touched the nodes in question, oldest first.
    """

    kind: Kind
    seq: int
    rule: str
    words: str
    action: str = ""
    node: int | None = None
    field: str | None = None
    expected: object = None
    observed: object = None
    conjuncts: tuple[str, ...] = ()
    recent: tuple[Event, ...] = ()

    def __str__(self) -> str:
        parts = [f"{self.kind}: event {self.seq} {self.action}: {self.words}"]
        if self.field is not None:
            parts.append(f"node {self.node} {self.field}: expected {self.expected!r}, observed {self.observed!r}")
        parts.extend(f"does not hold: {conjunct}" for conjunct in self.conjuncts)
        return "; ".join(parts)

    def as_json(self) -> dict[str, Any]:
        """For reports: plain values, empty fields left out."""
        found: dict[str, Any] = {
            "kind": self.kind, "seq": self.seq, "rule": self.rule, "words": self.words, "action": self.action,
        }  # fmt: skip
        if self.field is not None:
            found |= {"node": self.node, "field": self.field, "expected": self.expected, "observed": self.observed}
        if self.conjuncts:
            found["conjuncts"] = list(self.conjuncts)
        if self.recent:
            found["recent"] = [told(event) for event in self.recent]
        return found


def told(event: Event) -> str:
    """An event on one line: `7 lock(node=3, holder=2)`."""
    args = ", ".join(f"{name}={value}" for name, value in event.args.items())
    refused = f" refused: {event.reason}" if event.outcome == "refused" else ""
    return f"{event.seq} {event.action}({args}){refused}"
