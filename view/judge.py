"""What is wrong with an event: the rule that it breaks, the conjunct that is false, the facts that make it so."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Literal

from ..model.algebra import Action, Guard, GuardKind
from ..model.errors import BadArgument, UnknownName
from ..model.instance import Instance
from ..model.machine import ReferenceMachine
from ..model.state import ROOT_NODE, Projection
from ..model.vocabulary import POLICIES, Component, Policy
from .why import Fact, Why, text
from .words import BEGINS, call, sentence, split_name

Breach = Literal["unsafe", "false-conflict", "different", "senseless", "unknown", "broken", "reported"]
"""unsafe         the target did what a protection forbids
false-conflict the target refused what nothing forbids
different      the target's state is not what the protocol says
senseless      the caller asked for what makes no sense in this state
unknown        the protocol has no such action, or not with these arguments
broken         a property does not hold, or an assertion fires: the protocol itself is at fault
reported       somebody else found it, and says so
"""

TITLES: Mapping[Breach, str] = {
    "unsafe": "The target did what the protocol forbids",
    "false-conflict": "The target refused what nothing forbids",
    "different": "The target's state is not the protocol's",
    "senseless": "The target did what makes no sense here",
    "unknown": "The protocol has no such step",
    "broken": "A rule of the protocol is broken",
    "reported": "A violation was reported",
}


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
    """

    kind: Breach
    rule: str
    words: str
    conjunct: str = ""
    facts: tuple[Fact, ...] = ()
    differences: tuple[Difference, ...] = ()
    source: str = ""

    @property
    def title(self) -> str:
        """What kind of thing went wrong."""
        return TITLES[self.kind]

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes that it is about."""
        found = [n for fact in self.facts for n in fact.nodes] + [d.node for d in self.differences]
        return tuple(dict.fromkeys(found))

    @property
    def holders(self) -> tuple[int, ...]:
        """The operations that it is about."""
        return tuple(dict.fromkeys(h for fact in self.facts for h in fact.holders))


class Judge:
    """Replays events through the reference machine. After the first violation the model knows nothing more: `lost`.

    Raises:
        UnknownName: not a policy, or not a component set.
    """

    def __init__(self, policy: Policy | Instance, components: tuple[Component, ...]) -> None:
        self.machine = ReferenceMachine(policy, components)
        self.lost = False
        self.touched: Set[int] = frozenset()
        self._kinds: dict[int, str] = {}

    @property
    def instance(self) -> Instance:
        """The protocol that events are held to."""
        return self.machine.instance

    def name_holder(self, holder: int) -> str:
        """What an operation is called: `load-back 7`."""
        return f"{self._kinds.get(holder, 'operation')} {holder}"

    def event(
        self,
        action: str,
        args: Mapping[str, int],
        *,
        component: object = None,
        refused: bool = False,
        post: Mapping[int, Projection | None] | None = None,
    ) -> Violation | None:
        """Judge one event and do it; None if all is well."""
        self.touched = frozenset()
        if self.lost:
            return None
        name, suffix = split_name(action, component)
        full = f"{name}.{suffix}" if suffix else name
        if name in BEGINS and "holder" in args:
            self._kinds.setdefault(args["holder"], BEGINS[name])
        violation = self._judge(full, args, refused, post)
        self.lost = violation is not None
        return violation

    def _judge(
        self, name: str, args: Mapping[str, int], refused: bool, post: Mapping[int, Projection | None] | None
    ) -> Violation | None:
        known = self.instance.actions.get(name)
        if known is None:
            return Violation("unknown", f"{name}.unknown", f"{self.instance.name} has no action {name}")
        wanted = [q.var.name for q in known.parameters]
        given = {n: args.get(n, ROOT_NODE if n == "boundary" else -1) for n in wanted}
        if -1 in given.values() or args.keys() - {*wanted, "boundary"}:
            return Violation("unknown", f"{name}.unknown", f"it takes ({', '.join(wanted)}), not ({', '.join(args)})")
        why = Why(self.machine.state, name_holder=self.name_holder)
        if refused:
            return self._refusal(why, known, given)
        try:
            outcome = self.machine.step(name, given)
        except (UnknownName, BadArgument) as error:
            return Violation("unknown", f"{name}.unknown", str(error))
        if outcome.guard is not None:
            return self._forbidden(why, known, given, outcome.guard)
        self.touched = outcome.touched | {given[n] for n in wanted if n in ("leaf", "prefix")}
        differences = tuple(self._differences(post or {}))
        if differences:
            words = f"After “{sentence(name, given)}” the state is what the protocol says"
            return Violation("different", f"{name}.refinement", words, differences=differences)
        return None

    def _forbidden(self, why: Why, action: Action, args: Mapping[str, int], guard: Guard) -> Violation:
        """The action may not be done. A protection says more than a broken bargain: it comes first."""
        found = why.failing(action, args)
        found.sort(key=lambda failed: failed[0].kind == "expect")
        if not found:
            facts, conjunct = [Fact(guard.words)], ""
        else:
            guard, parts = found[0]
            facts = [fact for _, parts in found for part in parts for fact in why.facts(part, args)]
            conjunct = " & ".join(text(part, args, action) for part in parts)
        rule, words = rule_id(action.name, guard), f"{action.name} only when: {guard.words}"
        return Violation(_BREACH[guard.kind], rule, words, conjunct, tuple(facts), source=_line(action.words))

    def _refusal(self, why: Why, action: Action, args: Mapping[str, int]) -> Violation | None:
        """A refusal changes nothing; it needs a protection that stands in the way."""
        live = self.machine.state.marks["live"]
        if any(q.kind in ("live", "inner") and args[q.var.name] not in live for q in action.parameters):
            return None
        if why.failing(action, args):
            return None
        words = f"Refuse {call(action.name, args)} only when something stands in its way"
        facts = [
            fact
            for guard in action.guards("require")
            if not _mentions_frozen(guard)
            for fact in why.facts(guard.formula, args, 2)
        ]
        return Violation(
            "false-conflict", f"{action.name}.false-conflict", words, "", tuple(facts[:6]), source=_line(action.words)
        )

    def _differences(self, post: Mapping[int, Projection | None]) -> list[Difference]:
        found = []
        for node, observed in post.items():
            if node == ROOT_NODE:
                continue
            expected = self.machine.project(node)
            if expected is None or observed is None:
                if expected != observed:
                    told = ["in the tree" if p is not None else "gone" for p in (expected, observed)]
                    found.append(Difference(node, "node", *told))
                continue
            for field in dict.fromkeys((*expected, *observed)):
                if expected.get(field) != observed.get(field):
                    found.append(Difference(node, field, expected.get(field), observed.get(field)))
        return found


_BREACH: Mapping[GuardKind, Breach] = {
    "expect": "senseless",
    "reason": "senseless",
    "require": "unsafe",
    "never": "broken",
    "promise": "broken",
}


def rule_id(action: str, guard: Guard) -> str:
    """Stable id of a guard: `reclaim_duplicate.require.not-pinned`."""
    return f"{action}.{guard.kind}.{slug(guard.name)}"


def slug(words: str) -> str:
    """Words as part of an id, as in the ids of proof obligations."""
    return re.sub(r"[^\w.]+", "-", words).strip("-")


def _line(words: str) -> str:
    return " ".join(words.replace("-\n", "-").split())


def _mentions_frozen(guard: Guard) -> bool:
    return "frozen" in repr(guard.formula)


def policy_of(value: object) -> Policy | None:
    """`value` if it is a write policy."""
    return next((p for p in POLICIES if p == value), None)
