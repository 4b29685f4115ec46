"""Every scenario on the cores: it goes as it says, or it is known why it cannot, or what deviates is known."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pinproof.conformance.deviations import shipped as deviations
from pinproof.conformance.replay import ReplayRun, replay
from pinproof.conformance.scenario import load, shipped
from pinproof.conformance.targets.base import Target
from pinproof.model.vocabulary import Policy

CORES = ("0.5.18:python", "0.5.23:python", "0.5.23:rust")
WAITED_FOR = "ack_backup came with the operation before"
"""Under write_back a backup is waited for: nothing comes between its submission and its ack."""
CANNOT: dict[tuple[str, str], str] = {
    ("aborted-load-back-leaves-nothing", "*"): "has nothing that can be aborted",
    ("failed-backup-is-no-copy", "*"): "copies of kind 'backup' cannot fail in this server: it waits for them",
    ("failed-load-back", "*"): "copies of kind 'load_back' cannot fail in this server: it waits for them",
    ("host-destination-in-flight", "write_back"): WAITED_FOR,
    ("reclaim-before-the-commit", "write_back"): "insert does not bring it about, but lock, unlock",
    ("release-by-receipt", "write_back"): "evict does not bring it about, but begin_backup",
    ("reservation-while-it-is-filled", "*"): "finish_prefetch waits until nothing is in its way",
    ("reset-while-something-is-under-way", "write_back"): WAITED_FOR,
    ("room-made-for-a-load-back", "*"): "commit_load_back came with the operation before",
    ("settled-at-the-last-ack", "write_back"): "poll brings about ack_load_back before it",
    ("settling-looks-at-full-alone", "write_back"): "no operation brings it about by itself",
    ("subtree-without-host-room", "write_back"): "evict does not bring it about, but nothing",
    ("unevicted-before-the-commit", "*"): "insert does not bring it about, but lock, unlock",
    ("window-slices-of-a-load-back", "*"): "step 6 evict_device_aux.swa(node=X): evict does not bring it about",
}
"""What the cores, or the server around them, do not do by single steps, and why: by scenario and policy."""
CANNOT_IN_0_5_18 = {
    ("settled-at-the-last-ack", "write_back"): "backup brings about demote before it",
}
"""Before 0.5.21 write_back copies only what it evicts."""
DEVIATES = {
    "0.5.18": {
        ("split-under-a-pin", "write_back"): "split-drops-the-full-host-lock",
        ("split-under-a-storage-write", "write_back"): "split-drops-the-full-host-lock",
        ("split-under-a-storage-write-host-only", "*"): "split-drops-the-full-host-lock",
        ("state-under-a-pin", "write_back"): "auxiliary-sources-are-pinned",
        ("window-under-a-pin", "write_back"): "auxiliary-sources-are-pinned",
    },
    "0.5.23": {
        ("state-under-a-pin", "write_back"): "safe-overlap-is-refused",
        ("window-under-a-pin", "write_back"): "safe-overlap-is-refused",
    },
}
NAMES = [file.name.removesuffix(".toml") for file in shipped()]
RUNS = [(name, policy) for name in NAMES for policy in load(name).policies if policy != "write_through_selective"]


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(("name", "policy"), RUNS)
def test_it_goes_as_it_says(targets: Callable[[str, str], Target], core: str, name: str, policy: Policy) -> None:
    version, _, kind = core.partition(":")
    target = targets(version, kind)
    runs = replay(name, target, policy=policy).runs
    assert len(runs) == len(load(name).components)
    deviation = _of(DEVIATES[version], name, policy)
    if deviation is not None:
        assert {_deviation(run, target) for run in runs} == {deviation}
        return
    reason = (_of(CANNOT_IN_0_5_18, name, policy) if version == "0.5.18" else None) or _of(CANNOT, name, policy)
    assert {run.verdict for run in runs} == {"holds" if reason is None else "unknown"}, [r.violations for r in runs]
    if reason is not None:
        assert [run.reason for run in runs if reason not in run.reason] == []
        pytest.skip(f"{core} {policy}: {runs[0].reason}")
    # The sometimes: every step that says something was taken.
    assert {run.steps for run in runs} == {len(load(name).op if name.endswith(OPERATIONS) else load(name).step)}


OPERATIONS = ("state-under-a-pin", "window-under-a-pin")
"""Scenarios that have operations of their own."""


def _of(table: dict[tuple[str, str], str], name: str, policy: str) -> str | None:
    return table.get((name, policy), table.get((name, "*")))


def _deviation(run: ReplayRun, target: Target) -> str | None:
    """The known deviation that all of a run's violations are."""
    known = [each for each in deviations() if each.applies(target.name, run.policy, run.components)]
    found = {next((each.id for each in known if each.looks_like(violation)), None) for violation in run.violations}
    return found.pop() if len(found) == 1 else None


def test_what_is_listed_is_there() -> None:
    listed = {name for table in (CANNOT, CANNOT_IN_0_5_18, *DEVIATES.values()) for name, _ in table}
    assert listed <= set(NAMES)
    told = {(name, policy) for name, policy in RUNS if _of(CANNOT, name, policy) is None}
    assert (len(told), len(RUNS)) == (20, 41)
