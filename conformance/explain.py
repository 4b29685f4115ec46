"""A guard that does not hold, taken apart: which of its conjuncts are false, in words, with the names of the event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..model.algebra import (
    Action,
    And,
    Formula,
    Freeze,
    Guard,
    Inside,
    Not,
    Or,
    Region,
    SomeHolder,
    SomeNode,
    conjuncts,
)
from ..model.concrete import compile_formula
from ..model.machine import ReferenceMachine
from ..model.words import in_words


def false_conjuncts(
    machine: ReferenceMachine, action: Action, guard: Guard, args: Mapping[str, int]
) -> tuple[str, ...]:
    """The parts of `guard` that do not hold in the machine's state, in words."""
    regions = {step.index: step.region for step in action.steps if isinstance(step, Freeze)}
    variables = tuple(q.var for q in action.parameters)
    names = {q.var.name: f"{q.var.sort} {args[q.var.name]}" for q in action.parameters}
    found = []
    for part in conjuncts(guard.formula):
        thawed = thaw(part, regions)
        try:
            holds = compile_formula(thawed, variables, machine.instance.relations)
            if holds(machine.state, *(args[v.name] for v in variables)):
                continue
        except NameError:  # membership in a region of its own state: only promises speak of that
            pass
        found.append(in_words(thawed, names))
    return tuple(found)


def thaw(formula: Formula, regions: Mapping[int, Region]) -> Formula:
    """The formula with each frozen region written out. True to it as long as nothing has been changed since."""
    match formula:
        case Not(body=body):
            return Not(thaw(body, regions))
        case And(parts=parts):
            return And(tuple(thaw(x, regions) for x in parts))
        case Or(parts=parts):
            return Or(tuple(thaw(x, regions) for x in parts))
        case SomeHolder(var=var, body=body):
            return SomeHolder(var, thaw(body, regions))
        case SomeNode(region=region, var=var, body=body):
            return SomeNode(thaw_region(region, regions), var, thaw(body, regions))
        case Inside():
            return formula
        case _:
            return formula


def thaw_region(region: Region, regions: Mapping[int, Region]) -> Region:
    """A region with the frozen region that it is part of written out."""
    if region.kind != "frozen" or region.base not in regions:
        return region
    base = thaw_region(regions[region.base], regions)
    if base.var != region.var:
        return region
    inner, outer = thaw(base.condition, regions), thaw(region.condition, regions)
    parts = [x for x in (inner, outer) if list(conjuncts(x))]
    condition = parts[0] & parts[1] if len(parts) == 2 else parts[0] if parts else outer
    return replace(base, condition=condition)
