"""A story is what happened: trees, changes, lanes and violations; the window and the overview stay in their bounds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pinproof.conformance.checker import Checker
from pinproof.conformance.events import Event, NodeState
from pinproof.model.errors import BadArgument
from pinproof.view.judge import Judge
from pinproof.view.page import data_of, embed, render
from pinproof.view.reports import from_steps
from pinproof.view.source import tell
from pinproof.view.sources import open_source
from pinproof.view.story import BUCKETS, Overview, Story
from pinproof.view.teller import Teller

SCRIPT = [
    ("insert_leaf", {"parent": 0, "leaf": 1}),
    ("insert_leaf", {"parent": 1, "leaf": 2}),
    ("begin_backup", {"node": 2, "top": 1, "holder": 1}),
    ("split", {"node": 2, "prefix": 3}),
    ("ack_backup", {"holder": 1}),
    ("demote", {"node": 2}),
    ("begin_load_back", {"node": 2, "holder": 2}),
    ("commit_load_back", {"node": 2, "holder": 2}),
    ("demote", {"node": 2}),
    ("ack_load_back", {"node": 2, "holder": 2}),
]


def scenario(**more: Any) -> Story:
    rows = [{"action": action, "args": args} for action, args in SCRIPT]
    return tell(from_steps({"policy": "write_back", "components": ["full"], "step": rows, **more}, "scenario"))


def test_steps_have_trees_before_and_after() -> None:
    told = scenario()
    before, after = told.pair(3)
    assert before[2] == {"parent": 1, "full": "Dh", "host_lock.full": 1}
    assert after[3] == {"parent": 1, "full": "Dh", "host_lock.full": 1}
    assert after[2]["parent"] == 3
    assert told.steps[3].changes[2] == {"parent": (1, 3)}
    assert told.tree(7)[2] == {"parent": 3, "full": "dH", "host_lock.full": 1, "lock.full": 1, "pin": 2}


def test_who_holds_what_follows_the_operations() -> None:
    told = scenario()
    assert told.steps[3].held == {1: {"host_lock.full": ([3], []), "writes.full": ([3], [])}}
    assert told.steps[4].held == {1: {"host_lock.full": ([], [1, 2, 3]), "writes.full": ([], [1, 2, 3])}}


def test_lanes_reach_from_begin_over_commit_to_end() -> None:
    one, two = scenario().lanes
    assert (one.kind, one.begin, one.commit, one.end, one.how) == ("backup", 2, 2, 4, "acknowledged")
    assert (two.kind, two.begin, two.commit, two.end, two.node) == ("load-back", 6, 7, 9, 2)


def test_the_violation_says_which_rule_and_why() -> None:
    told = scenario()
    assert told.at == 8
    found = told.violation
    assert found is not None
    assert (found.kind, found.rule) == ("safety", "demote/no device lock")
    assert found.conjunct == "no h: device_lock.full(n2, h)"
    assert "node 2: full device slots are locked by load-back 2" in [f.words for f in found.facts]
    assert found.nodes == (2,)
    assert found.holders == (2,)


def test_a_false_conflict_shows_what_is_not_in_the_way() -> None:
    rows = [
        {"action": "insert_leaf", "args": {"parent": 0, "leaf": 1}},
        {"action": "delete_leaf", "args": {"node": 1}, "outcome": "refused", "reason": "pinned"},
    ]
    told = tell(from_steps({"policy": "write_back", "components": "full", "steps": rows}, "x"))
    found = told.violation
    assert found is not None
    assert (found.kind, told.at) == ("permissiveness", 1)
    assert found.title == "The target refused what nothing forbids"
    assert found.facts[0].words == "no h: device_lock.full(n1, h)"


def test_a_state_that_is_not_the_protocols_shows_the_fields() -> None:
    judge = Judge(Checker("write_back", ("full",)))
    events = [Event(0, "insert_leaf", {"parent": 0, "leaf": 1}, "done", post={1: NodeState(full="DH")})]
    told = Teller(("full",), judge).tell(events)
    assert told.violation is not None
    assert [(d.node, d.field, d.expected, d.observed) for d in told.violation.differences] == [(1, "full", "D", "DH")]
    assert told.tree(0)[1]["full"] == "DH"


def long(rounds: int, broken: int = -1) -> Iterator[Event]:
    """Leaves come and go."""
    for number in range(rounds):
        node, seq = number + 1, 3 * number
        yield Event(seq, "insert_leaf", {"parent": 0, "leaf": node}, "done", post={node: NodeState(full="D")})
        locked = {"full": 1}
        post = {0: NodeState(full="DH", lock_ref=locked), node: NodeState(full="D", lock_ref=locked)}
        yield Event(seq + 1, "lock", {"node": node, "holder": node}, "done", post=post)
        action = "delete_leaf" if number == broken else "unlock"
        args = {"node": node} if number == broken else {"holder": node}
        yield Event(seq + 2, action, args, "done", post={0: NodeState(full="DH"), node: NodeState(full="D")})


def test_the_window_keeps_what_is_around_the_violation() -> None:
    judge = Judge(Checker("write_back", ("full",)))
    told = Teller(("full",), judge, 60_000).tell(long(2_000, broken=1_000))
    assert told.at == 3_002
    assert told.overview.total == 6_000
    assert told.first < 3_002 < told.first + len(told.steps) < 6_000
    assert len(told.steps) < 400
    assert told.tree(told.first - 1)[1]["full"] == "D"
    assert len(render(told)) < 700_000


def test_without_a_violation_the_last_steps_stay() -> None:
    told = Teller(("full",), None, 60_000).tell(long(2_000))
    assert told.first + len(told.steps) == 6_000
    assert all(lane.end is None or lane.end >= told.first for lane in told.lanes)


def test_a_base_tree_that_is_too_large_is_cut_to_what_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pinproof.view.page.MAX_NODES", 50)
    told = Teller(("full",), None, 20_000).tell(long(500))
    base = data_of(told)["base"]
    assert isinstance(base, dict)
    assert len(base) <= 50
    assert 0 in base


def test_the_overview_halves_its_columns_and_loses_nothing() -> None:
    overview = Overview()
    for number in range(10_001):
        overview.count("grow" if number % 3 else "evict")
    assert overview.width == 32
    assert {name: sum(row) for name, row in overview.rows.items()} == {"grow": 6_667, "evict": 3_334}
    assert all(len(row) <= BUCKETS for row in overview.rows.values())


def test_embedded_data_cannot_leave_its_element() -> None:
    hostile = "</script><!--<script>\u2028&'"
    shown = embed([hostile])
    assert not set("<>&'\u2028") & set(shown)
    assert json.loads(shown) == [hostile]


def test_a_cut_off_trace_is_told_up_to_there(tmp_path: Path) -> None:
    trace = tmp_path / "cut.ndjson"
    header = '{"trace":"pinproof/1","policy":"write_back","components":["full"]}\n'
    event = '{"seq":0,"action":"insert_leaf","args":{"parent":0,"leaf":1},"outcome":"done","post":{"1":{"full":"D"}}}\n'
    trace.write_text(header + event + '{"seq":1,"action":"dem')
    told = tell(open_source(trace))
    assert (len(told.steps), told.note) == (
        1,
        "The last line of the trace is cut off: its writer did not get to finish it.",
    )
    trace.write_text(header + event + '{"seq":7,"action":"demote","args":{},"outcome":"done"}\n')
    assert "cannot be read on: " in tell(open_source(trace)).note


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.toml", "policy = 1", "a.toml: Object contains unknown field"),
        ("a.toml", "policy = ", "a.toml: "),
        ("a.json", '{"policy": "write_up", "steps": []}', "policy is 'write_up'"),
        ("a.json", "{}", "no trace, scenario or counterexample"),
        ("a.json", "\xff", "neither a trace"),
        ("a.ndjson", '{"seq": 0, "action": "lock"}\n', "begins with a header line"),
        ("a.json", '{"policy": "write_back", "steps": [{"args": {}}]}', "step 0: no action"),
    ],
)
def test_what_cannot_be_shown_says_why(tmp_path: Path, name: str, content: str, words: str) -> None:
    file = tmp_path / name
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(BadArgument, match=words):
        tell(open_source(file))
    with pytest.raises(BadArgument, match="No such file"):
        open_source(tmp_path / "missing")
