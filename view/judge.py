"""What is wrong with an event, ready to be shown: the rule, the conjunct that is false, the facts that make it so.

The verdict is the checker's; here it is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..conformance.checker import Checker
from ..conformance.events import Event, action_of
from ..conformance.violation import Violation as Found
from ..model.algebra import Action
from ..model.errors import ModelError
from ..model.machine import ReferenceMachine
from ..model.state import ROOT_NODE
from .formula import text
from .why import Fact, Why
from .words import BEGINS

TITLES: Mapping[str, str] = {
    "safety": "The target did what the protocol forbids",
    "permissiveness": "The target refused what nothing forbids",
    "refinement": "The target's state is not the protocol's",
    "accounting": "The slots do not add up",
    "bytes": "A page does not hold its bytes",
    "crash": "The target ended",
    "divergence": "Two traces part here",
    "property": "A property of the protocol does not hold",
    "promise": "A step of the protocol breaks its promise",
    "never": "An assertion fires",
    "false conflict": "The protocol refuses what is safe",
}
"""What kind of thing went wrong, in words: the checker's kinds, then the explorer's and the prover's."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A field of a node that is not as expected."""

    node: int
    field: str
    expected: object
    observed: object


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that went wrong, ready to be shown.

    Attributes:
        rule: stable id, as `pinproof explain` takes it.
        words: the rule in words.
        conjunct: the part of its formula that is false, as text; empty where no formula decided.
        facts: what makes it false.
        source: what the rule belongs to, in words, with the report that taught it.
    """

    kind: str
    rule: str
    words: str
    conjunct: str = ""
    facts: tuple[Fact, ...] = ()
    differences: tuple[Difference, ...] = ()
    source: str = ""

    @property
    def title(self) -> str:
        """What kind of thing went wrong."""
        return TITLES.get(self.kind, "A rule is broken")

    @property
    def sides(self) -> tuple[str, str]:
        """Whose the expected and the observed values of its differences are."""
        return ("the other trace", "this trace") if self.kind == "divergence" else ("the protocol", "the target")

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes that it is about."""
        found = [n for fact in self.facts for n in fact.nodes] + [d.node for d in self.differences]
        return tuple(dict.fromkeys(found))

    @property
    def holders(self) -> tuple[int, ...]:
        """The operations that it is about."""
        return tuple(dict.fromkeys(h for fact in self.facts for h in fact.holders))


class Replay:
    """Follows events without judging them, so that who holds what is known.

    Attributes:
        machine: the model's state after the events so far.
        lost: the model cannot follow the events any more.
    """

    def __init__(self, machine: ReferenceMachine) -> None:
        self.machine = machine
        self.lost = False

    def event(self, event: Event) -> list[Violation]:
        """Do what the event says."""
        if event.outcome == "done" and not self.lost:
            try:
                self.lost = not self.machine.step(*_call(event, self.machine))
            except ModelError:
                self.lost = True
        return []


class Judge(Replay):
    """Holds events to the protocol with the checker."""

    def __init__(self, checker: Checker) -> None:
        super().__init__(checker.machine)
        self.checker = checker
        self._kinds: dict[int, str] = {}

    def event(self, event: Event) -> list[Violation]:
        """What is wrong with the event: one violation, with everything that the checker found about it."""
        holder = event.args.get("holder")
        if event.action in BEGINS and isinstance(holder, int):
            self._kinds.setdefault(holder, BEGINS[event.action])
        found = self.checker.check(event)
        self.lost = self.checker.lost
        return [self._told(event, found)] if found else []

    def _told(self, event: Event, found: Sequence[Found]) -> Violation:
        first = found[0]
        same = [v for v in found if v.kind == first.kind]
        differences = tuple(
            Difference(v.node or 0, v.field, v.expected, v.observed) for v in same if v.field is not None
        )
        name, args = _call(event, self.machine)
        action = self.machine.instance.actions.get(name)
        conjunct, facts = "", [Fact(v.words) for v in same[1:] if v.field is None]
        if action is not None and args.keys() == {q.var.name for q in action.parameters}:
            if first.kind == "safety":
                conjunct, facts = self._forbidden(action, args, first)
            elif first.kind == "permissiveness":
                facts += self._nothing_in_the_way(action, args)
        conjunct = conjunct or "; ".join(first.conjuncts)
        words = _line(action.words) if action is not None else ""
        return Violation(first.kind, first.rule, first.words, conjunct, tuple(facts), differences, words)

    def _forbidden(self, action: Action, args: Mapping[str, int], found: Found) -> tuple[str, list[Fact]]:
        """The false conjuncts of the guard, and why: a protection says more than a broken bargain, and comes first."""
        why = Why(self.machine.state, name_holder=self._name)
        failing = why.failing(action, args)
        guard = found.rule.partition("/")[2]
        conjuncts = [
            text(why.deciding(part, args), args, action) for g, parts in failing if g.name == guard for part in parts
        ]
        failing.sort(key=lambda failed: failed[0].kind == "expect")
        facts = [fact for _, parts in failing for part in parts for fact in why.facts(part, args)]
        return " & ".join(conjuncts), facts

    def _nothing_in_the_way(self, action: Action, args: Mapping[str, int]) -> list[Fact]:
        why = Why(self.machine.state, name_holder=self._name)
        why.failing(action, args)
        guards = list(action.guards("require"))
        return [fact for guard in guards for fact in why.facts(guard.formula, args, 2)][:6]

    def _name(self, holder: int) -> str:
        return f"{self._kinds.get(holder, 'operation')} {holder}"


def _call(event: Event, machine: ReferenceMachine) -> tuple[str, dict[str, int]]:
    """Action and arguments as the model has them. A window that an event does not state is the node alone."""
    name, args = action_of(event)
    action = machine.instance.actions.get(name)
    if action is not None and "boundary" not in args and any(q.var.name == "boundary" for q in action.parameters):
        args = {**args, "boundary": args.get("node", ROOT_NODE)}
    return name, args


def _line(words: str) -> str:
    return " ".join(words.replace("-\n", "-").split())
