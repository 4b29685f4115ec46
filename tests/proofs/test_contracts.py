"""CrossHair looks for arguments that break the contracts of pure functions.

It stops at the first one that it finds, so a generous budget costs nothing where a contract is broken.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("crosshair", reason="CrossHair is not installed")

from pinproof.proofs.contracts import MODEL, check

HERE = Path(__file__).parent


def broken(name: str) -> str:
    """A function of broken_claims.py, as CrossHair wants it named."""
    lines = (HERE / "broken_claims.py").read_text().splitlines()
    number = next(i for i, line in enumerate(lines, 1) if line.startswith(f"def {name}("))
    return f"{HERE / 'broken_claims.py'}:{number}"


def test_contracts_of_the_model() -> None:
    report = check(MODEL, conditions=8, budget=3)
    assert (report.verdict, report.refuted) == ("holds", ())
    assert len(report.findings) == 8


def test_contracts_of_the_cache() -> None:
    report = check([str(HERE / "claims_of_impl.py")], conditions=4, budget=2)
    assert (report.verdict, report.refuted) == ("holds", ())
    assert len(report.findings) == 4


def test_a_broken_contract_is_found() -> None:
    report = check([broken("no_path_is_longer_than_two")], conditions=1, budget=40)
    assert report.verdict == "violated"
    assert "returns False" in report.refuted[0].words


def test_a_contract_that_says_nothing_is_vacuous() -> None:
    report = check([broken("nothing_fits")], conditions=1, budget=1)
    assert (report.verdict, [f.status for f in report.findings]) == ("vacuous", ["vacuous"])


def test_no_contract_is_no_proof() -> None:
    assert check([str(Path(__file__).parents[1] / "conftest.py")], conditions=1, budget=1).verdict == "vacuous"
