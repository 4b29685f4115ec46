"""The end of a run: everything is let go of, and nothing may be left."""

from __future__ import annotations

from typing import Protocol

from .checker import Checker
from .situation import HOLDERS, Operation, Situation, operation
from .targets.base import Answer
from .violation import Violation

ENDS = {
    "request": ("unlock",),
    "loading": ("abort_load_back",),
    "load_back": ("ack_load_back",),
    "backup": ("ack_backup",),
    "prefetch": ("complete_prefetch", "end_prefetch"),
    "storing": ("ack_storage_backup",),
}
"""The actions that end each kind of operation well."""


class Run(Protocol):
    """What is to be ended: a session."""

    operations: set[str]
    violations: list[Violation]
    events: int
    situation: Situation
    checker: Checker

    @property
    def over(self) -> bool:
        """Nothing more is to be asked."""

    def perform(self, asked: Operation) -> Answer | None:
        """One operation."""

    def audit(self) -> None:
        """The target looks at all it has."""


def finish(session: Run) -> None:
    """Let go of everything until nothing is held, then reset; what is left is held against the target."""
    for _ in range(60):
        if session.over or not session.situation.among("operation"):
            break
        _let_go(session)
    if session.over:
        return
    held = sorted(session.situation.among("operation"))
    if held:
        kinds = {h: next(k for k in HOLDERS if h in session.situation.among(k)) for h in held}
        session.violations.append(
            Violation("accounting", session.events - 1, "idle/empty-handed", f"operations that never end: {kinds}")
        )
        return
    _idle(session)
    session.audit()
    if session.over:
        return
    session.perform(operation("reset"))
    session.audit()
    left = {f"{tier} {name}": sorted(slots) for (tier, name), slots in session.checker.ledger.owner.items() if slots}
    if left and not session.over:
        words = f"slots that nobody gave back after a reset: {left}"
        session.violations.append(Violation("accounting", session.events - 1, "idle/slots", words))


def _let_go(session: Run) -> None:
    if "unlock" not in session.operations:
        _let_go_by_actions(session)
        return
    _each(session, "request", "unlock")
    _each(session, "loading", "abort")
    _each(session, "read_prefetch", "finish_prefetch")
    _each(session, "prefetch", "abort")
    if "wait" in session.operations:
        _each(session, "flying", "wait")
    else:
        waiting = 1
        while waiting and not session.over and "step" in session.operations:
            answer = session.perform(operation("step", choice=0))
            waiting = (answer.result or {}).get("waiting", 0) if answer is not None and answer.ok else 0
    if not session.over:
        session.perform(operation("poll"))


def _each(session: Run, kind: str, name: str) -> None:
    for holder in sorted(session.situation.among(kind)):
        if not session.over and holder in session.situation.among(kind):
            session.perform(operation(name, holder=holder))


def _let_go_by_actions(session: Run) -> None:
    anchors = session.checker.machine.state.pairs["anchor"]
    for kind, actions in ENDS.items():
        for holder in sorted(session.situation.among(kind)):
            anchor = min(anchors.nodes(holder), default=0)
            for action in actions:
                args = {"holder": holder, **({"node": anchor} if action == "ack_load_back" else {})}
                if not session.over:
                    session.perform(operation("act", action=action, args=args))


def _idle(session: Run) -> None:
    """Nothing is under way, so nothing of the model's is left: locks, pins, marks, reservations."""
    state = session.checker.machine.state
    left = [name for name, pairs in state.pairs.items() if pairs.by_node]
    if left:
        words = f"nothing is under way, and there is {', '.join(left)}"
        session.violations.append(Violation("accounting", session.events - 1, "idle/empty-handed", words))
