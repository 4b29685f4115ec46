"""What a state must not allow, tried out on a target: a suite alone takes only steps that are allowed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ..model.machine import ReferenceMachine
from ..model.state import ROOT_NODE
from .session import Session
from .situation import operation

GIVE_UP = ("demote", "delete_leaf", "drop_subtree", "reclaim_duplicate", "evict_")
"""How the actions begin that free slots of a node."""


class Prober:
    """In each state of the model that is met for the first time, asks the target for what the protocol does not allow
    there, on nodes and holders that are there. It has to refuse too, or be unable to.

    Attributes:
        probes: actions that were asked for.
    """

    def __init__(self) -> None:
        self.probes = 0
        self._met: set[int] = set()

    def __call__(self, session: Session) -> None:
        """Try what is forbidden in the state that the session is in; the target's events are checked as always."""
        machine = session.checker.machine
        print_ = fingerprint(machine)
        if print_ in self._met:
            return
        self._met.add(print_)
        for action, args in forbidden(machine):
            session.perform(operation("act", action=action, args=args))
            self.probes += 1
            if session.over:
                return


def forbidden(machine: ReferenceMachine) -> Iterator[tuple[str, dict[str, int]]]:
    """Giving up a copy that the protocol does not let go of; and whatever would make sense were it not protected."""
    state = machine.state
    nodes = sorted(state.marks["live"] - {ROOT_NODE})
    holders = sorted({holder for pairs in state.pairs.values() for holder in pairs.by_holder})
    for name, action in machine.instance.actions.items():
        if any(q.kind in ("fresh", "idle") for q in action.parameters):
            continue
        choices = [holders if q.var.sort == "holder" else nodes for q in action.parameters]
        for chosen in product(*choices):
            args = {q.var.name: value for q, value in zip(action.parameters, chosen, strict=True)}
            verdict = machine.allows(name, args).verdict
            if verdict == "refused" or (verdict == "senseless" and name.startswith(GIVE_UP)):
                yield name, args


def fingerprint(machine: ReferenceMachine) -> int:
    """The same for equal states of a machine, and but for chance for no others."""
    state = machine.state
    marks = tuple(frozenset(members) for members in state.marks.values())
    pairs = tuple(
        frozenset((node, holder) for node, holders in known.by_node.items() for holder in holders)
        for known in state.pairs.values()
    )
    return hash((frozenset(state.parent.items()), marks, pairs))
