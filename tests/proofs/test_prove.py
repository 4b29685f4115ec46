"""Everything is proven, for trees of any size: every instance, nothing unknown, and exactly so many obligations."""

from __future__ import annotations

import pytest
from pinproof.model.instance import instance
from pinproof.proofs import prove as proving
from pinproof.proofs.obligations import script, script_names
from pinproof.proofs.prove import prove

COUNTS = {
    "write_back/full": 2033,
    "write_back/full+swa": 3422,
    "write_back/full+mamba": 3416,
    "write_back/full+swa+mamba": 5075,
    "write_through/full": 1965,
    "write_through/full+swa": 3360,
    "write_through/full+mamba": 3354,
    "write_through/full+swa+mamba": 5029,
}


@pytest.mark.parametrize("name", COUNTS)
def test_an_instance_is_proven(name: str) -> None:
    policy, _, components = name.partition("/")
    report = prove((policy,), (tuple(components.split("+")),), jobs=1)
    assert report.verdict == "holds"
    assert report.by_instance() == {name: {"proved": COUNTS[name]}}


def test_selective_shares_the_proof_of_write_through() -> None:
    chosen, shared = proving.choose(("write_through", "write_through_selective"), (("full",),))
    assert [i.name for i in chosen] == ["write_through/full"]
    assert shared == {"write_through_selective/full": "write_through/full"}


def test_ids_are_unique_and_stable() -> None:
    found = instance("write_back", ("full", "swa"))
    ids = [o.id for name in script_names(found) for o in script(found, name).obligations()]
    assert len(ids) == len(set(ids)) == COUNTS["write_back/full+swa"]
    assert {
        "write_back/full+swa/initiation.safety.anchor-stays",
        "write_back/full+swa/commit_load_back.consecution.safety.anchor-stays",
        "write_back/full+swa/commit_load_back.never.no-FULL-source-is-pinned-by-another-anchor",
        "write_back/full+swa/demote.promise.unused-device.full",
        "write_back/full+swa/demote.necessity.no-device-lock",
        "write_back/full+swa/ack_load_back.release.load_back_pending",
        "write_back/full+swa/ack_load_back.foreign.load_back_pending",
        "write_back/full+swa/fail_storage_backup.failure.stored",
        "write_back/full+swa/reclaim_duplicate.redundancy.not-pinned",
        "write_back/full+swa/split.vacuity.happens",
        "write_back/full+swa/vacuity.safety.anchor-stays",
    } <= set(ids)


def test_what_the_solver_gives_up_on_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The red beside the green: with hardly any resources z3 answers `unknown`, and that is a failed run."""
    monkeypatch.setattr(proving, "RESOURCES", 1)
    text = script(instance("write_back", ("full",)), "split", lambda kind, subject, _: kind == "consecution")
    results = list(proving.discharge(text))
    assert {r.verdict for r in results} >= {"unknown"}
    assert "failed" not in {r.verdict for r in results}
    report = proving.Report(tuple(results), 0.0, ("write_back/full",), {})
    assert report.verdict == "unknown"


def test_a_proof_of_nothing_is_vacuous() -> None:
    assert proving.Report((), 0.0, (), {}).verdict == "vacuous"
