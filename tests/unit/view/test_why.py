"""Why a formula is true or false: the facts decide it, and the values agree with the reference machine's."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pinproof.model.algebra import HOLDER, NODE, Formula, Var, below, every, no, path, same, some, some_holder, someone
from pinproof.model.concrete import compile_formula
from pinproof.model.instance import instances
from pinproof.model.machine import ReferenceMachine
from pinproof.model.vocabulary import FULL, busy, device, device_lock, host, load_back, load_back_pending
from pinproof.view.formula import text
from pinproof.view.why import Why

N, H = Var("node", NODE), Var("holder", HOLDER)


def cache() -> ReferenceMachine:
    """Root, 1, 2: on the device, being loaded by 9, which pins both."""
    machine = ReferenceMachine("write_back")
    for action, args in [
        ("insert_leaf", {"parent": 0, "leaf": 1}),
        ("insert_leaf", {"parent": 1, "leaf": 2}),
        ("begin_backup", {"node": 2, "top": 1, "holder": 5}),
        ("ack_backup", {"holder": 5}),
        ("demote", {"node": 2}),
        ("demote", {"node": 1}),
        ("begin_load_back", {"node": 2, "boundary": 2, "holder": 9}),
        ("commit_load_back", {"node": 2, "holder": 9}),
    ]:
        assert machine.step(action, args)
    return machine


CASES: list[tuple[Formula, bool, str, str]] = [
    (load_back_pending(N, H), True, "load_back_pending(n1, h9)", "node 1 is pinned by load-back 9"),
    (~someone(load_back_pending, N), False, "no h: load_back_pending(n1, h)", "node 1 is pinned by load-back 9"),
    (someone(load_back_pending, N, except_for=H), False, "some h ≠ h9: load_back_pending(n1, h)", "no h ≠ h9"),
    (no(below(N), device[FULL]), False, "no m in below n1: device.full(m)", "node 2 has full slots on the device"),
    (every(path(N), device[FULL]), True, "every m in path n1: device.full(m)", ""),
    (~same(N, Var("root", NODE)), True, "n1 ≠ root", "node 1 is not node 0"),
    (some_holder(busy), True, "some x: request(x) | backup(x) | loading(x)", "operation 9 is a load-back in flight"),
    (
        ~device[FULL](N) & host[FULL](N),
        False,
        "not device.full(n1) & host.full(n1)",
        "node 1 has full slots on the device",
    ),
    (some(path(N), lambda m: ~host[FULL](m)), False, "some m in path n1: not host.full(m)", "every m"),
    (device_lock[FULL](N, H), True, "device_lock.full(n1, h9)", "node 1: full device slots are locked by operation 9"),
    (~load_back(H), False, "not load_back(h9)", "operation 9 is a load-back in flight"),
]


@pytest.mark.parametrize(("formula", "value", "shown", "fact"), CASES, ids=[c[2] for c in CASES])
def test_a_formula_is_shown_and_decided(formula: Formula, value: bool, shown: str, fact: str) -> None:
    why, env = Why(cache().state), {"node": 1, "holder": 9}
    assert why.holds(formula, env) is value
    assert text(formula, env).startswith(shown)
    told = " · ".join(f.words for f in why.facts(formula, env))
    assert fact in told


def test_facts_name_their_nodes_and_operations() -> None:
    why = Why(cache().state, name_holder="load-back {}".format)
    (found,) = why.facts(~someone(load_back_pending, N), {"node": 1})
    assert (found.words, found.nodes, found.holders) == ("node 1 is pinned by load-back 9", (1,), (9,))


def test_the_guards_that_fail_are_all_told_in_order() -> None:
    machine = cache()
    failing = Why(machine.state).failing(machine.instance.actions["reclaim_duplicate"], {"node": 1})
    assert [guard.kind for guard, _ in failing] == ["expect", "require"]
    assert Why(machine.state).failing(machine.instance.actions["ack_load_back"], {"node": 2, "holder": 9}) == []


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_values_are_those_of_the_reference_machine(data: st.DataObject) -> None:
    """On states that random steps lead to, for every property and every guard that speaks of no frozen region."""
    found = data.draw(st.sampled_from(list(instances())))
    machine = ReferenceMachine(found)
    nodes, holders = range(4), range(1, 4)
    for _ in range(data.draw(st.integers(0, 12))):
        action = found.actions[data.draw(st.sampled_from(sorted(found.actions)))]
        machine.step(action.name, draw(data, action.parameters, nodes, holders))
    why = Why(machine.state)
    for rule in found.properties[:: data.draw(st.integers(1, 5))]:
        env = {v.name: data.draw(st.sampled_from(nodes if v.sort == NODE else holders)) for v in rule.variables}
        compiled = compile_formula(rule.formula, rule.variables, found.relations)
        assert why.holds(rule.formula, env) == compiled(machine.state, *env.values()), rule.id
        assert why.holds(rule.formula, env) or why.facts(rule.formula, env)


def draw(data: st.DataObject, parameters: tuple[object, ...], nodes: range, holders: range) -> Mapping[str, int]:
    found = {}
    for q in parameters:
        var = q.var  # type: ignore[attr-defined]
        found[var.name] = data.draw(st.sampled_from(nodes if var.sort == NODE else holders))
    return found
