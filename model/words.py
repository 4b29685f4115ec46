"""Formulas, regions and actions in words, for people who have to see why something does not hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .algebra import (
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

Names = Mapping[str, str]
"""What to call a variable, or a frozen region (`r0`, `r1`, …); its own name where none is given."""


def in_words(formula: Formula, names: Names | None = None) -> str:
    """The formula as a sentence without a capital: "if node is pinned by load-back holder, then …"."""
    return _formula(formula, names or {})


def where(region: Region, names: Names | None = None) -> str:
    """The region as words: "the path of node", "the ancestors of node where …"."""
    return _region(region, names or {})


def steps_in_words(action: Action) -> Iterator[str]:
    """The action's steps, one line each, in order."""
    for step in action.steps:
        yield _step(step)


def fact(relation: Relation, *args: str) -> str:
    """One relation of its arguments: "node 2 is pinned by load-back 5"."""
    if len(args) == 1:
        return f"{args[0]} {relation.words}"
    owner = args[0] if relation.words.startswith("is ") else f"{args[0]}'s"
    return f"{owner} {relation.words} {args[1]}"


def _formula(formula: Formula, names: Names) -> str:
    match formula:
        case Const(value=value):
            return "always" if value else "never"
        case Atom(relation=relation, args=args):
            return fact(relation, *(_name(a, names) for a in args))
        case Ancestor(upper=upper, lower=lower):
            return f"{_name(upper, names)} is on the path of {_name(lower, names)}"
        case Same(left=left, right=right):
            return f"{_name(left, names)} is {_name(right, names)}"
        case Not(body=Same(left=left, right=right)):
            return f"{_name(left, names)} is not {_name(right, names)}"
        case Not(body=SomeNode(region=region, var=var, body=Not(body=body))):
            return f"for every {_inner(var, region, names)}, {_formula(body, names)}"
        case Not(body=SomeNode(region=region, var=var, body=body)):
            return f"no {_inner(var, region, names)}{_such(body, names)}"
        case Not(body=Someone(relation=relation, node=node)):
            return fact(relation, _name(node, names), "nobody")
        case Not(body=body):
            return f"not ({_formula(body, names)})"
        case And(parts=parts):
            return " and ".join(_part(x, names) for x in parts)
        case Or(parts=(Not(body=condition), *rest)) if rest:
            return f"if {_formula(condition, names)}, then {' or '.join(_part(x, names) for x in rest)}"
        case Or(parts=parts):
            return " or ".join(_part(x, names) for x in parts)
        case Someone(relation=relation, node=node, except_for=other):
            who = "somebody" if other is None else f"somebody other than {_name(other, names)}"
            return fact(relation, _name(node, names), who)
        case SomeHolder(var=var, body=body):
            return f"there is {var.name} such that {_formula(body, names)}"
        case SomeNode(region=region, var=var, body=body):
            return f"there is {_inner(var, region, names)}{_such(body, names)}"
        case Inside(base=base, node=node):
            return f"{_name(node, names)} is in {names.get(f'r{base}', f'r{base}')}"
    raise AssertionError(formula)


def _part(formula: Formula, names: Names) -> str:
    words = _formula(formula, names)
    return f"({words})" if isinstance(formula, And | Or) else words


def _inner(var: Var, region: Region, names: Names) -> str:
    return f"{_name(var, names)} of {_region(region, names)}"


def _such(body: Formula, names: Names) -> str:
    return "" if isinstance(body, Const) and body.value else f" such that {_formula(body, names)}"


_REGIONS: Mapping[str, str] = {
    "one": "{0} alone",
    "path": "the path of {0}",
    "above": "the ancestors of {0}",
    "segment": "the path from {0} up to {1}",
    "subtree": "the subtree of {0}",
    "below": "what is below {0}",
    "everywhere": "the tree",
}


def _region(region: Region, names: Names) -> str:
    if region.kind == "frozen":
        base = names.get(f"r{region.base}", f"r{region.base}")
    elif region.kind == "held_by":
        assert region.relation is not None
        base = f"what {_name(region.args[0], names)} holds in {region.relation.name}"
    else:
        base = _REGIONS[region.kind].format(*(_name(a, names) for a in region.args))
    if isinstance(region.condition, Const):
        return base
    return f"{base} where {_formula(region.condition, names)}"


def _name(var: Var, names: Names) -> str:
    return "the root" if var == ROOT else names.get(var.name, var.name)


def _step(step: Step) -> str:
    match step:
        case Guard(kind=kind, words=words, formula=formula, danger=None):
            return f"{kind} {words}: {in_words(formula)}"
        case Guard(kind=kind, words=words, formula=formula, danger=Formula() as danger):
            return f"{kind} {words}: {in_words(formula)}; danger: {in_words(danger)}"
        case Freeze(index=index, region=region):
            return f"r{index} is {where(region)}"
        case Assign(relation=relation, value=value, region=None, holder=Var() as holder):
            return f"{holder.name} {'begins' if value else 'ends'} {relation.name}"
        case Assign(relation=relation, value=value, region=Region() as region, holder=None):
            return f"{relation.name} {'begins' if value else 'ends'} on {where(region)}"
        case Assign(relation=relation, value=value, region=Region() as region, holder=Var() as holder):
            return f"{holder.name} {'takes' if value else 'gives back'} {relation.name} on {where(region)}"
        case Inherit(relation=relation, node=node, heir=heir):
            return f"{heir.name} inherits {relation.name} from {node.name}"
        case Grow(leaf=leaf, parent=parent):
            return f"{leaf.name} becomes a leaf below {parent.name}"
        case Cut(node=node, prefix=prefix):
            return f"{prefix.name} is put above {node.name}"
        case Prune(region=region):
            return f"the tree loses {where(region)}"
    raise AssertionError(step)
