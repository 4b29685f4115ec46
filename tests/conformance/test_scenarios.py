"""Every scenario goes on the model and on the cache as it says it goes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from pinproof.conformance.errors import BadScenario
from pinproof.conformance.faults import FAULTS, injected
from pinproof.conformance.replay import replay
from pinproof.conformance.scenario import Scenario, load, shipped, write
from pinproof.conformance.targets.base import Answer, Configuration
from pinproof.conformance.targets.impl import ImplTarget
from pinproof.model.vocabulary import Policy

NAMES = [file.name.removesuffix(".toml") for file in shipped()]


@pytest.mark.parametrize("target", ["model", "reference", "impl"])
@pytest.mark.parametrize("name", NAMES)
def test_it_goes_as_it_says(name: str, target: str) -> None:
    result = replay(name, target)
    assert [str(v) for v in result.violations] == []
    assert [run.reason for run in result.runs if run.reason] == []
    assert result.verdict == "holds"
    assert all(run.steps for run in result.runs)


@pytest.mark.parametrize("name", [name for name in NAMES if load(name).op])
def test_its_operations_do_the_same(name: str) -> None:
    scenario = msgspec.structs.replace(load(name), step=[])
    assert replay(scenario, "impl").verdict == "holds"


class WithoutActions(ImplTarget):
    """The cache as a target that takes no single actions."""

    def configure(self, configuration: Configuration) -> Answer:
        answer = super().configure(configuration)
        known = [name for name in self.capabilities.operations if name != "act"]
        self.capabilities = msgspec.structs.replace(self.capabilities, operations=known, actions=False)
        return answer


@pytest.mark.parametrize(
    "name", ["reset-while-something-is-under-way", "read-before-it-arrived", "release-by-receipt", "split-under-a-pin"]
)
def test_operations_are_derived_for_a_target_without_single_actions(name: str) -> None:
    scenario = msgspec.structs.replace(load(name), components=["full"], config={"threshold": 1000})
    policy: Policy = "write_back" if name == "split-under-a-pin" else "write_through_selective"
    run = replay(scenario, WithoutActions(), policy=policy).runs[0]
    assert (run.verdict, run.reason, run.steps) == ("holds", "", len(scenario.step))


def test_derived_operations_find_what_is_wrong_and_say_what_cannot_be() -> None:
    def only(name: str) -> Scenario:
        return msgspec.structs.replace(load(name), components=["full"])

    scenario = only("split-under-a-pin")
    scenario.step[5].shows = {"X": {"full": "DH"}}
    run = replay(scenario, WithoutActions()).runs[0]
    assert (run.verdict, [v.rule for v in run.violations]) == ("violated", ["step/full"])
    with injected(FAULTS["pin-forgotten-on-split"]):
        run = replay(only("split-under-a-pin"), WithoutActions()).runs[0]
    assert [v.rule for v in run.violations] == ["split/load_back_pending_id"]
    run = replay(only("subtree-without-host-room"), WithoutActions()).runs[0]
    assert (run.verdict, run.steps) == ("unknown", 8)
    assert run.reason == "step 9 drop_subtree(node=X): evict does not bring it about, but nothing"
    run = replay(only("reservation-while-it-is-filled"), WithoutActions()).runs[0]
    assert "storage has none" in run.reason


def test_a_scenario_that_expects_otherwise_is_violated() -> None:
    """The red beside the green."""
    scenario = load("read-before-it-arrived")
    forward = next(step for step in scenario.step if step.expect == "refused")
    forward.expect = "done"
    assert replay(scenario).verdict == "violated"
    assert replay(scenario, "impl").verdict == "violated"


def test_what_it_shows_is_looked_at() -> None:
    scenario = load("ack-after-a-split")
    step = next(step for step in scenario.step if step.shows)
    step.shows = {"P": {"full": "DH"}}
    assert replay(scenario).verdict == "violated"


def test_a_target_without_single_actions_is_told_apart() -> None:
    run = replay(Scenario("x", "x", ["write_back"], ["full"], op=load("window-under-a-pin").op[:1]))
    assert run.verdict == "unknown"
    assert "operations only" in run.runs[0].reason


def test_it_is_written_and_read_back_the_same(tmp_path: Path) -> None:
    for name in NAMES:
        write(load(name), tmp_path / "s.toml")
        assert load(tmp_path / "s.toml") == load(name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x", "Expected"),
        ('name = "x"', "words"),
        ('name = "x"\nwords = "x"\npolicies = ["write_back"]\ncomponents = ["full"]', "no step"),
        ('name = "x"\nwords = "x"\npolicies = ["often"]\ncomponents = ["full"]', "policies"),
        ('name = "x"\nwords = "x"\npolicies = ["write_back"]\ncomponents = ["swa"]\n[[op]]\nname = "poll"', "swa"),
        ('name = "x"\nwords = "x"\npolicies = ["write_back"]\ncomponents = ["full"]\n[[step]]\naction = 3', "action"),
    ],
)
def test_a_malformed_scenario_is_told(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(BadScenario, match=words):
        load(tmp_path / "s.toml")
