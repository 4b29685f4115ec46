"""Why a formula is true or false in a state: the facts that decide it, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ..model.algebra import (
    HOLDER,
    NODE,
    TRUE,
    Action,
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
    Var,
)
from ..model.state import ROOT_NODE, State
from .formula import Env, text


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is so: in words, with the nodes and operations that it is about."""

    words: str
    nodes: tuple[int, ...] = ()
    holders: tuple[int, ...] = ()


@dataclass(slots=True)
class Why:
    """Asks one state. `name_holder` says what an operation is called."""

    state: State
    frozen: dict[int, list[int]] = field(default_factory=dict)
    name_holder: Callable[[int], str] = "operation {}".format
    action: Action | None = None

    def failing(self, action: Action, args: Env) -> list[tuple[Guard, list[Formula]]]:
        """The guards that forbid the action here, each with its false conjuncts; none if the action may be done.

        Decisions come before changes, so nothing is done to find out; promises that follow changes are not looked at.
        """
        self.frozen, self.action = {}, action
        found: list[tuple[Guard, list[Formula]]] = []
        for step in action.steps:
            match step:
                case Freeze(index=index, region=region):
                    self.frozen[index] = list(self.members(region, args))
                case Guard(formula=formula):
                    if not self.holds(formula, args) and not (found and step.kind == "promise"):
                        parts = formula.parts if isinstance(formula, And) else (formula,)
                        found.append((step, [part for part in parts if not self.holds(part, args)]))
                case Assign() | Inherit() | Grow() | Cut() | Prune():
                    break
        return found

    def freeze(self, action: Action, args: Env) -> None:
        """Form all the regions of an action in this state, as if it changed nothing on the way."""
        self.frozen, self.action = {}, action
        for step in action.steps:
            if isinstance(step, Freeze):
                self.frozen[step.index] = list(self.members(step.region, args))

    def holds(self, formula: Formula, env: Env) -> bool:
        """The truth value of `formula` here."""
        match formula:
            case Const(value=value):
                return value
            case Atom(relation=relation, args=args):
                return self.state.holds(relation.name, *(_value(a, env) for a in args))
            case Ancestor(upper=upper, lower=lower):
                return self.state.is_above(_value(upper, env), _value(lower, env))
            case Same(left=left, right=right):
                return _value(left, env) == _value(right, env)
            case Not(body=body):
                return not self.holds(body, env)
            case And(parts=parts):
                return all(self.holds(part, env) for part in parts)
            case Or(parts=parts):
                return any(self.holds(part, env) for part in parts)
            case Inside(base=base, node=node):
                return _value(node, env) in self.frozen.get(base, ())
        return any(True for _ in self.witnesses(formula, env))

    def witnesses(self, formula: Formula, env: Env) -> Iterator[tuple[Formula, Env]]:
        """The instances that make a "some …" true: the body, and the values of its variables."""
        match formula:
            case Someone(relation=relation, node=node, except_for=other):
                spared = None if other is None else _value(other, env)
                for holder in sorted(self.state.pairs[relation.name].holders(_value(node, env))):
                    if holder != spared:
                        yield relation(node, _WHO), {**env, _WHO.name: holder}
            case SomeHolder(var=var, body=body):
                for holder in self.state.holders():
                    if self.holds(body, inner := {**env, var.name: holder}):
                        yield body, inner
            case SomeNode(region=region, var=var, body=body):
                for member in self.members(region, env):
                    if self.holds(body, inner := {**env, var.name: member}):
                        yield body, inner
            case _:
                raise AssertionError(formula)

    def members(self, region: Region, env: Env) -> Iterator[int]:
        """The nodes of a region here."""
        at = [_value(a, env) for a in region.args]
        nodes: Iterator[int]
        match region.kind:
            case "one":
                nodes = iter(at)
            case "held_by":
                assert region.relation is not None
                nodes = iter(sorted(self.state.pairs[region.relation.name].nodes(*at)))
            case "everywhere":
                nodes = iter(sorted(self.state.marks["live"]))
            case "frozen":
                nodes = iter(self.frozen.get(region.base, ()))
            case kind:
                walks: dict[str, Callable[..., Iterator[int]]] = {
                    "path": self.state.path, "above": self.state.above, "segment": self.state.segment,
                    "below": self.state.below, "subtree": self.state.subtree,
                }  # fmt: skip
                nodes = walks[kind](*at)
        for node in nodes:
            if region.condition == TRUE or self.holds(region.condition, {**env, region.var.name: node}):
                yield node

    def deciding(self, formula: Formula, env: Env) -> Formula:
        """The formula without the parts that do not decide its value here."""
        value = self.holds(formula, env)
        match formula:
            case Not(body=body):
                return Not(self.deciding(body, env))
            case And(parts=parts) | Or(parts=parts):
                some = [p for p in parts if self.holds(p, env) == value] if isinstance(formula, And) != value else parts
                kept = tuple(self.deciding(part, env) for part in some)
                return kept[0] if len(kept) == 1 else type(formula)(kept)
            case SomeNode(region=region, var=var, body=body) if value:
                inner = next(inner for _, inner in self.witnesses(formula, env))
                return SomeNode(region, var, self.deciding(body, inner))
        return formula

    def facts(self, formula: Formula, env: Env, limit: int = 6) -> list[Fact]:
        """What decides the value that `formula` has here, at most `limit` facts."""
        found: list[Fact] = []
        for fact in self._facts(formula, env):
            if fact not in found:
                found.append(fact)
            if len(found) == limit:
                break
        return found

    def _facts(self, formula: Formula, env: Env) -> Iterator[Fact]:
        value = self.holds(formula, env)
        match formula:
            case Const():
                return
            case Not(body=body):
                yield from self._facts(body, env)
            case And(parts=parts) | Or(parts=parts):
                decisive = isinstance(formula, And) != value
                for part in parts:
                    if not decisive or self.holds(part, env) == value:
                        yield from self._facts(part, env)
            case Someone() | SomeHolder() | SomeNode():
                if not value:
                    yield Fact(text(~formula, env, self.action))
                for body, inner in self.witnesses(formula, env):
                    yield from self._facts(body, inner)
            case Atom(relation=relation, args=args):
                yield self._atom(relation, [_value(a, env) for a in args], value)
            case Ancestor(upper=upper, lower=lower):
                up, low = _value(upper, env), _value(lower, env)
                yield Fact(f"node {up} is {'' if value else 'not '}on the path of node {low}", (up, low))
            case Same(left=left, right=right) if left.sort == NODE:
                one, other = _value(left, env), _value(right, env)
                if one != other or other != ROOT_NODE:
                    yield Fact(f"node {one} is {'' if value else 'not '}node {other}", (one, other))
                elif value:
                    yield Fact("it is the root", (one,))

    def _atom(self, relation: Relation, values: list[int], value: bool) -> Fact:
        words = relation.words if value else _negated(relation.words)
        if relation.sorts == (HOLDER,):
            return Fact(f"{self.name_holder(values[0])} {words}", (), (values[0],))
        about = f"node {values[0]}" if words.startswith(("is ", "has ")) else f"node {values[0]}:"
        if len(values) == 1:
            return Fact(f"{about} {words}", (values[0],))
        who = self.name_holder(values[1])
        kind, _, number = who.rpartition(" ")
        if words.endswith(kind) or (kind == "operation" and words.endswith(("load-back", "backup"))):
            who = number
        return Fact(f"{about} {words} {who}", (values[0],), (values[1],))


_WHO = Var("who", HOLDER)


def _value(var: Var, env: Env) -> int:
    return ROOT_NODE if var.name == "root" and var.name not in env else env[var.name]


def _negated(words: str) -> str:
    for have, have_not in (("is ", "is not "), ("has ", "has no "), ("owns ", "owns no ")):
        if words.startswith(have):
            return have_not + words.removeprefix(have).removeprefix("a ")
    return words.replace(" are ", " are not ", 1)
