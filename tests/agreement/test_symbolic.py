"""The symbolic and the concrete interpreter read the same text the same way.

A random walk reaches a state; one more action is tried on both sides. z3 is given the state as finite tables over named
nodes and holders, so every guard, and every relation afterwards, must come out as the reference machine says.
"""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
import z3
from hypothesis import given, settings
from hypothesis import strategies as st
from pinproof.model.algebra import NODE, Guard
from pinproof.model.concrete import compile_formula
from pinproof.model.instance import Instance, instances
from pinproof.model.machine import ReferenceMachine
from pinproof.model.walk import likely_arguments, random_walk
from pinproof.proofs.symbolic import HOLDER_SORT, NODE_SORT, ROOT_TERM, Reader, Run, State

INSTANCES = {i.name: i for i in instances()}


def names(machine: ReferenceMachine, extra: dict[str, int]) -> tuple[dict[int, z3.ExprRef], dict[int, z3.ExprRef]]:
    nodes = {n: z3.Const(f"n{n}", NODE_SORT) for n in {*machine.state.nodes(), *extra.values()} if n}
    holders = {h: z3.Const(f"h{h}", HOLDER_SORT) for h in {*machine.state.holders(), *extra.values()}}
    return {0: ROOT_TERM, **nodes}, holders


def table(machine: ReferenceMachine, nodes: dict[int, z3.ExprRef], holders: dict[int, z3.ExprRef]) -> State:
    """The machine's state as finite tables."""

    def reading(relation):
        domains = [nodes if s == NODE else holders for s in relation.sorts]
        rows = [row for row in product(*domains) if machine.state.holds(relation.name, *row)]
        terms = [[d[x] for d, x in zip(domains, row, strict=True)] for row in rows]
        return lambda *args: z3.Or(*(z3.And(*(a == t for a, t in zip(args, row, strict=True))) for row in terms))

    pairs = [(a, b) for a in nodes for b in nodes if machine.state.is_above(a, b)]
    return State(
        {r.name: reading(r) for r in machine.instance.relations},
        lambda upper, lower: z3.Or(*(z3.And(upper == nodes[a], lower == nodes[b]) for a, b in pairs)),
    )


def closed_world(nodes: dict[int, z3.ExprRef], holders: dict[int, z3.ExprRef]) -> z3.Solver:
    solver = z3.Solver()
    for sort, terms in ((NODE_SORT, list(nodes.values())), (HOLDER_SORT, list(holders.values()))):
        solver.add(z3.Distinct(*terms))
        x = z3.Const("any", sort)
        solver.add(z3.ForAll([x], z3.Or(*(x == t for t in terms))))
    return solver


def certain(solver: z3.Solver, claim: z3.BoolRef) -> bool:
    solver.push()
    solver.add(z3.Not(claim))
    answer = solver.check()
    solver.pop()
    assert answer != z3.unknown
    return bool(answer == z3.unsat)


@pytest.mark.parametrize("name", INSTANCES)
@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 2**32), attempts=st.integers(5, 300))
def test_one_more_action_agrees(name: str, seed: int, attempts: int) -> None:
    inst: Instance = INSTANCES[name]
    rng = Random(seed)
    machine = ReferenceMachine(inst)
    for _ in random_walk(machine, rng, attempts, nodes=4, holders=3):
        pass
    action = rng.choice([a for a in inst.actions.values() if a.name != "reset"])
    args = likely_arguments(machine, action, rng, 10_000)
    if args is None:
        return
    nodes, holders = names(machine, args)
    solver = closed_world(nodes, holders)
    scope = {q.var.name: (nodes if q.var.sort == NODE else holders)[args[q.var.name]] for q in action.parameters}
    run = Run(table(machine, nodes, holders), scope)
    outcome = machine.step(action.name, args)
    if outcome.verdict == "senseless" and outcome.guard not in action.steps:
        return  # an argument of the wrong kind: nothing to compare
    for step in action.steps:
        if not isinstance(step, Guard):
            run.take(step)
        elif step == outcome.guard:
            assert certain(solver, z3.Not(run.read(step.formula))), step.name
            return
        else:
            assert certain(solver, run.read(step.formula)), step.name
    assert outcome
    after = []
    for relation in inst.relations:
        domains = [nodes if s == NODE else holders for s in relation.sorts]
        for row in product(*domains):
            says = run.state.relations[relation.name](*(d[x] for d, x in zip(domains, row, strict=True)))
            after.append(says == machine.state.holds(relation.name, *row))
    after += [run.state.ancestor(nodes[a], nodes[b]) == machine.state.is_above(a, b) for a, b in product(nodes, nodes)]
    assert certain(solver, z3.And(*after))


@pytest.mark.parametrize("name", ["write_back/full+swa+mamba", "write_through/full+swa+mamba"])
def test_properties_agree(name: str) -> None:
    """Every property has the same truth in both interpreters, in reached states and in states broken on purpose."""
    inst, rng, broken = INSTANCES[name], Random(7), 0
    for seed in range(6):
        machine = ReferenceMachine(inst)
        for _ in random_walk(machine, Random(seed), 200, nodes=4, holders=3):
            pass
        if seed % 2:
            victim = rng.choice(sorted(machine.state.marks["live"] - {0}) or [0])
            machine.state.marks["host.full"].discard(victim)
            machine.state.marks["device_arrived.full"].symmetric_difference_update({victim})
        nodes, holders = names(machine, {"spare": 999})
        solver, tables = closed_world(nodes, holders), table(machine, nodes, holders)
        for rule in inst.properties:
            domains = [nodes if v.sort == NODE else holders for v in rule.variables]
            holds = compile_formula(rule.formula, rule.variables, inst.relations)
            claims = []
            for row in product(*domains):
                scope = {v.name: d[x] for v, d, x in zip(rule.variables, domains, row, strict=True)}
                concrete = holds(machine.state, *row)
                broken += not concrete
                if rng.random() < 0.05 or not concrete:
                    claims.append(Reader(tables, {}).formula(rule.formula, scope) == concrete)
            assert certain(solver, z3.And(*claims)), rule.id
    assert broken > 0
