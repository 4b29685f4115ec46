"""Known deviations of releases: each shows where it is said to be and nowhere else, and a run finds nothing besides."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pinproof.conformance.campaign import campaign
from pinproof.conformance.conform import conform
from pinproof.conformance.deviations import Deviation, deviations_of, shipped
from pinproof.conformance.driver import Driver, small
from pinproof.conformance.session import Session
from pinproof.conformance.stale import shows, stale
from pinproof.conformance.targets.base import Target

from .conftest import CORES, OURS, release

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "findings"
FOUND = [(version, core) for version, core in CORES if version in OURS]


@pytest.fixture
def target(request: pytest.FixtureRequest, targets: Callable[[str, str], Target]) -> Target:
    return targets(*request.param)


@pytest.mark.parametrize("target", FOUND, indirect=True, ids=":".join)
def test_each_shows_where_it_is_said_to_be(target: Target) -> None:
    wrong = {}
    for each in shipped():
        policy, components = each.policies[0], tuple(each.components[0].split("+"))
        said = each.applies(target.name, policy, components)
        if shows(target, each, policy, components) is not said:  # type: ignore[arg-type]
            wrong[each.id] = "is not there" if said else "is there"
    assert wrong == {}


@pytest.mark.parametrize("target", [("0.5.23", "python")], indirect=True)
def test_one_that_no_longer_occurs_fails_the_run(target: Target) -> None:
    gone = next(each for each in shipped() if each.id == "split-drops-the-full-host-lock")
    assert [v.rule for v in stale(target, [gone], "write_back", ("full",))] == [f"deviation/{gone.id}"]
    there = next(each for each in shipped() if each.id == "safe-overlap-is-refused")
    assert stale(target, [there], "write_back", ("full", "swa")) == []


@pytest.mark.parametrize("target", FOUND, indirect=True, ids=":".join)
@pytest.mark.parametrize("policy", ["write_back", "write_through"])
def test_a_run_finds_what_is_known_and_nothing_else(target: Target, policy: Any) -> None:
    seen: set[str] = set()
    for components in (("full",), ("full", "swa"), ("full", "mamba")):
        found = campaign(target, policy, components, 1500, 1, shorten=False)  # type: ignore[arg-type]
        assert found.violations == [], [str(v) for v in found.violations]
        seen |= set(found.known)
    pinned = target.name.startswith("sglang:0.5.18")
    if policy == "write_back":
        assert ("auxiliary-sources-are-pinned" if pinned else "safe-overlap-is-refused") in seen
    else:
        assert seen <= {
            "split-drops-the-full-host-lock", "split-drops-the-swa-host-lock",
            "unlock-takes-a-window-that-was-skipped", "release-takes-a-window-that-was-skipped",
            "unlock-leaves-a-leaf-out-of-eviction",
        }  # fmt: skip


@pytest.mark.parametrize("target", [("0.5.18", "python+pins-under-every-policy")], indirect=True)
def test_the_older_text_pins_under_write_through_as_well(target: Target) -> None:
    """SGLang #34519, whose fix is in 0.5.18, undone by a patch at run time: first the pins, then the assertion."""
    found = campaign(target, "write_through", ("full", "swa"), 400, 1, shorten=False)
    assert "commit_load_back/load_back_pending_id" in {v.rule for v in found.violations}
    said: set[str] = set()
    for seed in range(30):
        chosen = small("write_through", ("full", "swa"), seed)
        life = Session(target, chosen, after="resync")
        driver = Driver(chosen, seed, life.operations)
        said |= {v.words for v in life.run((driver.next(life.situation) for _ in range(300)), finish=False)}
        if any("pinned by load-back" in words for words in said):
            return
    pytest.fail(f"the assertion never fired: {said}")


@pytest.mark.parametrize("target", [("0.5.18", "python+forgets-host-locks")], indirect=True)
def test_a_mistake_that_looks_like_a_known_one_is_found(target: Target) -> None:
    """A second host lock that is not counted, in a release that is known to lose host locks in splits."""
    found = campaign(target, "write_back", ("full",), 600, 1, shorten=False)
    assert "split-drops-the-full-host-lock" in {each.id for each in deviations_of(target.name, "write_back", ("full",))}
    fields = {v.field for v in found.violations}
    assert fields == {"host_lock_ref"}, [str(v) for v in found.violations]


@pytest.mark.parametrize(
    ("target", "rule", "words"),
    [
        (("0.5.23", "python+counts-too-few"), "target/audit", "the core counts"),
        (("0.5.23", "python+matches-nothing-on-the-host"), "target/match", "a match ends at nodes"),
    ],
    indirect=["target"],
)
def test_totals_and_matches_are_held_to_what_is_there(target: Target, rule: str, words: str) -> None:
    found = campaign(target, "write_back", ("full",), 200, 1, shorten=False)
    assert {v.rule for v in found.violations} == {rule}
    assert words in found.violations[0].words


@pytest.mark.parametrize("target", [("0.5.23", "python"), ("0.5.23", "rust")], indirect=True)
def test_a_run_calls_what_changes_the_tree(target: Target) -> None:
    """Of what changes it only this is left out: modes without a host tier, and what the cache itself makes use of."""
    for policy in ("write_back", "write_through"):
        for components in (("full", "swa"), ("full", "swa", "mamba")):
            campaign(target, policy, components, 2500, 4, shorten=False)  # type: ignore[arg-type]
    met = target.op("interface").result
    changing = ("begin_", "resume_", "end_", "commit_", "finish_", "mark_", "inc_", "dec_", "evict_", "drive_", "drop_")
    changing += ("insert_", "attach_", "set_component", "demote", "reset", "match_", "action ")
    never = {name for name, count in met.items() if name.startswith(changing) and not count}
    assert never == {
        "action FreeComponentDeviceSlot", "action RecoverEvictedSWA", "dec_window_lock_only",
        "finish_external_linker_offload", "mark_external_cache_stored_path", "mark_external_linker_offload_pending",
    }  # fmt: skip


@pytest.mark.parametrize("target", [("0.5.23", "rust")], indirect=True)
def test_a_report_says_what_could_not_be_seen(target: Target) -> None:
    found = conform(target, "write_back", ("full", "swa"), 50, 1, shortest=False)
    assert found.checked["accounting.one-pin-per-node"] == "not at all"
    assert found.checked["safety.full-source-is-pinned"] == "implied"
    assert found.checked["safety.load-back-source-stays.full"] == "observed"


@pytest.mark.parametrize("each", shipped(), ids=lambda each: each.id)
def test_each_has_a_page_and_a_script(each: Deviation) -> None:
    page = (PAGES / f"{each.finding}.md").read_text()
    assert each.words in page
    assert f"{each.finding}.py" in page
    for command in ("pinproof", "import pinproof"):
        assert command not in (PAGES / f"{each.finding}.py").read_text()


def _has(each: Deviation) -> Callable[[tuple[str, str]], bool]:
    policy, components = each.policies[0], each.components[0].split("+")
    return lambda pair: each.applies(f"sglang:{pair[0]}:{pair[1]}", policy, components)


@pytest.mark.parametrize("each", shipped(), ids=lambda each: each.id)
def test_the_script_shows_it_on_sglang_alone(each: Deviation) -> None:
    seen = set()
    # Where none of the releases that every run tests has it, the last that has it is needed.
    more = [pair for pair in CORES if pair[0] == each.until and not any(map(_has(each), FOUND))]
    for version, core in [*FOUND, *more]:
        found = release(version)
        script = [str(found.python), str(PAGES / f"{each.finding}.py"), str(found.source), core]
        done = subprocess.run(script, capture_output=True, text=True, timeout=120, check=False)
        said = _has(each)((version, core))
        assert done.returncode == (0 if said else 3), f"{version} {core}: {done.stdout}{done.stderr[-400:]}"
        seen.add(said)
    assert seen == {True, False}


def test_deviations_are_looked_up_by_release_core_policy_and_components() -> None:
    def ids(*args: Any) -> list[str]:
        return [each.id for each in deviations_of(*args)]

    assert ids("sglang:0.5.23:rust", "write_back", ("full", "swa")) == ["safe-overlap-is-refused"]
    assert ids("sglang:0.5.23", "write_through", ("full", "swa")) == []
    assert ids("impl", "write_back", ("full",)) == []
    assert "split-drops-the-full-host-lock" in ids("sglang:0.5.21:python", "write_through", ("full",))
