"""Formulas as people write them, much as in questions to the explorer: `no h: load_back_pending(n3, h)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..model.algebra import (
    HOLDER,
    NODE,
    TRUE,
    Action,
    Ancestor,
    And,
    Atom,
    Const,
    Formula,
    Freeze,
    Inside,
    Not,
    Or,
    Region,
    Same,
    SomeHolder,
    SomeNode,
    Someone,
    Sort,
    Var,
)

Env = Mapping[str, int]
"""Values of variables by name."""


def text(formula: Formula, env: Env | None = None, action: Action | None = None) -> str:
    """A formula as people write it, with the values of the variables that `env` knows.

    `action` is the action that the formula is a guard of, so that the regions that it has frozen can be named.
    """
    frozen = {s.index: s.region for s in action.steps if isinstance(s, Freeze)} if action else {}
    return _Printer(env or {}, frozen).formula(formula)


@dataclass(frozen=True, slots=True)
class _Printer:
    env: Env
    frozen: Mapping[int, Region] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def var(self, var: Var) -> str:
        if var.name in self.names:
            return self.names[var.name]
        if var.name == "root":
            return "root"
        return f"{_LETTER[var.sort]}{self.env[var.name]}" if var.name in self.env else var.name

    def formula(self, formula: Formula) -> str:
        match formula:
            case Const(value=value):
                return str(value).lower()
            case Atom(relation=relation, args=args):
                return f"{relation.name}({', '.join(map(self.var, args))})"
            case Ancestor(upper=upper, lower=lower):
                return f"{self.var(upper)} above {self.var(lower)}"
            case Same(left=left, right=right):
                return f"{self.var(left)} = {self.var(right)}"
            case Not(body=Same(left=left, right=right)):
                return f"{self.var(left)} ≠ {self.var(right)}"
            case Not(body=SomeNode(region=region, var=var, body=body)) if one := self.only(region):
                return self.renamed(var, one).formula(~body)
            case SomeNode(region=region, var=var, body=body) if one := self.only(region):
                return self.renamed(var, one).formula(body)
            case Not(body=SomeNode(region=region, var=var, body=Someone() | SomeHolder() as body)):
                return f"every {var.name} in {self.region(region)}: {self.formula(~body)}"
            case Not(body=SomeNode(region=region, var=var, body=Not(body=body))):
                return f"every {var.name} in {self.region(region)}: {self.formula(body)}"
            case Not(body=SomeNode() | Someone() | SomeHolder() as body):
                return f"no {self.formula(body).removeprefix('some ')}"
            case Not(body=body):
                return f"not {self.nested(body)}"
            case And(parts=parts):
                return " & ".join(map(self.nested, parts))
            case Or(parts=(Not(body=SomeNode() | Someone() | SomeHolder()), *_)):
                return " | ".join(map(self.nested, formula.parts))
            case Or(parts=(Not(body=condition), first, *rest)):
                then = self.nested(Or((first, *rest)) if rest else first)
                return f"{self.nested(condition)} implies {then}"
            case Or(parts=parts):
                return " | ".join(map(self.nested, parts))
            case Someone(relation=relation, node=node, except_for=None):
                return f"some h: {relation.name}({self.var(node)}, h)"
            case Someone(relation=relation, node=node, except_for=Var() as other):
                return f"some h ≠ {self.var(other)}: {relation.name}({self.var(node)}, h)"
            case SomeHolder(var=var, body=body):
                return f"some {var.name}: {self.formula(body)}"
            case SomeNode(region=region, var=var, body=body):
                told = "" if body == TRUE else f": {self.formula(body)}"
                return f"some {var.name} in {self.region(region)}{told}"
            case Inside(base=base, node=node):
                where = self.region(self.frozen[base]) if base in self.frozen else "the region"
                return f"{self.var(node)} in {where}"
        raise AssertionError(formula)

    def only(self, region: Region) -> str:
        """What the only node of a region is called; empty for other regions."""
        if region.condition != TRUE:
            return ""
        if region.kind == "frozen":
            return self.only(self.frozen[region.base]) if region.base in self.frozen else ""
        return self.var(region.args[0]) if region.kind == "one" else ""

    def renamed(self, var: Var, name: str) -> _Printer:
        return _Printer(self.env, self.frozen, {**self.names, var.name: name})

    def nested(self, formula: Formula) -> str:
        shown = self.formula(formula)
        return f"({shown})" if isinstance(formula, And | Or | SomeNode | SomeHolder | Someone) else shown

    def region(self, region: Region) -> str:
        inner = ", ".join(map(self.var, region.args))
        match region.kind:
            case "one":
                told = f"{{{inner}}}"
            case "everywhere":
                told = "the tree"
            case "frozen":
                told = self.region(self.frozen[region.base]) if region.base in self.frozen else "those nodes"
            case "held_by" if region.relation is not None:
                told = f"what {inner} holds in {region.relation.name}"
            case kind:
                told = f"{kind} {inner}"
        return told if region.condition == TRUE else f"{told} where {self.nested(region.condition)}"


_LETTER: Mapping[Sort, str] = {NODE: "n", HOLDER: "h"}
