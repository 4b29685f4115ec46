"""Dialects: which release speaks which, and that none of them permits what harms."""

from __future__ import annotations

from dataclasses import fields

import pytest
from pinproof.conformance.checker import Checker
from pinproof.conformance.dialects import dialect_of
from pinproof.conformance.dialects.sglang import DIFFERENCES
from pinproof.conformance.dialects.text import Habits
from pinproof.conformance.events import FORMAT, Event, Header, NodeState
from pinproof.conformance.sglang.environment import RELEASES


def test_each_difference_is_some_release_s_and_says_why() -> None:
    for difference in DIFFERENCES:
        assert any(difference.applies(version) for version in RELEASES), difference.id
        assert difference.words.endswith(".")
        assert difference.reason.endswith(".")
    assert len({difference.id for difference in DIFFERENCES}) == len(DIFFERENCES)


def test_each_habit_is_some_difference_s() -> None:
    named = {habit for difference in DIFFERENCES for habit in difference.habits or {}}
    assert named == {field.name for field in fields(Habits)}


@pytest.mark.parametrize("target", ["impl", "reference", "worker:sglang", "sglang:VERSION"])
def test_others_speak_the_text_itself(target: str) -> None:
    assert dialect_of(target) is None


def checker(target: str) -> Checker:
    return Checker.of(Header(FORMAT, "write_back", ("full",), target))


def events(lock_under_the_tombstone: bool) -> list[Event]:
    """A leaf is demoted, and a load-back of it begins."""
    backed = {"full": 1} if lock_under_the_tombstone else {}
    return [
        Event(0, "insert_leaf", {"parent": 0, "leaf": 1}, "done", post={1: NodeState("D")}),
        Event(
            1, "begin_backup", {"node": 1, "top": 1, "holder": 1}, "done",
            post={1: NodeState("Dh", write_through_pending_id=1)},
        ),
        Event(2, "ack_backup", {"holder": 1}, "done", post={1: NodeState("DH", duplicate=True)}),
        Event(3, "demote", {"node": 1}, "done", post={1: NodeState("H")}),
        Event(
            4, "begin_load_back", {"node": 1, "holder": 2}, "done",
            post={1: NodeState("H", lock_ref=backed, host_lock_ref={"full": 1})},
        ),
    ]  # fmt: skip


@pytest.mark.parametrize(("version", "counted"), [("0.5.19", False), ("0.5.20", True)])
def test_a_release_is_held_to_its_own_counts(version: str, counted: bool) -> None:
    for said in (counted, not counted):
        judge = checker(f"sglang:{version}:rust")
        found = [violation for event in events(said) for violation in judge.check(event)]
        assert [violation.rule for violation in found] == ([] if said is counted else ["begin_load_back/lock_ref"])


def test_the_text_itself_says_something_else() -> None:
    judge = checker("impl")
    assert next(v.rule for event in events(False) for v in judge.check(event)) == "begin_backup/host_lock_ref"


def test_a_locked_host_copy_is_not_to_be_taken_in_any_dialect() -> None:
    judge = checker("sglang:0.5.20:python")
    for event in events(True):
        assert not judge.check(event)
    taken = judge.check(Event(5, "evict_host_leaf", {"node": 1}, "done", post={1: None}))
    assert taken[0].kind == "safety"
    assert taken[0].rule == "evict_host_leaf/no full host lock"
