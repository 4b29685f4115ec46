"""Each fault is found, and the shortest run that shows it fails with the fault and passes without."""

from __future__ import annotations

import pytest
from pinproof.conformance import faults
from pinproof.conformance.conform import ConformResult, conform
from pinproof.conformance.engine_faults import ALL_FAULTS
from pinproof.conformance.faults import FAULTS, Edit, Fault, FaultDoesNotApply, injected
from pinproof.conformance.replay import replay
from pinproof.conformance.suites import NotConforming, run_suite

STEPS, SEEDS = 300, 40


def find(fault: Fault) -> ConformResult:
    """Drive the faulty cache with one seed after another until something is found."""
    for seed in range(SEEDS):
        found = conform(
            "impl", fault.policy, fault.components, STEPS, seed,
            single_actions=fault.single_actions, shrink_seconds=4,
        )  # fmt: skip
        if found.verdict == "violated":
            return found
    raise AssertionError(f"{fault.name} was not found in {SEEDS} runs")


@pytest.mark.parametrize("name", ALL_FAULTS)
def test_it_is_found_and_told_apart(name: str) -> None:
    fault = ALL_FAULTS[name]
    with injected(fault):
        found = find(fault)
        assert found.scenario is not None
        with_it = replay(found.scenario, "impl")
        assert with_it.verdict == "violated"
    without = replay(found.scenario, "impl")
    assert [str(v) for v in without.violations] == []


def test_hypothesis_shrinks_what_it_finds() -> None:
    fault = FAULTS["anchor-not-locked"]
    with injected(fault), pytest.raises(NotConforming) as told:
        run_suite("impl", fault.policy, fault.components, examples=60, steps=20)
    assert len(told.value.scenario.op) <= 6
    assert replay(told.value.scenario, "impl").verdict == "holds"


def test_a_fault_that_no_longer_applies_says_so() -> None:
    stale = Fault("stale", "", "", (Edit("settle:deliver", "this is not in it", ""),))
    with pytest.raises(FaultDoesNotApply, match="stale: settle:deliver"), injected(stale):
        pass


def test_a_fault_leaves_nothing_behind() -> None:
    from pinproof.impl import settle

    before = settle.deliver
    with injected(FAULTS["ack-at-submit"]):
        assert settle.deliver is not before
    assert settle.deliver is before
    assert faults.FAULTS is FAULTS
