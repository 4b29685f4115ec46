"""Any state that satisfies every property: what an inductive proof starts from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count

import z3  # type: ignore[import-untyped]

from ..model.algebra import Formula
from ..model.instance import Instance
from ..model.properties import Property
from ..model.protocol import Setting
from .symbolic import Reader, Reading, State, Term, Truth, arbitrary_state, constant


@dataclass(frozen=True, slots=True)
class Assume:
    """From here on this may be relied on. Properties of the state before carry their id."""

    formula: Truth
    name: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """What all scripts of an instance share: any state that satisfies every property, and each property's claim about
    it with the names of the relations that it mentions. An action that leaves those alone leaves the claim as it is.
    """

    rules: tuple[Property, ...]
    state: State
    axioms: tuple[Assume, ...]
    claims: tuple[tuple[frozenset[str], Truth], ...]


_KNOWN: dict[Setting, Known] = {}


def known(instance: Instance) -> Known:
    """What the scripts of this instance share, put together once for each set of properties."""
    found = _KNOWN.get(instance.setting)
    if found is None or found.rules is not instance.properties:
        found = _KNOWN[instance.setting] = _learn(instance)
    return found


def _learn(instance: Instance) -> Known:
    state = arbitrary_state(instance.relations)
    axioms, claims = [], []
    for rule in instance.properties:
        bound = [constant(v, "!q") for v in rule.variables]
        body = Reader(state, {}).formula(rule.formula, {v.name: c for v, c in zip(rule.variables, bound, strict=True)})
        axioms.append(Assume(z3.ForAll(bound, body) if bound else body, rule.id))
        mentioned: set[str] = set()
        relations = {r.name: _heard(r.name, state.relations[r.name], mentioned) for r in instance.relations}
        listening = State(relations, _heard(_ANCESTOR, state.ancestor, mentioned), state.names)
        claim = at_constants(rule, listening)
        claims.append((frozenset(mentioned), claim))
    return Known(instance.properties, state, tuple(axioms), tuple(claims))


def inductive_state(instance: Instance) -> tuple[State, tuple[Assume, ...]]:
    """Any state that satisfies every property, with names of its own."""
    found = known(instance)
    return replace(found.state, names=count()), found.axioms


_ANCESTOR = "ancestor"


def _heard(name: str, reading: Reading, mentioned: set[str]) -> Reading:
    def listen(*args: Term) -> Truth:
        mentioned.add(name)
        return reading(*args)

    return listen


def reading_of(state: State, name: str) -> Reading:
    """A relation of a state by name, or its ancestry."""
    return state.ancestor if name == _ANCESTOR else state.relations[name]


def at_constants(rule: Property, state: State, part: Formula | None = None) -> Truth:
    """A property, or a part of one, of the constants that stand for its variables."""
    scope = {v.name: constant(v, "!s") for v in rule.variables}
    return Reader(state, {}).formula(rule.formula if part is None else part, scope)
