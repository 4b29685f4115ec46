"""The checker judges the way it says: each kind of violation once, and the right behaviour beside it."""

from __future__ import annotations

from typing import Any

import pytest
from pinproof.conformance.checker import Checker
from pinproof.conformance.events import Event, convert_event
from pinproof.conformance.violation import Violation


def feed(checker: Checker, *rows: tuple[Any, ...]) -> list[Violation]:
    """Events as (action, args, post, slots, reason): a reason makes it refused."""
    found: list[Violation] = []
    for row in rows:
        action, args, post, slots, reason = (
            (*row, {}, {}, [], "")[:5] if len(row) == 1 else (*row, *({}, [], "")[len(row) - 2 :])
        )
        raw = {"seq": checker.events, "action": action, "args": args, "outcome": "refused" if reason else "done"}
        found += checker.check(convert_event({**raw, "reason": reason, "slots": slots, "post": post}))
    return found


X = {"parent": 0, "leaf": 1}
LEAF = ("insert_leaf", X, {"1": {"full": "D"}})
BACKUP = ("begin_backup", {"node": 1, "top": 1, "holder": 5}, {"1": {"full": "Dh", "host_lock_ref": {"full": 1}}})
ACK = ("ack_backup", {"holder": 5}, {"1": {"full": "DH", "duplicate": True}})


def test_a_correct_run_is_silent() -> None:
    assert feed(Checker("write_back"), LEAF, BACKUP, ACK) == []


def test_a_forbidden_action_names_rule_and_conjunct() -> None:
    found = feed(Checker("write_back"), LEAF, BACKUP, ("demote", {"node": 1}, {"1": {"full": "h"}}))
    assert [(v.kind, v.rule) for v in found] == [("safety", "demote/no backup of full reads it")]
    assert any("node 1" in part for part in found[0].conjuncts)
    assert [e.action for e in found[0].recent] == ["insert_leaf", "begin_backup"]


def test_an_action_that_the_policy_does_not_have_is_unsafe() -> None:
    found = feed(Checker("write_through"), LEAF, ("reclaim_duplicate", {"node": 1}, {}))
    assert [v.kind for v in found] == ["safety"]


def test_a_false_conflict_is_found() -> None:
    found = feed(Checker("write_back"), LEAF, BACKUP, ACK, ("demote", {"node": 1}, {}, [], "pinned"))
    assert [(v.kind, v.rule) for v in found] == [("permissiveness", "demote/refusal")]


def test_a_refusal_with_a_reason_is_fine() -> None:
    assert feed(Checker("write_back"), LEAF, BACKUP, ("demote", {"node": 1}, {}, [], "in flight")) == []


def test_a_silent_refusal_is_found() -> None:
    rows = [LEAF, BACKUP, ACK, ("demote", {"node": 1}, {"1": {"full": "H"}})]
    rows.append(("begin_load_back", {"node": 1, "holder": 6}, {"1": {"full": "H", "host_lock_ref": {"full": 1}}}))
    found = feed(Checker("write_back"), *rows, ("refuse_load_back", {"node": 1, "holder": 6}, {"1": {"full": "H"}}))
    assert [v.kind for v in found] == ["permissiveness"]
    assert "silent refusal" in found[0].words


@pytest.mark.parametrize(
    ("needed", "kinds"), [("no host room for 3", []), ("no host room for 2", ["permissiveness"]), ("no host room", [])]
)
def test_a_refusal_for_want_of_slots_is_held_to_the_ledger(needed: str, kinds: list[str]) -> None:
    checker = Checker("write_back", capacity={"device": {"full": 4}, "host": {"full": 2}})
    slots = [["take", "device", "full", [0], ["node", 1]]]
    found = feed(checker, (*LEAF, slots), ("begin_backup", {"node": 1, "top": 1, "holder": 5}, {}, [], needed))
    assert [v.kind for v in found] == kinds
    assert checker.unconfirmed == (needed == "no host room")


def test_a_wrong_field_is_found() -> None:
    found = feed(Checker("write_back"), LEAF, BACKUP, ("ack_backup", {"holder": 5}, {"1": {"full": "DH"}}))
    assert [(v.kind, v.node, v.field, v.expected, v.observed) for v in found] == [
        ("refinement", 1, "duplicate", True, False)
    ]


def test_a_node_that_is_not_shown_is_found() -> None:
    found = feed(Checker("write_back"), LEAF, BACKUP, ("ack_backup", {"holder": 5}, {}))
    assert {v.rule for v in found} == {"ack_backup/shown"}
    assert feed(Checker("write_back", complete=False), LEAF, BACKUP, ("ack_backup", {"holder": 5}, {})) == []


def test_what_a_target_cannot_see_is_skipped_and_counted() -> None:
    blind = Checker("write_back", sees=["full", "lock_ref.full"])
    assert feed(blind, LEAF, BACKUP, ("ack_backup", {"holder": 5}, {"1": {"full": "DH"}})) == []
    assert blind.unobserved > 0
    assert feed(Checker("write_back", sees=["full"]), LEAF, ("delete_leaf", {"node": 1}, {"1": {"full": "D"}})) != []


def test_nothing_is_checked_after_a_violation_unless_asked_for() -> None:
    wrong = ("ack_backup", {"holder": 5}, {"1": {"full": "DH"}})
    stopped, going = Checker("write_back"), Checker("write_back", after="resync")
    assert len(feed(stopped, LEAF, BACKUP, wrong, wrong)) == 1
    assert stopped.lost
    assert len(feed(going, LEAF, BACKUP, wrong)) == 1
    assert feed(going, ("demote", {"node": 1}, {"1": {"full": "H"}})) == []


def test_a_forbidden_action_is_followed_when_asked_to() -> None:
    checker = Checker("write_back", after="resync")
    found = feed(checker, LEAF, BACKUP, ("demote", {"node": 1}, {"1": {"full": "h", "host_lock_ref": {"full": 1}}}))
    assert [v.kind for v in found] == ["safety"]
    assert not checker.lost
    assert checker.project(1) is not None


SLOTS = {
    "owned twice": ["take", "device", "full", [0], ["node", 2]],
    "freed while owned": ["give", "device", "full", [0], ["node", 1]],
    "freed twice": ["give", "device", "full", [7], ["node", 1]],
    "passes from nobody": ["move", "device", "full", [9], ["node", 2]],
}


@pytest.mark.parametrize("what", SLOTS)
def test_slots_have_one_owner(what: str) -> None:
    first = (*LEAF, [["take", "device", "full", [0], ["node", 1]]])
    second = (
        "insert_leaf",
        {"parent": 0, "leaf": 2},
        {"2": {"full": "D"}},
        [["take", "device", "full", [1], ["node", 2]], SLOTS[what]],
    )
    assert {v.kind for v in feed(Checker("write_back"), first, second)} == {"accounting"}


def test_a_copy_without_slots_and_sizes_that_differ_are_found() -> None:
    first = (*LEAF, [["take", "device", "full", [0, 1], ["node", 1]]])
    assert {v.kind for v in feed(Checker("write_back"), first, BACKUP)} == {"accounting"}
    short = (*BACKUP, [["take", "host", "full", [0], ["node", 1]]])
    assert {v.kind for v in feed(Checker("write_back"), first, short)} == {"accounting"}
    right = (*BACKUP, [["take", "host", "full", [0, 1], ["node", 1]]])
    assert feed(Checker("write_back"), first, right) == []


def test_memory_does_not_grow_with_the_trace() -> None:
    checker = Checker("write_back")
    sizes = []
    for number in range(1, 900):
        gone = Event(0, "delete_leaf", {"node": number}, "done", post={number: None})
        rows = (("insert_leaf", {"parent": 0, "leaf": number}, {str(number): {"full": "D"}}),)
        assert feed(checker, *rows) == []
        assert not checker.check(gone)
        state = checker.machine.state
        sizes.append(len(checker._told) + len(checker.history._last) + len(checker.history._gone) + len(state.parent))
    assert sizes[-1] == sizes[400]
