"""The two cores of a release side by side, and in batches: they agree from 0.5.21 on; before, host eviction differs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pinproof.conformance.campaign import campaign
from pinproof.conformance.lockstep import Lockstep, lockstep
from pinproof.conformance.sglang import environment
from pinproof.conformance.situation import Operation, Pick, operation
from pinproof.conformance.targets.base import Configuration, Target

Open = Callable[[str, str], Target]
WITH_RUST = [version for version in environment.RELEASES if environment.has_rust(version)]
PART = ("0.5.19", "0.5.20")
"""The releases in which the cores part."""
RECLAIMED: list[Operation] = [
    operation("insert", tokens=[2, 2, 2]), operation("insert", tokens=[2, 1, 1]), operation("match", tokens=[2, 2, 2]),
    operation("evict", component="full", pages=99), operation("load_back", node=Pick("host_only")),
    operation("reclaim", pages=1), operation("lock", node=Pick("leaf")), operation("poll"),
    operation("evict_host", component="full", pages=2),
]  # fmt: skip
"""Which of two duplicates of a load-back is given up first: the lower one in Python, the upper one in Rust."""
SLICES: list[Operation] = [
    operation("insert", tokens=[1, 2, 1, 1, 1, 1, 1]), operation("evict", component="full", pages=99),
    operation("evict_host", component="full", pages=1), operation("insert", tokens=[1, 2, 1]),
    operation("evict_host", component="swa", pages=1),
]  # fmt: skip
"""The SWA host slice of a node that a request has computed again: kept by Python, given up by Rust."""


def both(targets: Open, version: str) -> tuple[Target, Target]:
    """The two cores of a release."""
    return targets(version, "python"), targets(version, "rust")


@pytest.mark.parametrize("policy", ["write_back", "write_through"])
@pytest.mark.parametrize("components", [("full",), ("full", "swa"), ("full", "mamba")], ids="+".join)
def test_the_cores_of_the_newest_agree(targets: Open, components: Any, policy: Any) -> None:
    found = lockstep(*both(targets, "0.5.23"), policy, components, 400, 1, batch=4)
    assert (found.verdict, found.parted, found.violations) == ("holds", {}, {})
    assert min(found.compared[kind] for kind in ("answers", "events", "states of nodes", "slots")) >= 300
    assert "host_lock_ref" in found.unseen
    assert "lock_ref" not in found.unseen


@pytest.mark.parametrize("version", WITH_RUST)
def test_host_eviction_parts_them_up_to_0_5_20(targets: Open, version: str) -> None:
    pair = both(targets, version)
    for run, components, freed in ((RECLAIMED, ("full",), (2, 3)), (SLICES, ("full", "swa"), (0, 3))):
        chosen = Configuration("write_back", components, device_pages=12, host_pages=14, window=4)  # type: ignore[arg-type]
        life = Lockstep(pair, chosen, audit_every=0)
        parting = life.run(run, finish=False)
        assert [session.violations for session in life.sessions] == [[], []]
        if version not in PART:
            assert parting is None
            continue
        assert parting is not None
        assert parting.number == len(run)
        assert [f.a for f in parting.fields if f.field == "result.freed"] == [freed[0]]
        assert [f.b for f in parting.fields if f.field == "result.freed"] == [freed[1]]


@pytest.mark.parametrize("core", ["python", "rust"])
def test_batches_find_what_is_known_and_nothing_else(targets: Open, core: str) -> None:
    target = targets("0.5.23", core)
    found = campaign(target, "write_back", ("full", "swa"), 3000, 1, shorten=False, batch=32)
    assert [str(v) for v in found.violations] == []
    assert set(found.known) == {"safe-overlap-is-refused"}
