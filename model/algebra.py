"""The small language that the protocol is written in: formulas over relations, and regions of nodes.

A protocol action is run once, as plain Python, and leaves behind a list of steps built from these terms. Each
interpreter (concrete, symbolic, batched) and each printer is then one fold over a handful of term classes, so none of
them can drift from the text, and a guard that fails can be shown in words.

Two sorts exist: `NODE`, a node of the radix tree, and `HOLDER`, an operation that owns something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

Sort = Literal["node", "holder"]
NODE: Sort = "node"
HOLDER: Sort = "holder"


@dataclass(frozen=True, slots=True)
class Var:
    """A variable of one sort: an action's argument, or one bound by a quantifier or a region."""

    name: str
    sort: Sort


ROOT = Var("root", NODE)
"""The root of the tree: always live, on every tier, never freed."""


class Formula:
    """A statement about one state. Combine with `&`, `|`, `~`; there is no branching on it."""

    __slots__ = ()

    def __and__(self, other: Formula) -> Formula:
        return And((*_parts(And, self), *_parts(And, other)))

    def __or__(self, other: Formula) -> Formula:
        return Or((*_parts(Or, self), *_parts(Or, other)))

    def __invert__(self) -> Formula:
        return self.body if isinstance(self, Not) else Not(self)

    def implies(self, other: Formula) -> Formula:
        """`self` only where `other` holds too."""
        return ~self | other

    def __bool__(self) -> bool:
        raise TypeError(
            "a formula has no truth value of its own: an interpreter gives it one; use & | ~, not and/or/not"
        )


def _parts(kind: type[And] | type[Or], formula: Formula) -> tuple[Formula, ...]:
    return formula.parts if isinstance(formula, kind) else (formula,)


@dataclass(frozen=True, slots=True)
class Const(Formula):
    """True or false in every state."""

    value: bool


TRUE = Const(True)
FALSE = Const(False)


@dataclass(frozen=True, slots=True)
class Relation:
    """A named relation of the state. Calling it with variables makes an `Atom`.

    `closed_upwards` says that a property proves: where it holds of a node, it holds of the node's ancestors. The
    concrete interpreter may then stop a walk downwards at the first node where it does not hold.
    """

    name: str
    sorts: tuple[Sort, ...]
    words: str
    closed_upwards: bool = False

    def __call__(self, *args: Var) -> Formula:
        """The statement that the relation holds of `args`."""
        if tuple(a.sort for a in args) != self.sorts:
            raise TypeError(f"{self.name} takes ({', '.join(self.sorts)}), got ({', '.join(a.sort for a in args)})")
        return Atom(self, args)


@dataclass(frozen=True, slots=True)
class Atom(Formula):
    """`relation` holds of `args`."""

    relation: Relation
    args: tuple[Var, ...]


@dataclass(frozen=True, slots=True)
class Ancestor(Formula):
    """`upper` lies on the way from `lower` to the root, both ends included."""

    upper: Var
    lower: Var


@dataclass(frozen=True, slots=True)
class Same(Formula):
    """Both variables name the same node, or the same holder."""

    left: Var
    right: Var


@dataclass(frozen=True, slots=True)
class Not(Formula):
    """`body` does not hold."""

    body: Formula


@dataclass(frozen=True, slots=True)
class And(Formula):
    """All parts hold."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Or(Formula):
    """At least one part holds."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Someone(Formula):
    """Some holder, other than `except_for`, stands in `relation` to `node`."""

    relation: Relation
    node: Var
    except_for: Var | None = None


@dataclass(frozen=True, slots=True)
class SomeHolder(Formula):
    """Some holder `var` makes `body` true."""

    var: Var
    body: Formula


@dataclass(frozen=True, slots=True)
class SomeNode(Formula):
    """Some node of `region`, called `var`, makes `body` true."""

    region: Region
    var: Var
    body: Formula


@dataclass(frozen=True, slots=True)
class Inside(Formula):
    """`node` was a member when frozen region number `base` was formed."""

    base: int
    node: Var


RegionKind = Literal["one", "path", "above", "segment", "subtree", "below", "held_by", "everywhere", "frozen"]

_MEMBER = Var("m", NODE)
Predicate = Callable[[Var], Formula]


@dataclass(frozen=True, slots=True)
class Region:
    """A set of nodes: those of `kind` (seen from `args`) for which `condition`, a formula about `var`, holds.

    | kind | args | nodes |
    |---|---|---|
    | one | n | n itself |
    | path | n | n and all its ancestors, the root included |
    | above | n | the ancestors of n without n |
    | segment | n, top | from n up to `top`, both included |
    | subtree | n | n and everything below it |
    | below | n | everything below n, without n |
    | held_by | h (and `relation`) | the nodes that h stands in `relation` to |
    | everywhere | – | every live node |
    | frozen | – | the members that region `base` had when the transaction formed it |
    """

    kind: RegionKind
    args: tuple[Var, ...] = ()
    relation: Relation | None = None
    base: int = -1
    var: Var = _MEMBER
    condition: Formula = TRUE

    def where(self, predicate: Predicate) -> Region:
        """The nodes of this region for which `predicate` holds as well."""
        extra = predicate(self.var)
        condition = extra if self.condition == TRUE else self.condition & extra
        return Region(self.kind, self.args, self.relation, self.base, self.var, condition)


def one(node: Var) -> Region:
    """The region of `node` alone."""
    return Region("one", (node,), var=_member(node))


def path(node: Var) -> Region:
    """From `node` to the root, both included."""
    return Region("path", (node,), var=_member(node))


def above(node: Var) -> Region:
    """The ancestors of `node`, without it."""
    return Region("above", (node,), var=_member(node))


def segment(node: Var, top: Var) -> Region:
    """From `node` up to its ancestor `top`, both included."""
    return Region("segment", (node, top), var=_member(node, top))


def subtree(node: Var) -> Region:
    """`node` and everything below it."""
    return Region("subtree", (node,), var=_member(node))


def below(node: Var) -> Region:
    """Everything below `node`, without it."""
    return Region("below", (node,), var=_member(node))


def held_by(relation: Relation, holder: Var) -> Region:
    """The nodes that `holder` stands in `relation` to."""
    return Region("held_by", (holder,), relation)


def everywhere() -> Region:
    """Every live node."""
    return Region("everywhere")


def _member(*args: Var) -> Var:
    """A bound variable that does not capture `args` (regions nest at most a few deep)."""
    taken = {a.name for a in args}
    return next(v for v in (Var(name, NODE) for name in ("m", "k", "j", "i")) if v.name not in taken)


def someone(relation: Relation, node: Var, *, except_for: Var | None = None) -> Formula:
    """Some holder (other than `except_for`) stands in `relation` to `node`."""
    return Someone(relation, node, except_for)


def some_holder(predicate: Predicate) -> Formula:
    """Some holder satisfies `predicate`."""
    var = Var("x", HOLDER)
    return SomeHolder(var, predicate(var))


def some(region: Region, predicate: Predicate | None = None) -> Formula:
    """Some node of `region` satisfies `predicate` (any node, without one)."""
    return SomeNode(region, region.var, TRUE if predicate is None else predicate(region.var))


def no(region: Region, predicate: Predicate | None = None) -> Formula:
    """No node of `region` satisfies `predicate`; without one, the region is empty."""
    return ~some(region, predicate)


def every(region: Region, predicate: Predicate) -> Formula:
    """Every node of `region` satisfies `predicate`."""
    return ~SomeNode(region, region.var, ~predicate(region.var))


def same(left: Var, right: Var) -> Formula:
    """Both name the same thing."""
    if left.sort != right.sort:
        raise TypeError(f"{left.name} is a {left.sort} and {right.name} a {right.sort}: they cannot be the same")
    return Same(left, right)


def ancestor(upper: Var, lower: Var) -> Formula:
    """`upper` is `lower` or one of its ancestors."""
    return Ancestor(upper, lower)


def all_of(*parts: Formula) -> Formula:
    """Every part holds (true of none)."""
    return TRUE if not parts else parts[0] if len(parts) == 1 else And(parts)


def any_of(*parts: Formula) -> Formula:
    """At least one part holds (false of none)."""
    return FALSE if not parts else parts[0] if len(parts) == 1 else Or(parts)


def conjuncts(formula: Formula) -> Iterator[Formula]:
    """The parts of a conjunction, the formula itself where it is none."""
    if isinstance(formula, And):
        for part in formula.parts:
            yield from conjuncts(part)
    elif formula != TRUE:
        yield formula


def frozen_in(term: Formula | Region) -> Iterator[int]:
    """The numbers of the frozen regions that a formula or region mentions."""
    match term:
        case Region(base=base, condition=condition):
            if base >= 0:
                yield base
            yield from frozen_in(condition)
        case Inside(base=base):
            yield base
        case Not(body=body) | SomeHolder(body=body):
            yield from frozen_in(body)
        case And(parts=parts) | Or(parts=parts):
            for part in parts:
                yield from frozen_in(part)
        case SomeNode(region=region, body=body):
            yield from frozen_in(region)
            yield from frozen_in(body)
        case _:
            pass


# Steps --------------------------------------------------------------------------------------------------------------

GuardKind = Literal["expect", "require", "reason", "never", "promise"]
"""What a guard is for.

expect  the caller's side of the bargain: without it the action makes no sense
require a protection the code respects: it refuses, and `danger` says what it would have run into
reason  a refusal must have this reason: otherwise a safe operation was turned down
never   an assertion of real code: it must not be able to fire
promise an obligation of the step itself (nobody uses what is freed, bytes read have arrived, …): it must always hold
"""


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition at this point of the action. `name` is short and stable, unique within the action."""

    kind: GuardKind
    name: str
    formula: Formula
    words: str
    danger: Formula | None = None


@dataclass(frozen=True, slots=True)
class Freeze:
    """Remember the members that `region` has now, as region number `index`."""

    index: int
    region: Region


@dataclass(frozen=True, slots=True)
class Assign:
    """`relation` becomes `value`: for the nodes of `region` (and `holder`, if the relation has one), or of `holder`
    alone.
    """

    relation: Relation
    value: bool
    region: Region | None = None
    holder: Var | None = None


@dataclass(frozen=True, slots=True)
class Inherit:
    """What holds of `node` in `relation` now holds of `heir` too."""

    relation: Relation
    node: Var
    heir: Var


@dataclass(frozen=True, slots=True)
class Grow:
    """`leaf` becomes a new child of `parent`."""

    leaf: Var
    parent: Var


@dataclass(frozen=True, slots=True)
class Cut:
    """`prefix` is put between `node` and its parent."""

    node: Var
    prefix: Var


@dataclass(frozen=True, slots=True)
class Prune:
    """The nodes of `region` leave the tree."""

    region: Region


Step = Guard | Freeze | Assign | Inherit | Grow | Cut | Prune

ParameterKind = Literal["live", "inner", "fresh", "busy", "idle", "any"]
"""live: a node in the tree, possibly the root; inner: not the root; fresh: a node name not in use; busy, idle:
holders.
"""


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument of an action and what is expected of it."""

    var: Var
    kind: ParameterKind


@dataclass(frozen=True, slots=True)
class Action:
    """One atomic transition: its arguments, and the steps that its text left behind."""

    name: str
    words: str
    parameters: tuple[Parameter, ...]
    steps: tuple[Step, ...] = field(repr=False)

    def guards(self, *kinds: GuardKind) -> Iterator[Guard]:
        """Its guards of the given kinds, in order."""
        for step in self.steps:
            if isinstance(step, Guard) and step.kind in kinds:
                yield step
