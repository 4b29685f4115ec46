"""Suites take every transition, and what they say can be done."""

from __future__ import annotations

from itertools import pairwise

import pytest
from pinproof.model.errors import BadArgument
from pinproof.model.instance import instance
from pinproof.model.machine import ReferenceMachine
from pinproof.proofs.emit import emit
from pinproof.proofs.explore import explore
from pinproof.proofs.graph import TooManyTransitions, graph_of
from pinproof.proofs.program import Call, System, Universe
from pinproof.proofs.situations import looked_at
from pinproof.proofs.suite import read_suite
from pinproof.proofs.tour import sequences

SMALL = [
    ("write_back", ("full",), 1, 2),
    ("write_through", ("full", "mamba"), 1, 1),
    ("write_back", ("full", "swa"), 1, 1),
]


@pytest.mark.parametrize(("policy", "components", "nodes", "holders"), SMALL)
def test_every_transition_is_taken(policy, components, nodes, holders):
    universe = Universe(System.of(instance(policy, components)), nodes, holders, symmetry=True)
    graph = graph_of(universe, memory=1 << 28, most=10**6)
    found = list(sequences(graph, 100))
    assert {edge for sequence in found for edge in sequence} == set(range(graph.transitions))
    source = [s for s in range(graph.states) for _ in range(graph.first[s], graph.first[s + 1])]
    for sequence in found:
        assert source[sequence[0]] == 0
        assert all(graph.target[a] == source[b] for a, b in pairwise(sequence))
    assert sum(map(len, found)) < 3 * graph.transitions


@pytest.mark.parametrize("covers", ["transitions", "situations"])
@pytest.mark.parametrize(("policy", "components", "nodes", "holders"), SMALL)
def test_the_machine_does_every_step(policy, components, nodes, holders, covers, tmp_path):
    path = tmp_path / "suite.ndjson"
    written = emit(path, policy, components, nodes, holders, covers=covers, longest=100)
    header, found = read_suite(path)
    explored = explore(policy, components, nodes, holders)
    assert header == written
    assert (header.states, header.transitions) == (explored.states, explored.transitions)
    fired, steps = set(), 0
    for sequence in found:
        machine = ReferenceMachine(policy, components)
        for step in sequence:
            assert machine.step(step["action"], step["args"]), step
            fired.add(step["action"])
            steps += 1
    assert steps == header.steps
    assert fired == {name for name, coverage in explored.coverage.items() if coverage.fired}


def test_too_large(tmp_path):
    with pytest.raises(TooManyTransitions, match="more than 1,000 transitions"):
        emit(tmp_path / "suite", "write_back", ("full",), 2, 2, most=1000)


def test_a_faulty_text_has_no_suite(tmp_path, forget_guards):
    text = forget_guards(instance("write_back", ("full",)), "reclaim_duplicate", "not pinned", "no full host lock")
    with pytest.raises(BadArgument, match="breaks a rule"):
        emit(tmp_path / "suite", "write_back", ("full",), 2, 1, instance=text)


def test_situations_are_few(tmp_path):
    header = emit(tmp_path / "suite", "write_back", ("full",), 2, 2, covers="situations")
    assert header.targets < header.transitions / 20
    assert header.steps < header.transitions / 4


def test_a_situation_is_all_that_an_action_looks_at():
    text = instance("write_back", ("full", "swa"))
    universe = Universe(System.of(text), 1, 1, symmetry=True)
    program = universe.program(universe.start.grown(1, 0).with_live(1, True))
    firing = next(f for f in program.firings if universe.calls[f.number] == Call("evict_host_aux.swa", (1,)))
    seen = {
        universe.layout.atoms[64 * word + bit]
        for word, mask in looked_at(program, firing)
        for bit in range(64)
        if mask >> bit & 1
    }
    assert {("host.swa", (1,)), ("host_lock.swa", (1, 0)), ("reads.swa", (1, 0))} <= seen
    assert not any(name.endswith(".full") for name, _ in seen)
