"""Traces of calls: where two part, where one breaks a rule, and what is wrong with a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pinproof.conformance.diff import diff
from pinproof.conformance.errors import BadTrace
from pinproof.conformance.shadow.reporting import FORMAT

HEADER = {"trace": FORMAT, "core": "Core", "components": ["full"], "page_size": 1}
Row = dict[str, Any]
Write = Callable[..., Path]


def story(node: int = 5, key: str = "aa", slot: int = 1, host: int = 9) -> list[Row]:
    """Insert, back up, acknowledge, lock, unlock, demote; names are the run's own."""
    device, back = [["device", "full", [[slot, 2]]]], [["host", "full", [[host, 2]]]]
    return [
        {"call": "begin_insert", "tokens": 2, "key": key, "gives": device, "done": {"prefix": 0, "node_id": node}},
        {"call": "commit_backup", "node": node, "gives": back, "writes": back, "reads": device},
        {"call": "mark_write_through_pending", "nodes": [node], "ack": node},
        {"call": "finish_write_through", "nodes": [node], "ack": node},
        {"call": "inc_lock_ref", "node": node},
        {"call": "dec_lock_ref", "node": node},
        {"call": "demote", "node": node, "frees": device},
        {
            "call": "match_prefix",
            "tokens": 2,
            "key": key,
            "found": {"node_id": 0, "best": node, "device": 0, "host": 2},
        },
    ]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def trace(name: str, rows: list[Row], header: Row = HEADER, end: str = "\n") -> Path:
        path = tmp_path / name
        lines = [header, *({"seq": seq, **row} for seq, row in enumerate(rows))]
        path.write_text("\n".join(map(json.dumps, lines)) + end)
        return path

    return trace


def done(rows: list[Row]) -> list[Row]:
    for row in rows:
        if "done" in row:
            row["done"]["mamba_exist"] = True
    return rows


def test_names_are_the_runs_own(write: Write) -> None:
    a = write("a", done(story()))
    b = write("b", done(story(node=77, key="bb", slot=30, host=40)), {**HEADER, "core": "Other"})
    found = diff(a, b)
    assert (found.verdict, found.events, found.divergence) == ("holds", 8, None)
    assert diff(a).verdict == "holds"


def test_a_slot_is_known_by_its_turn_not_its_number(write: Write) -> None:
    reused = [*story(), *story(node=6, key="cc", slot=1, host=20)]
    fresh = [*story(), *story(node=6, key="cc", slot=7, host=20)]
    assert diff(write("a", done(reused)), write("b", done(fresh))).verdict == "holds"
    wrong = done([*story(), *story(node=6, key="cc", slot=7, host=20)])
    wrong[-2]["frees"] = [["device", "full", [[7, 1]]]]
    found = diff(write("c", done(reused)), write("d", wrong)).divergence
    assert found is not None
    assert found.seq == 14
    assert [(each.field, each.a, each.b) for each in found.fields] == [
        ("frees", {"device full": [5, 6]}, {"device full": [5]})
    ]


@pytest.mark.parametrize(
    ("change", "seq", "fields"),
    [
        (lambda rows: rows[4].update(node=0), 4, ["node"]),
        (lambda rows: rows[4].update(raised="KeyError"), 4, ["raised"]),
        (lambda rows: rows[7]["found"].update(host=1), 7, ["found"]),
        (lambda rows: rows[7].update(key="bb"), 7, ["key"]),
        (lambda rows: rows[3].update(ack=8), 3, ["ack"]),
        (lambda rows: rows.pop(5), 5, ["call", "frees"]),
        (lambda rows: rows.pop(), 7, ["call"]),
        (lambda rows: rows.append({"call": "reset"}), 8, ["call"]),
    ],
)
def test_the_first_call_at_which_they_part(
    write: Write, change: Callable[[list[Row]], object], seq: int, fields: list[str]
) -> None:
    rows = done(story())
    change(rows)
    found = diff(write("a", done(story())), write("b", rows)).divergence
    assert found is not None
    assert (found.seq, [each.field for each in found.fields]) == (seq, fields)
    assert found.a is None or found.a.startswith(f"{seq} ")


def test_what_is_free_text_of_a_core_does_not_count(write: Write) -> None:
    a, b = done(story()), done(story())
    a[5]["raised"], b[5]["raised"] = "AssertionError", "RuntimeError"
    b[6]["breaches"] = [["x", "y"]]
    assert diff(write("a", a), write("b", b)).verdict == "holds"


def test_settings_must_agree(write: Write) -> None:
    found = diff(write("a", []), write("b", [], {**HEADER, "page_size": 4})).divergence
    assert found is not None
    assert (found.rule, found.fields[0].field, found.fields[0].b) == ("header", "page_size", 4)


def test_alone_it_is_held_to_the_rules(write: Write) -> None:
    rows = done(story())
    rows.insert(3, {"call": "demote", "node": 5, "frees": [["device", "full", [[2, 1]]]]})
    found = diff(write("a", rows))
    assert (found.verdict, found.events) == ("violated", 4)
    at = found.divergence
    assert at is not None
    assert (at.seq, at.line, at.rule) == (3, 5, "safety.backup-source-stays")
    assert at.words == "device full slot 2 freed, and the backup of node 5 (call 1) reads it"
    assert at.recent == (
        "0 begin_insert(tokens=2)", "1 commit_backup(node=5)", "2 mark_write_through_pending(nodes=[5], ack=5)",
    )  # fmt: skip


def test_what_a_call_that_raised_gave_back_is_not_there(write: Write) -> None:
    rows = done(story())
    rows[4]["raised"] = "KeyError"  # so the unlock after it has no lock
    found = diff(write("a", rows)).divergence
    assert found is not None
    assert (found.seq, found.rule) == (5, "release.device-locks-belong-to-somebody")


def test_a_line_that_was_cut_off_is_left_out(write: Write) -> None:
    found = diff(write("a", done(story()), end='\n{"seq":8,"ca'))
    assert (found.verdict, found.events) == ("holds", 8)
    assert [Path(name).name for name in found.truncated] == ["a"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"seq":1,"call":"reset"}\n', "line 2: seq is 1, and 0 would be next"),
        ('{"seq":0}\n', "line 2: no call: KeyError"),
        ('{"seq":0,"call":"demote","frees":[[1]]}\n', "line 2: no call: ValueError"),
        ("[]\n", "line 2: not a JSON object"),
        ("{\n", "line 2: "),
    ],
)
def test_a_bad_line_is_named(write: Write, text: str, words: str) -> None:
    path = write("a", [])
    path.write_text(path.read_text() + text)
    with pytest.raises(BadTrace, match=words):
        diff(path)


def test_calls_and_events_do_not_compare(write: Write, recording: Path) -> None:
    calls = write("a", [])
    for pair in ((calls, recording), (recording, calls)):
        with pytest.raises(BadTrace, match="is no trace of calls"):
            diff(*pair)
    later = write("b", [], {**HEADER, "trace": "pinproof-shadow/2"})
    with pytest.raises(BadTrace, match="is no trace of calls"):
        diff(later)
