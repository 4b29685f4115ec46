"""The batched interpreter and the reference machine find the same states and transitions, action by action."""

from __future__ import annotations

import pytest
from pinproof.model.algebra import Guard
from pinproof.model.instance import instance
from pinproof.proofs.explore import explore

UNIVERSES = [
    ("write_back", ("full",), 1, 1),
    ("write_back", ("full",), 1, 2),
    ("write_back", ("full", "swa"), 1, 1),
    ("write_back", ("full", "mamba"), 1, 1),
    ("write_through", ("full",), 1, 2),
    ("write_through", ("full", "swa"), 1, 1),
    ("write_through", ("full", "mamba"), 1, 1),
]


@pytest.mark.parametrize(("policy", "components", "nodes", "holders"), UNIVERSES)
def test_same_states_and_transitions(policy, components, nodes, holders, naive_search):
    text = instance(policy, components)
    expected = naive_search(text, nodes, holders)
    found = explore(policy, components, nodes, holders, symmetry=False)
    assert (found.states, found.transitions, found.depth) == (expected.states, expected.transitions, expected.depth)
    for name, coverage in found.coverage.items():
        assert coverage.fired == expected.fired[name], name
        if expects_come_first(text.actions[name]):
            assert coverage.refused == expected.refused[name], name


def expects_come_first(action):
    """The machine names the first guard that fails; the search asks for a refusal that every expectation holds."""
    kinds = [s.kind for s in action.steps if isinstance(s, Guard) and s.kind in ("expect", "require")]
    return kinds == sorted(kinds)
