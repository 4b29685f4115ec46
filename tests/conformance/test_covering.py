"""A covering suite is executed whole on the cache, and each fault that it can express fails it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pinproof.conformance.covering import SuiteResult, run_suite
from pinproof.conformance.engine_faults import ALL_FAULTS
from pinproof.conformance.faults import injected
from pinproof.proofs.emit import emit
from pinproof.proofs.suite import read_suite

UNIVERSES = {
    ("write_back", "full+swa"): (1_274, 8_024, 12_775),
    ("write_back", "full+mamba"): (1_019, 6_355, 10_289),
    ("write_through", "full+swa"): (1_062, 6_452, 9_113),
    ("write_through", "full+mamba"): (845, 5_109, 7_373),
}
"""Situations of two nodes and one holder, steps that cover them, and forbidden actions asked for on the way."""
TWO_HOLDERS = ("ack-clears-anothers-pin", "read-without-fence", "silent-refusal", "window-given-back-twice")
"""Faults that take two holders."""
INEXPRESSIBLE = {
    "ack-at-submit": "a single action lets its copy end before it takes notice of it",
    "insert-frees-copy-targets": "single actions insert leaves, not the prompts that an insert takes apart",
    "no-store-fence": "forwards end before the next action",
    "no-load-fence": "forwards end before the next action",
    "match-ignores-the-namespace": "single actions name nodes, and look nothing up by tokens",
    "storage-ignores-the-namespace": "single actions name nodes, and look nothing up by tokens",
    "layer-not-waited-for": "single actions read all layers at once",
}
"""Faults that no sequence of single actions shows, and why."""

Execute = Callable[[str, str, int], SuiteResult]


@pytest.fixture(scope="session")
def suites(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str, int], Path]:
    """The suite of a universe, made once."""
    folder = tmp_path_factory.mktemp("suites")

    def made(policy: Any, components: str, holders: int) -> Path:
        file = folder / f"{policy}-{components}-{holders}.suite"
        if not file.exists():
            emit(file, policy, tuple(components.split("+")), 2, holders, covers="situations")  # type: ignore[arg-type]
        return file

    return made


@pytest.fixture
def execute(suites: Callable[[str, str, int], Path]) -> Execute:
    """Take all sequences of a universe on the cache."""

    def run(policy: Any, components: str, holders: int) -> SuiteResult:
        header, sequences = read_suite(suites(policy, components, holders))
        return run_suite("impl", policy, header.components, sequences)  # type: ignore[arg-type]

    return run


@pytest.mark.parametrize(("policy", "components"), UNIVERSES)
def test_every_step_is_executed_and_checked(
    policy: str, components: str, execute: Execute, suites: Callable[[str, str, int], Path]
) -> None:
    header, _ = read_suite(suites(policy, components, 1))
    targets, steps, probes = UNIVERSES[policy, components]
    assert (header.targets, header.steps) == (targets, steps)
    found = execute(policy, components, 1)
    assert found.unsteered == {}
    assert (found.verdict, found.executed, found.probes) == ("holds", steps, probes)


@pytest.mark.parametrize("name", [name for name in ALL_FAULTS if name not in INEXPRESSIBLE])
def test_a_fault_fails_the_suite(name: str, execute: Execute) -> None:
    fault = ALL_FAULTS[name]
    components = "full+mamba" if "mamba" in fault.components else "full+swa"
    with injected(fault):
        found = execute(fault.policy, components, 2 if name in TWO_HOLDERS else 1)
    assert found.verdict == "violated"
    assert found.failed is not None


def test_what_no_sequence_shows_is_a_fault_of_ours() -> None:
    assert ALL_FAULTS.keys() >= INEXPRESSIBLE.keys() | set(TWO_HOLDERS)
