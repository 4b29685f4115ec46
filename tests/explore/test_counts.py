"""Exact counts: of two-phase commit, known from the literature, and of our own protocol, pinned.

A pinned count that changes says that the protocol text has changed what is reachable. Look at `coverage` before
pinning a new one.
"""

from __future__ import annotations

import pytest
from pinproof.proofs.explore import explore, explore_system
from pinproof.proofs.twophase import STATES, two_phase_commit


@pytest.mark.parametrize("managers", [3, 5, 7])
def test_two_phase_commit(managers):
    found = explore_system(two_phase_commit(), 0, managers, symmetry=False)
    assert found.states == STATES[managers]
    assert found.complete
    assert found.violation is None


@pytest.mark.parametrize("managers", [3, 5])
def test_two_phase_commit_counted_by_its_orbits(managers):
    found = explore_system(two_phase_commit(), 0, managers, symmetry=True, count_names=True)
    assert found.states < found.named_states == STATES[managers]


# (policy, components, nodes, holders): states and transitions with symmetry, depth, states without symmetry.
PINNED = {
    ("write_back", ("full",), 2, 1): (734, 4_145, 14, 1_440),
    ("write_back", ("full",), 1, 2): (266, 1_607, 10, 480),
    ("write_back", ("full",), 2, 2): (6_062, 46_411, 15, 22_768),
    ("write_back", ("full",), 3, 1): (9_336, 66_938, 20, 54_040),
    ("write_back", ("full", "swa"), 2, 1): (10_708, 83_541, 18, 21_328),
    ("write_back", ("full", "swa"), 2, 2): (152_579, 1_476_701, 19, 592_088),
    ("write_back", ("full", "mamba"), 2, 1): (9_554, 77_289, 18, 19_020),
    ("write_back", ("full", "mamba"), 2, 2): (116_087, 1_181_335, 19, 447_976),
    ("write_back", ("full", "swa", "mamba"), 2, 1): (192_010, 1_979_951, 23, 383_692),
    ("write_through", ("full",), 2, 1): (622, 3_299, 14, 1_216),
    ("write_through", ("full",), 1, 2): (266, 1_587, 10, 480),
    ("write_through", ("full",), 2, 2): (5_342, 39_097, 15, 20_080),
    ("write_through", ("full",), 3, 1): (6_308, 41_408, 20, 36_040),
    ("write_through", ("full", "swa"), 2, 1): (8_562, 63_811, 18, 17_040),
    ("write_through", ("full", "swa"), 2, 2): (122_856, 1_154_499, 19, 476_496),
    ("write_through", ("full", "mamba"), 2, 1): (7_768, 59_719, 18, 15_452),
    ("write_through", ("full", "mamba"), 2, 2): (97_760, 960_465, 19, 377_392),
    ("write_through", ("full", "swa", "mamba"), 2, 1): (150_280, 1_498_517, 23, 300_268),
}


@pytest.mark.parametrize("universe", PINNED, ids=lambda u: f"{u[0]}-{'+'.join(u[1])}-{u[2]}-{u[3]}")
def test_pinned(universe):
    policy, components, nodes, holders = universe
    found = explore(policy, components, nodes, holders, count_names=True)
    assert found.violation is None
    assert found.complete
    assert (found.states, found.transitions, found.depth, found.named_states) == PINNED[universe]
