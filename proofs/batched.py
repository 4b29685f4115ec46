"""The protocol text over the bits of a state: one fold of an action's steps for each choice of arguments and each
tree.

What the concrete interpreter does to a state and the symbolic one to a term, this one does to boolean expressions:
afterwards each ground atom is an expression over the bits before, each guard an expression. Quantifiers and regions
are written out over the universe; what depends on the tree alone is a constant, for states are grouped by their
tree (see `shape.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..model.algebra import (
    HOLDER,
    NODE,
    ROOT,
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
    GuardKind,
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
    Step,
    Var,
)
from .bits import FALSE, TRUE, Bits
from .layout import STRUCTURE, Layout
from .obligations import FAILURES
from .shape import Shape

Scope = dict[str, int]
Members = dict[int, int]
"""A region: node -> literal of its being a member; who is missing is not."""

DECISIONS: tuple[GuardKind, ...] = ("expect", "require", "reason")


class Run:
    """One action, step by step, on all states of one shape at once.

    Args:
        known: bits whose value is taken for granted (because a guard has been seen to demand it).
    """

    def __init__(
        self,
        bits: Bits,
        layout: Layout,
        shape: Shape,
        scope: Mapping[str, int],
        known: Mapping[int, bool] | None = None,
    ) -> None:
        self.bits = bits
        self.layout = layout
        self.shape = shape
        self.scope = dict(scope)
        self.known = known or {}
        self.changed: dict[int, int] = {}
        """Bit number -> literal of its new value."""
        self.frozen: dict[int, Members] = {}
        self.given = TRUE
        """The condition under which the tree changes as in `shape`; TRUE unless a region of the tree depends on
        bits.
        """

    def fork(self) -> Run:
        """A copy that can go its own way."""
        twin = Run(self.bits, self.layout, self.shape, self.scope, self.known)
        twin.changed, twin.frozen, twin.given = dict(self.changed), dict(self.frozen), self.given
        return twin

    # Reading
    def atom(self, name: str, args: tuple[int, ...]) -> int:
        """The literal of a ground atom now."""
        if name == STRUCTURE:
            return TRUE if self.shape.is_live(args[0]) else FALSE
        bit = self.layout.place.get((name, args))
        if bit is None:
            return FALSE
        found = self.changed.get(bit)
        return self.before(bit) if found is None else found

    def before(self, bit: int) -> int:
        """The literal of a bit before the action."""
        value = self.known.get(bit)
        return self.bits.var(bit) if value is None else TRUE if value else FALSE

    def read(self, formula: Formula, scope: Scope) -> int:
        """The literal of a formula now."""
        bits = self.bits
        match formula:
            case Atom(relation=relation, args=args):
                return self.atom(relation.name, tuple(_at(a, scope) for a in args))
            case Not(body=body):
                return self.read(body, scope) ^ 1
            case And(parts=parts):
                found = TRUE
                for part in parts:
                    found = bits.both(found, self.read(part, scope))
                    if found == FALSE:
                        break
                return found
            case Or(parts=parts):
                found = FALSE
                for part in parts:
                    found = bits.either(found, self.read(part, scope))
                    if found == TRUE:
                        break
                return found
            case Const(value=value):
                return TRUE if value else FALSE
            case Ancestor(upper=upper, lower=lower):
                return TRUE if self.shape.above(_at(upper, scope), _at(lower, scope)) else FALSE
            case Same(left=left, right=right):
                return TRUE if _at(left, scope) == _at(right, scope) else FALSE
            case Someone(relation=relation, node=node, except_for=other):
                but = -1 if other is None else _at(other, scope)
                at = _at(node, scope)
                return bits.any(self.atom(relation.name, (at, h)) for h in range(self.layout.holders) if h != but)
            case SomeHolder(var=var, body=body):
                return bits.any(self.read(body, {**scope, var.name: h}) for h in range(self.layout.holders))
            case SomeNode(region=region, var=var, body=body):
                return bits.any(
                    bits.both(inside, self.read(body, {**scope, var.name: m}))
                    for m, inside in self.members(region, scope).items()
                )
            case Inside(base=base, node=node):
                return self.frozen[base].get(_at(node, scope), FALSE)
        raise AssertionError(formula)

    def members(self, region: Region, scope: Scope) -> Members:
        """Who is in a region now."""
        shape = self.shape
        args = [_at(a, scope) for a in region.args]
        found: Members
        match region.kind:
            case "one":
                found = {args[0]: TRUE}
            case "path":
                found = {m: TRUE for m in shape.nodes if shape.above(m, args[0])}
            case "above":
                found = {m: TRUE for m in shape.nodes if m != args[0] and shape.above(m, args[0])}
            case "segment":
                found = {m: TRUE for m in shape.nodes if shape.above(m, args[0]) and shape.above(args[1], m)}
            case "subtree":
                found = {m: TRUE for m in shape.nodes if shape.above(args[0], m)}
            case "below":
                found = {m: TRUE for m in shape.nodes if m != args[0] and shape.above(args[0], m)}
            case "held_by":
                assert region.relation is not None
                found = {m: self.atom(region.relation.name, (m, args[0])) for m in shape.nodes}
            case "everywhere":
                found = {m: TRUE for m in shape.nodes if shape.is_live(m)}
            case "frozen":
                found = self.frozen[region.base]
        if not isinstance(region.condition, Const) or not region.condition.value:
            found = {
                m: self.bits.both(inside, self.read(region.condition, {**scope, region.var.name: m}))
                for m, inside in found.items()
                if inside != FALSE
            }
        return {m: inside for m, inside in found.items() if inside != FALSE}

    # Changing
    def take(self, step: Step) -> list[Run]:
        """Apply one step; guards change nothing. More than one run comes back where the tree's change depends on
        bits.
        """
        match step:
            case Guard():
                pass
            case Freeze(index=index, region=region):
                self.frozen[index] = self.members(region, self.scope)
            case Assign(relation=relation, value=value, region=region, holder=holder):
                who = () if holder is None else (_at(holder, self.scope),)
                if region is None:
                    self._set(relation.name, who, TRUE, value)
                elif relation.name == STRUCTURE:
                    return [run._enlist(nodes, value) for run, nodes in self._decided(self.members(region, self.scope))]
                else:
                    for node, inside in self.members(region, self.scope).items():
                        self._set(relation.name, (node, *who), inside, value)
            case Inherit(relation=relation, node=node, heir=heir):
                self._inherit(relation, _at(node, self.scope), _at(heir, self.scope))
            case Grow(leaf=leaf, parent=parent):
                self.shape = self.shape.grown(_at(leaf, self.scope), _at(parent, self.scope))
            case Cut(node=node, prefix=prefix):
                self.shape = self.shape.cut(_at(node, self.scope), _at(prefix, self.scope))
            case Prune(region=region):
                return [run._prune(nodes) for run, nodes in self._decided(self.members(region, self.scope))]
        return [self]

    def _set(self, name: str, args: tuple[int, ...], inside: int, value: bool) -> None:
        bit = self.layout.place.get((name, args))
        if bit is not None:
            old = self.atom(name, args)
            self.changed[bit] = self.bits.either(old, inside) if value else self.bits.both(old, inside ^ 1)

    def _inherit(self, relation: Relation, node: int, heir: int) -> None:
        rest = [(h,) for h in range(self.layout.holders)] if relation.sorts == (NODE, HOLDER) else [()]
        for more in rest:
            bit = self.layout.place.get((relation.name, (heir, *more)))
            if bit is not None:
                self.changed[bit] = self.atom(relation.name, (node, *more))

    def _decided(self, members: Members) -> Iterator[tuple[Run, list[int]]]:
        open_ones = [m for m, inside in members.items() if inside != TRUE]
        for choice in range(1 << len(open_ones)):
            run = self if choice == (1 << len(open_ones)) - 1 else self.fork()
            nodes = [m for m, inside in members.items() if inside == TRUE]
            for i, node in enumerate(open_ones):
                chosen = choice >> i & 1
                run.given = self.bits.both(run.given, members[node] ^ (not chosen))
                if chosen:
                    nodes.append(node)
            if run.given != FALSE:
                yield run, nodes

    def _enlist(self, nodes: list[int], value: bool) -> Run:
        for node in nodes:
            self.shape = self.shape.with_live(node, value)
        return self

    def _prune(self, nodes: list[int]) -> Run:
        self.shape = self.shape.pruned(sum(1 << n for n in nodes))
        return self


def _at(var: Var, scope: Mapping[str, int]) -> int:
    return 0 if var == ROOT else scope[var.name]


@dataclass(slots=True)
class Branch:
    """One way in which the tree can change: the condition for it, the tree afterwards, the new value of each
    changed bit.
    """

    given: int
    shape: Shape
    changed: dict[int, int]


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule of a step that does not hold.

    `kind` is `promise` or `never` for the guard of that kind, `false conflict` for a `require` that refuses without
    its danger, `failure` for bytes that count although the operation failed, `foreign` for what another operation
    holds.
    """

    kind: str
    name: str
    words: str


@dataclass(slots=True)
class Ground:
    """An action with its arguments, on the states of one shape, as expressions over their bits.

    Attributes:
        fires: the action happens.
        refused: the caller kept its side, and a `require` forbids it.
        broken: (expression, what is broken) for each promise, each assertion, and each refusal without danger.
        branches: what it does, for the states where it fires.
    """

    action: Action
    args: tuple[int, ...]
    fires: int
    refused: int
    broken: list[tuple[int, Broken]] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)


def ground(
    bits: Bits, layout: Layout, shape: Shape, action: Action, args: tuple[int, ...], fits: int = TRUE
) -> Ground | None:
    """The action with these arguments; None if it is impossible there. `fits`: the arguments are of the right kind."""
    scope = {q.var.name: value for q, value in zip(action.parameters, args, strict=True)}
    run = Run(bits, layout, shape, scope)
    decisions = [i for i, s in enumerate(action.steps) if isinstance(s, Guard) and s.kind in DECISIONS]
    last = decisions[-1] if decisions else -1
    found = Ground(action, args, fits, FALSE)
    prefix, expected, allowed = fits, fits, TRUE
    for step in action.steps[: last + 1]:
        if isinstance(step, Guard):
            holds = run.read(step.formula, run.scope)
            if step.kind in ("never", "promise"):
                _note(bits, found, bits.both(prefix, holds ^ 1), Broken(step.kind, step.name, step.words))
            elif step.kind == "require":
                if step.danger is not None:
                    unjust = bits.all((prefix, holds ^ 1, run.read(step.danger, run.scope) ^ 1))
                    _note(bits, found, unjust, Broken("false conflict", step.name, step.words))
                allowed = bits.both(allowed, holds)
            else:
                expected = bits.both(expected, holds)
            prefix = bits.both(prefix, holds)
            if expected == FALSE:
                return None
        else:
            runs = run.take(step)
            if len(runs) != 1:
                raise NotImplementedError(f"{action.name} decides after a change of the tree that depends on the state")
            run = runs[0]
    found.fires = bits.both(expected, allowed)
    found.refused = bits.both(expected, allowed ^ 1)
    if found.fires != FALSE:
        _effects(bits, layout, shape, found, scope, last)
    return found


def _note(bits: Bits, found: Ground, literal: int, broken: Broken) -> None:
    if literal != FALSE:
        found.broken.append((literal, broken))


def _effects(bits: Bits, layout: Layout, shape: Shape, found: Ground, scope: Scope, last: int) -> None:
    """Run the action again, now that the guards' conjuncts are known to hold: most of what it does becomes
    constant.
    """
    first = Run(bits, layout, shape, scope, bits.implied(found.fires))
    first.given = found.fires
    runs = [first]
    for i, step in enumerate(found.action.steps):
        if isinstance(step, Guard):
            if i > last:
                for run in runs:
                    fails = run.read(step.formula, run.scope) ^ 1
                    _note(bits, found, bits.both(run.given, fails), Broken(step.kind, step.name, step.words))
                    run.given = bits.both(run.given, fails ^ 1)
        else:
            runs = [new for run in runs for new in run.take(step)]
    for run in runs:
        for literal, broken in _frame(found.action, run):
            _note(bits, found, bits.both(run.given, literal), broken)
    found.branches = [Branch(r.given, r.shape, r.changed) for r in runs if r.given != FALSE]


def _frame(action: Action, run: Run) -> Iterator[tuple[int, Broken]]:
    """What the action must leave alone, where it does not."""
    bits = run.bits
    own = {run.scope[q.var.name] for q in action.parameters if q.var.sort == HOLDER}
    fresh = {run.scope[q.var.name] for q in action.parameters if q.kind == "fresh"}
    for bit, new in run.changed.items():
        name, args = run.layout.atoms[bit]
        old = run.before(bit)
        sorts = run.layout.sorts[name]
        if HOLDER in sorts and args[-1] not in own and not (sorts[0] == NODE and args[0] in fresh):
            differs = bits.either(bits.both(new, old ^ 1), bits.both(new ^ 1, old))
            yield differs, Broken("foreign", f"foreign {name}", "what other operations hold stays as it was")
        if action.name in FAILURES and name.startswith(("device_arrived.", "host_arrived.", "stored")):
            words = "an operation that fails makes no bytes count as arrived or stored"
            yield bits.both(new, old ^ 1), Broken("failure", f"failure {name}", words)
