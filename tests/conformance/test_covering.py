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
    ("write_back", "full+swa"): (1274, 8024),
    ("write_back", "full+mamba"): (1058, 6734),
    ("write_through", "full+swa"): (1014, 6098),
    ("write_through", "full+mamba"): (830, 5010),
}
"""Situations, and steps that cover them, of two nodes and one holder."""
INEXPRESSIBLE: dict[str, str] = {}
"""Faults that no sequence of these suites shows, and why."""

Execute = Callable[[str, str], SuiteResult]


@pytest.fixture(scope="session")
def suites(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """The suite of a universe, made once."""
    folder = tmp_path_factory.mktemp("suites")

    def made(policy: Any, components: str) -> Path:
        file = folder / f"{policy}-{components}.suite"
        if not file.exists():
            emit(file, policy, tuple(components.split("+")), 2, 1, covers="situations")  # type: ignore[arg-type]
        return file

    return made


@pytest.fixture
def execute(suites: Callable[[str, str], Path]) -> Execute:
    """Take all sequences of a universe on the cache."""

    def run(policy: Any, components: str) -> SuiteResult:
        header, sequences = read_suite(suites(policy, components))
        return run_suite("impl", policy, header.components, sequences)  # type: ignore[arg-type]

    return run


@pytest.mark.parametrize(("policy", "components"), UNIVERSES)
def test_every_step_is_executed_and_checked(
    policy: str, components: str, execute: Execute, suites: Callable[[str, str], Path]
) -> None:
    header, _ = read_suite(suites(policy, components))
    assert (header.targets, header.steps) == UNIVERSES[policy, components]
    found = execute(policy, components)
    assert found.unsteered == {}
    assert (found.verdict, found.executed) == ("holds", header.steps)


@pytest.mark.parametrize("name", ALL_FAULTS)
def test_a_fault_fails_the_suite(name: str, execute: Execute) -> None:
    fault = ALL_FAULTS[name]
    with injected(fault):
        found = execute(fault.policy, "full+mamba" if "mamba" in fault.components else "full+swa")
    assert (found.verdict == "violated") != (name in INEXPRESSIBLE)
    if found.failed is not None:
        assert found.failed.step
