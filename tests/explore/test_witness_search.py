"""Can this ever be? A shortest trace to a state where it is, or the certainty that there is none."""

from __future__ import annotations

import pytest
from pinproof.model.concrete import compile_formula
from pinproof.model.instance import instance
from pinproof.model.machine import ReferenceMachine
from pinproof.proofs.explore import explore
from pinproof.proofs.witness import parse_witness

POSSIBLE = [
    ("live(n) and n != root", 1),
    ("load_back_pending(n, h) and host_lock.full(n, h)", 5),
    ("tracked_duplicate(n)", 3),
    ("load_back(h) and request(g)", 7),
]


@pytest.mark.parametrize(("text", "steps"), POSSIBLE)
def test_possible(text, steps):
    found = explore("write_back", ("full",), 2, 2, witness=text)
    assert found.stopped == "witness"
    assert len(found.witness) == steps
    machine = ReferenceMachine("write_back", ("full",))
    assert all(machine.step(step["action"], step["args"]) for step in found.witness)
    relations = instance("write_back", ("full",)).relations
    assert compile_formula(parse_witness(text, relations), (), relations)(machine.state)


@pytest.mark.parametrize(
    "text", ["load_back_pending(n, g) and load_back_pending(n, h) and g != h", "write_through_pending(n, h)", "false"]
)
def test_impossible(text):
    found = explore("write_back", ("full",), 2, 2, witness=text)
    assert found.witness is None
    assert found.complete
