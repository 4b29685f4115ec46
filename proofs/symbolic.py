"""The protocol text over z3 terms, for trees of any size.

Nodes and holders are two uninterpreted sorts. A relation of a state is a Python function from z3 terms to a z3
formula: before the
action an uninterpreted relation, after each step a closure over the one before. A property at fresh constants therefore
stays free of quantifiers, and what z3 has to instantiate is only what is assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, TypeAlias

import z3  # type: ignore[import-untyped]

from ..model.algebra import (
    NODE,
    ROOT,
    Ancestor,
    And,
    Assign,
    Atom,
    Const,
    Cut,
    Formula,
    Freeze,
    Grow,
    Guard,
    Inherit,
    Inside,
    Not,
    Or,
    Prune,
    Region,
    Relation,
    Same,
    SomeHolder,
    SomeNode,
    Someone,
    Sort,
    Step,
    Var,
)
from ..model.vocabulary import BY_BIRTH

NODE_SORT = z3.DeclareSort("Node")
HOLDER_SORT = z3.DeclareSort("Holder")
ROOT_TERM = z3.Const("root", NODE_SORT)

Term: TypeAlias = Any
"""A z3 term (z3 has no type stubs: this is where `Any` is kept)."""
Truth: TypeAlias = Any
"""A z3 formula."""
Reading = Callable[..., Truth]
Scope = Mapping[str, Term]


def sort_of(sort: Sort) -> z3.SortRef:
    """The z3 sort of nodes or holders."""
    return NODE_SORT if sort == NODE else HOLDER_SORT


def constant(var: Var, suffix: str = "") -> Term:
    """A z3 constant for a variable of the text; the root is always the same one."""
    return ROOT_TERM if var == ROOT else z3.Const(var.name + suffix, sort_of(var.sort))


@dataclass(frozen=True, slots=True)
class State:
    """A symbolic state: what each relation says, and who is above whom. `names` numbers the variables that are bound
    while it or a state that follows it is read: none may capture another, and the same text gives the same names.
    """

    relations: Mapping[str, Reading]
    ancestor: Reading
    names: Iterator[int] = field(default_factory=count, compare=False)

    def with_relation(self, relation: Relation, reading: Reading) -> State:
        """The same state but for one relation."""
        return replace(self, relations={**self.relations, relation.name: reading})


def arbitrary_state(relations: tuple[Relation, ...]) -> State:
    """A state about which nothing is known."""
    table: dict[str, Reading] = {}
    for relation in relations:
        table[relation.name] = z3.Function(relation.name, *(sort_of(s) for s in relation.sorts), z3.BoolSort())
    return State(table, z3.Function("ancestor", NODE_SORT, NODE_SORT, z3.BoolSort()))


def initial_state(relations: tuple[Relation, ...]) -> State:
    """Nothing but the root, which counts as resident with its bytes on both tiers. Who will be of which namespace, once
    born, is open.
    """
    arbitrary = arbitrary_state(BY_BIRTH).relations
    at_root = {"live", "device.full", "host.full", "device_arrived.full", "host_arrived.full"}

    def reading(relation: Relation) -> Reading:
        if relation.name in at_root:
            return lambda n: n == ROOT_TERM
        if relation in BY_BIRTH:
            return arbitrary[relation.name]
        return lambda *_: z3.BoolVal(False)

    return State({r.name: reading(r) for r in relations}, lambda upper, lower: upper == lower)


@dataclass(frozen=True, slots=True)
class Frozen:
    """A region as it was when it was formed: a membership test, and its only possible member where there is just
    one.
    """

    member: Reading
    only: Term | None


class Reader:
    """Gives formulas their meaning in one state."""

    def __init__(self, state: State, frozen: Mapping[int, Frozen]) -> None:
        self.state = state
        self.frozen = frozen

    def formula(self, formula: Formula, scope: Scope) -> Truth:
        """The z3 formula that says the same."""
        match formula:
            case Const(value=value):
                return z3.BoolVal(value)
            case Atom(relation=relation, args=args):
                return self.state.relations[relation.name](*(self.term(a, scope) for a in args))
            case Ancestor(upper=upper, lower=lower):
                return self.state.ancestor(self.term(upper, scope), self.term(lower, scope))
            case Same(left=left, right=right):
                return self.term(left, scope) == self.term(right, scope)
            case Not(body=body):
                return z3.Not(self.formula(body, scope))
            case And(parts=parts):
                return z3.And(*(self.formula(x, scope) for x in parts))
            case Or(parts=parts):
                return z3.Or(*(self.formula(x, scope) for x in parts))
            case Someone(relation=relation, node=node, except_for=other):
                x = self._fresh(Var("x", "holder"))
                holds = self.state.relations[relation.name](self.term(node, scope), x)
                return z3.Exists([x], holds if other is None else z3.And(x != self.term(other, scope), holds))
            case SomeHolder(var=var, body=body):
                x = self._fresh(var)
                return z3.Exists([x], self.formula(body, {**scope, var.name: x}))
            case SomeNode(region=region, var=var, body=body):
                inside = self.region(region, scope)
                if inside.only is not None:
                    return z3.And(inside.member(inside.only), self.formula(body, {**scope, var.name: inside.only}))
                m = self._fresh(var)
                return z3.Exists([m], z3.And(inside.member(m), self.formula(body, {**scope, var.name: m})))
            case Inside(base=base, node=node):
                return self.frozen[base].member(self.term(node, scope))
        raise AssertionError(formula)

    def region(self, region: Region, scope: Scope) -> Frozen:
        """The membership test of a region in this state."""
        args = [self.term(a, scope) for a in region.args]
        above, relations = self.state.ancestor, self.state.relations
        only: Term | None = None
        base: Reading
        match region.kind:
            case "one":
                base, only = (lambda m: m == args[0]), args[0]
            case "path":
                base = lambda m: above(m, args[0])  # noqa: E731
            case "above":
                base = lambda m: z3.And(above(m, args[0]), m != args[0])  # noqa: E731
            case "segment":
                base = lambda m: z3.And(above(m, args[0]), above(args[1], m))  # noqa: E731
            case "subtree":
                base = lambda m: above(args[0], m)  # noqa: E731
            case "below":
                base = lambda m: z3.And(above(args[0], m), m != args[0])  # noqa: E731
            case "held_by":
                assert region.relation is not None
                holds = relations[region.relation.name]
                base = lambda m: holds(m, args[0])  # noqa: E731
            case "everywhere":
                base = relations["live"]
            case "frozen":
                base, only = self.frozen[region.base].member, self.frozen[region.base].only
        if isinstance(region.condition, Const):
            return Frozen(base, only)
        return Frozen(lambda m: z3.And(base(m), self.formula(region.condition, {**scope, region.var.name: m})), only)

    @staticmethod
    def term(var: Var, scope: Scope) -> Term:
        """The z3 term of a variable."""
        return ROOT_TERM if var == ROOT else scope[var.name]

    def _fresh(self, var: Var) -> Term:
        return z3.Const(f"{var.name}!{next(self.state.names)}", sort_of(var.sort))


class Run:
    """One action, step by step, on a symbolic state."""

    def __init__(self, state: State, scope: Scope) -> None:
        self.state = state
        self.scope = scope
        self.frozen: dict[int, Frozen] = {}

    def read(self, formula: Formula) -> Truth:
        """A formula in the state reached so far."""
        return Reader(self.state, dict(self.frozen)).formula(formula, self.scope)

    def take(self, step: Step) -> None:
        """Apply one step; guards change nothing."""
        reader = Reader(self.state, dict(self.frozen))
        before = self.state
        match step:
            case Guard():
                pass
            case Freeze(index=index, region=region):
                self.frozen[index] = reader.region(region, self.scope)
            case Assign(relation=relation, value=value, region=region, holder=holder):
                old = before.relations[relation.name]
                change = self._changed(reader, region, holder)
                self.state = before.with_relation(relation, _assigned(old, change, value))
            case Inherit(relation=relation, node=node, heir=heir):
                old = before.relations[relation.name]
                source, target = reader.term(node, self.scope), reader.term(heir, self.scope)
                self.state = before.with_relation(relation, _inherited(old, source, target))
            case Grow(leaf=leaf, parent=parent):
                self.state = replace(
                    before, ancestor=_grown(before.ancestor, self.scope[leaf.name], reader.term(parent, self.scope))
                )
            case Cut(node=node, prefix=prefix):
                self.state = replace(
                    before, ancestor=_cut(before.ancestor, self.scope[node.name], self.scope[prefix.name])
                )
            case Prune(region=region):
                gone = reader.region(region, self.scope).member
                self.state = replace(before, ancestor=_pruned(before.ancestor, gone))

    def _changed(self, reader: Reader, region: Region | None, holder: Var | None) -> Reading:
        who = None if holder is None else self.scope[holder.name]
        if region is None:
            return lambda h: h == who
        inside = reader.region(region, self.scope).member
        if who is None:
            return inside
        return lambda m, h: z3.And(h == who, inside(m))


def _assigned(old: Reading, change: Reading, value: bool) -> Reading:
    if value:
        return lambda *args: z3.Or(old(*args), change(*args))
    return lambda *args: z3.And(old(*args), z3.Not(change(*args)))


def _inherited(old: Reading, source: Term, heir: Term) -> Reading:
    return lambda n, *rest: z3.If(n == heir, old(source, *rest), old(n, *rest))


def _grown(old: Reading, leaf: Term, parent: Term) -> Reading:
    return lambda upper, lower: z3.If(
        lower == leaf, z3.Or(upper == leaf, old(upper, parent)), z3.And(upper != leaf, old(upper, lower))
    )


def _cut(old: Reading, node: Term, prefix: Term) -> Reading:
    return lambda upper, lower: z3.If(
        lower == prefix,
        z3.Or(upper == prefix, z3.And(upper != node, old(upper, node))),
        z3.If(upper == prefix, old(node, lower), old(upper, lower)),
    )


def _pruned(old: Reading, gone: Reading) -> Reading:
    return lambda upper, lower: z3.And(
        old(upper, lower), z3.Or(upper == lower, z3.And(z3.Not(gone(upper)), z3.Not(gone(lower))))
    )
