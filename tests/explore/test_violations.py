"""Faulty protocols are caught, by a shortest trace that the reference machine can replay."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pinproof.model.algebra import HOLDER, NODE, Assign, Guard, Var, someone
from pinproof.model.instance import instance
from pinproof.model.machine import ReferenceMachine
from pinproof.model.vocabulary import load_back_pending, reads
from pinproof.proofs.explore import explore
from pinproof.proofs.itf import to_itf

FULL_SWA = ("full", "swa")


def replayed(text, trace):
    """The machine after the trace, and the verdict of its last step."""
    machine = ReferenceMachine(text)
    verdicts = [machine.step(step["action"], step["args"]).verdict for step in trace]
    assert set(verdicts[:-1]) <= {"done"}
    return machine, verdicts[-1]


@pytest.fixture(scope="module")
def unpinned_reclaim(forget_guards):
    """Duplicate reclaim looks at neither the pin nor the lock."""
    return forget_guards(instance("write_back", ("full",)), "reclaim_duplicate", "not pinned", "no full host lock")


@pytest.fixture(scope="module")
def wide_pin():
    """A host SWA copy is not evicted while FULL is pinned: SGLang #36317."""
    text = instance("write_back", FULL_SWA)
    action, node = text.actions["evict_host_aux.swa"], Var("node", NODE)
    pin = Guard("require", "not pinned", ~someone(load_back_pending, node), "not pinned", someone(reads["swa"], node))
    changed = replace(action, steps=(action.steps[0], pin, *action.steps[1:]))
    return replace(text, actions={**text.actions, action.name: changed})


@pytest.fixture(scope="module")
def kept_phase():
    """An ack leaves the load-back under way."""
    text = instance("write_back", ("full",))
    action = text.actions["ack_load_back"]
    steps = tuple(s for s in action.steps if not (isinstance(s, Assign) and s.relation.name == "reads.full"))
    return replace(text, actions={**text.actions, action.name: replace(action, steps=steps)})


def test_the_protocol_has_no_fault_here():
    assert explore("write_back", ("full",), 2, 2).violation is None


def test_broken_promise(unpinned_reclaim):
    violation = explore("write_back", ("full",), 2, 1, instance=unpinned_reclaim).violation
    assert violation.kind == "promise"
    assert violation.rule == "reclaim_duplicate: unused host.full"
    assert replayed(unpinned_reclaim, violation.trace)[1] == "violated"


def test_it_is_a_shortest_trace(unpinned_reclaim):
    violation = explore("write_back", ("full",), 2, 1, instance=unpinned_reclaim).violation
    named = explore("write_back", ("full",), 2, 1, instance=unpinned_reclaim, symmetry=False).violation
    below = explore("write_back", ("full",), 2, 1, instance=unpinned_reclaim, depth=len(violation.trace) - 1)
    assert len(violation.trace) == len(named.trace)
    assert below.violation is not None
    shorter = explore("write_back", ("full",), 2, 1, instance=unpinned_reclaim, depth=len(violation.trace) - 2)
    assert shorter.violation is None
    assert shorter.stopped == "depth"


def test_false_conflict(wide_pin):
    violation = explore("write_back", FULL_SWA, 2, 1, instance=wide_pin).violation
    assert violation.kind == "false conflict"
    assert violation.rule == "evict_host_aux.swa: not pinned"
    assert replayed(wide_pin, violation.trace)[1] == "refused"


def test_missing_property(kept_phase):
    violation = explore("write_back", ("full",), 2, 2, instance=kept_phase).violation
    assert violation.kind == "property"
    machine, last = replayed(kept_phase, violation.trace)
    assert last == "done"
    assert (violation.rule, violation.args) in [(p.id, args) for p, args in machine.violations()]


def test_names_are_never_used_twice(kept_phase):
    trace = explore("write_back", ("full",), 2, 2, instance=kept_phase).violation.trace
    text = kept_phase.actions
    fresh = [s["args"][q.var.name] for s in trace for q in text[s["action"]].parameters if q.kind == "fresh"]
    idle = [s["args"][q.var.name] for s in trace for q in text[s["action"]].parameters if q.kind == "idle"]
    assert len(set(fresh)) == len(fresh)
    assert len(set(idle)) == len(idle)
    assert all(q.var.sort in (NODE, HOLDER) for a in text.values() for q in a.parameters)


def test_itf_shows_every_state(unpinned_reclaim):
    violation = explore("write_back", ("full",), 2, 1, instance=unpinned_reclaim).violation
    told = to_itf(unpinned_reclaim, violation.trace, description=violation.words)
    assert len(told["states"]) == len(violation.trace) + 1
    assert all(set(told["vars"]) <= state.keys() for state in told["states"])
    assert told["states"][0]["live"] == {"#set": [0]}
    assert told["states"][-1]["outcome"] == "violated"
