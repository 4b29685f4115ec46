"""The terms of the algebra as Python source: what the reference machine runs.

A formula becomes an expression over a `State` called `s`, a region an iterable of node ids, an action a function that
returns the number of the first guard that fails, or -1. Arguments keep their names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .algebra import (
    HOLDER,
    NODE,
    ROOT,
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
    Step,
    Var,
    conjuncts,
)
from .state import State


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes terms as source. Every relation becomes a local name, bound once for each state."""

    relations: tuple[Relation, ...]

    def formula(self, formula: Formula) -> str:
        """An expression that is true where the formula holds."""
        match formula:
            case Const(value=value):
                return str(value)
            case Atom(relation=relation, args=args):
                if len(args) == 1:
                    return f"{_term(args[0])} in {_name(relation)}"
                return f"{_name(relation)}.has({_term(args[0])}, {_term(args[1])})"
            case Ancestor(upper=upper, lower=lower):
                return f"s.is_above({_term(upper)}, {_term(lower)})"
            case Same(left=left, right=right):
                return f"{_term(left)} == {_term(right)}"
            case Not(body=body):
                return f"not ({self.formula(body)})"
            case And(parts=parts):
                return "(" + " and ".join(f"({self.formula(x)})" for x in parts) + ")"
            case Or(parts=parts):
                return "(" + " or ".join(f"({self.formula(x)})" for x in parts) + ")"
            case Someone(relation=relation, node=node, except_for=None):
                return f"{_term(node)} in {_name(relation)}.by_node"
            case Someone(relation=relation, node=node, except_for=Var() as other):
                return f"any(x != {_term(other)} for x in {_name(relation)}.holders({_term(node)}))"
            case SomeHolder(var=var, body=body):
                return f"any({self.formula(body)} for {var.name} in {self._candidates(var, body)})"
            case SomeNode(region=region, var=var, body=body):
                return f"any({self.formula(body)} for {var.name} in {self.region(region, body)})"
            case Inside(base=base, node=node):
                return f"{_term(node)} in r{base}"
        raise AssertionError(formula)

    def region(self, region: Region, body: Formula = TRUE) -> str:
        """An iterable of the members; `body`, which will be asked of each, may cut a walk downwards short."""
        args = ", ".join(_term(a) for a in region.args)
        match region.kind:
            case "one":
                source = f"({args},)"
            case "below" | "subtree":
                closed = self._closed(region.var, region.condition & body)
                source = f"s.{region.kind}({args}{', ' + closed if closed else ''})"
            case "held_by":
                assert region.relation is not None
                source = f"tuple({_name(region.relation)}.nodes({args}))"
            case "everywhere":
                source = "tuple(live)"
            case "frozen":
                source = f"r{region.base}"
            case _:
                source = f"s.{region.kind}({args})"
        if isinstance(region.condition, Const):
            return source
        var = region.var.name
        return f"({var} for {var} in {source} if {self.formula(region.condition)})"

    def step(self, number: int, step: Step) -> list[str]:
        """The statements of one step of an action."""
        match step:
            case Guard(formula=formula):
                return self._guard(number, formula)
            case Freeze(index=index, region=Region(kind="one", args=(node,), condition=Const())):
                return [f"r{index} = ({_term(node)},)"]
            case Freeze(index=index, region=region):
                source = self.region(region)
                listed = f"[*{source}]" if isinstance(region.condition, Const) else f"[{source[1:-1]}]"
                return [f"r{index} = {listed}"]
            case Assign(relation=relation, value=value, region=None, holder=Var() as holder):
                return [f"{_name(relation)}.{'add' if value else 'discard'}({_term(holder)})"]
            case Assign(
                relation=relation, value=False, region=Region(kind="held_by") as region, holder=Var() as holder
            ) if region.relation == relation and region.args == (holder,) and isinstance(region.condition, Const):
                return [f"touched.update({_name(relation)}.release({_term(holder)}))"]
            case Assign(relation=relation, value=value, region=Region(kind="frozen") as region, holder=None) if (
                isinstance(region.condition, Const)
            ):
                verb = "update" if value else "difference_update"
                return [f"touched.update(r{region.base}); {_name(relation)}.{verb}(r{region.base})"]
            case Assign(relation=relation, value=value, region=Region() as region, holder=holder):
                verb = "add" if value else "discard"
                who = "" if holder is None else f", {_term(holder)}"
                source = self.region(region)
                return [
                    f"for m in {source if source == f'r{region.base}' else f'tuple({source})'}:",
                    f"    touched.add(m); {_name(relation)}.{verb}(m{who})",
                ]
            case Inherit(relation=relation, node=node, heir=heir) if relation.sorts == (NODE, HOLDER):
                return [f"{_name(relation)}.copy({_term(node)}, {_term(heir)})"]
            case Inherit(relation=relation, node=node, heir=heir):
                return [f"if {_term(node)} in {_name(relation)}:", f"    {_name(relation)}.add({_term(heir)})"]
            case Grow(leaf=leaf, parent=parent):
                return [f"s.grow({leaf.name}, {_term(parent)})"]
            case Cut(node=node, prefix=prefix):
                return [f"s.cut({node.name}, {prefix.name})", f"touched.add({node.name})"]
            case Prune(region=region):
                return [f"s.prune(tuple({self.region(region)}))"]
        raise AssertionError(step)

    def _guard(self, number: int, formula: Formula) -> list[str]:
        """Return `number` unless the formula holds. A plain loop is faster than an expression that loops."""
        lines = []
        for part in conjuncts(formula):
            match part:
                case Not(body=SomeNode(region=Region(condition=Const()) as region, var=var, body=body)):
                    source = self.region(region, body)
                    lines += [
                        f"for {var.name} in {source}:",
                        f"    if {self.formula(body)}:",
                        f"        return {number}",
                    ]
                case Not(body=body):
                    lines += [f"if {self.formula(body)}:", f"    return {number}"]
                case _:
                    lines += [f"if not ({self.formula(part)}):", f"    return {number}"]
        return lines

    def prologue(self, body: list[str]) -> list[str]:
        """Bindings of the relations that `body` mentions."""
        words = set(re.findall(r"\w+", "\n".join(body)))
        found = []
        for relation in self.relations:
            if _name(relation) in words:
                table = "pairs" if relation.sorts == (NODE, HOLDER) else "marks"
                found.append(f"{_name(relation)} = s.{table}[{relation.name!r}]")
        return found

    def _candidates(self, var: Var, body: Formula) -> str:
        """The holders worth asking: those of a relation that `body` demands, or all."""
        for part in conjuncts(body):
            match part:
                case Atom(relation=relation, args=(node, who)) if who == var and node.sort == NODE:
                    return f"{_name(relation)}.holders({_term(node)})"
                case _:
                    continue
        return "s.holders()"

    @staticmethod
    def _closed(var: Var, condition: Formula) -> str:
        for part in conjuncts(condition):
            match part:
                case Atom(relation=relation, args=(node,)) if node == var and relation.closed_upwards:
                    return _name(relation)
                case _:
                    continue
        return ""


def _name(relation: Relation) -> str:
    return relation.name.replace(".", "_")


def _term(var: Var) -> str:
    return "0" if var == ROOT else var.name


def compile_action(action: Action, relations: tuple[Relation, ...]) -> Callable[..., int]:
    """A function of (state, touched, arguments…) that applies the action, or returns the number of the step that
    forbids it.

    An action decides before it acts: only a broken promise can leave it half done, and then the state is beyond use.
    """
    writer = Writer(relations)
    body = [line for number, step in enumerate(action.steps) for line in writer.step(number, step)]
    names = [q.var.name for q in action.parameters]
    return _define(f"act({', '.join(['s', 'touched', *names])})", [*writer.prologue(body), *body, "return -1"])


def compile_formula(
    formula: Formula, variables: tuple[Var, ...], relations: tuple[Relation, ...]
) -> Callable[..., bool]:
    """A function of (state, values of the variables…) that says whether the formula holds."""
    writer = Writer(relations)
    body = [f"return bool({writer.formula(formula)})"]
    names = [v.name for v in variables]
    return _define(f"act({', '.join(['s', *names])})", [*writer.prologue(body), *body])


def _define(head: str, body: list[str]) -> Callable[..., Any]:
    source = "\n".join([f"def {head}:", *("    " + line for line in body)])
    scope: dict[str, Any] = {}
    exec(compile(source, f"<{head}>", "exec"), scope)
    made: Callable[..., Any] = scope["act"]
    return made


def domain(state: State, sort: str) -> list[int]:
    """What a variable of that sort ranges over in a state."""
    return state.holders() if sort == HOLDER else state.nodes()
