"""Symmetry loses nothing: the sizes of the orbits add up to the states that a search without it finds."""

from __future__ import annotations

import pytest
from pinproof.proofs.explore import explore

UNIVERSES = [
    ("write_back", ("full",), 2, 2),
    ("write_back", ("full",), 3, 1),
    ("write_through", ("full",), 2, 2),
    ("write_back", ("full", "swa"), 2, 1),
    ("write_through", ("full", "mamba"), 2, 1),
    ("write_through", ("full",), 1, 3),
    ("write_back", ("full", "swa", "mamba"), 1, 2),
]


@pytest.mark.parametrize(("policy", "components", "nodes", "holders"), UNIVERSES)
def test_orbits_add_up(policy, components, nodes, holders):
    named = explore(policy, components, nodes, holders, symmetry=False)
    orbits = explore(policy, components, nodes, holders, count_names=True)
    assert orbits.named_states == named.states
    assert orbits.states < named.states
    assert orbits.depth == named.depth


def test_the_same_actions_are_possible():
    named = explore("write_back", ("full", "swa"), 2, 1, symmetry=False)
    orbits = explore("write_back", ("full", "swa"), 2, 1)
    for name, coverage in named.coverage.items():
        assert bool(coverage.fired) == bool(orbits.coverage[name].fired), name
        assert bool(coverage.refused) == bool(orbits.coverage[name].refused), name


def test_torch_says_the_same():
    here = explore("write_back", ("full",), 2, 1)
    there = explore("write_back", ("full",), 2, 1, device="torch-cpu")
    assert (here.states, here.transitions, here.coverage) == (there.states, there.transitions, there.coverage)
