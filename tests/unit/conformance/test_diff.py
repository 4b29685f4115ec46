"""The first divergence is found, wherever it is and whatever it is."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pinproof.conformance.diff import diff

Edit = Callable[[Callable[[list[str]], list[str]]], Path]


def test_a_recording_agrees_with_itself_and_with_the_protocol(recording: Path) -> None:
    for other in (None, recording):
        result = diff(recording, other)
        assert (result.verdict, result.divergence, result.truncated) == ("holds", None, ())
        assert result.events > 100


def alter(event: dict[str, Any], rng: random.Random) -> str:
    """Change one field of one node, or one argument; returns which."""
    shown = [n for n, state in event["post"].items() if state and n != "0"]
    node = event["post"][rng.choice(shown)]
    field = rng.choice(["full", "lock_ref", "host_lock_ref", "load_back_pending_id", "duplicate", "stored"])
    if field == "full":
        node["full"] = {"D": "DH", "DH": "D", "H": "D", "dH": "DH", "Dh": "DH"}[node["full"]]
    elif field.endswith("lock_ref"):
        node.setdefault(field, {})["full"] = node.get(field, {}).get("full", 0) + 1
    elif field == "load_back_pending_id":
        node[field] = node.get(field, 0) + 77
    else:
        node[field] = not node.get(field, False)
    return field


@pytest.mark.parametrize("seed", range(12))
def test_a_single_altered_field_is_found(edited: Edit, recording: Path, seed: int) -> None:
    rng = random.Random(seed)
    lines = recording.read_text().splitlines()
    candidates = [
        n
        for n, line in enumerate(lines)
        if n and any(s and i != "0" for i, s in json.loads(line).get("post", {}).items())
    ]
    at = rng.choice(candidates)
    event = json.loads(lines[at])
    field = alter(event, rng)
    path = edited(lambda all_: [*all_[:at], json.dumps(event) + "\n", *all_[at + 1 :]])
    for result in (diff(path), diff(recording, path)):
        assert result.verdict == "violated"
        assert result.divergence is not None
        assert (result.divergence.seq, result.divergence.line) == (at - 1, at + 1)
        assert [f.field.partition(".")[0] for f in result.divergence.fields] == [field]


def test_a_missing_event_is_found_and_explained(edited: Edit, recording: Path) -> None:
    def leave_out(lines: list[str]) -> list[str]:
        rows = [json.loads(line) for line in lines]
        at = next(n for n, row in enumerate(rows) if row.get("action") == "ack_backup")
        kept = rows[:at] + [row | {"seq": row["seq"] - 1} for row in rows[at + 1 :]]
        return [json.dumps(row) + "\n" for row in kept]

    result = diff(edited(leave_out))
    assert result.divergence is not None
    assert result.divergence.rule
    against = diff(recording, edited(leave_out)).divergence
    assert against is not None
    assert "action" in [f.field for f in against.fields]


def test_a_shorter_trace_parts_at_its_end(edited: Edit, recording: Path) -> None:
    result = diff(recording, edited(lambda lines: lines[:40]))
    assert result.divergence is not None
    assert (result.divergence.seq, result.divergence.b) == (39, None)
    cut = diff(edited(lambda lines: [*lines[:40], lines[40][:20]]))
    assert (cut.verdict, len(cut.truncated)) == ("holds", 1)


def test_other_settings_part_at_the_header(edited: Edit, recording: Path) -> None:
    other = edited(lambda lines: [lines[0].replace("write_back", "write_through"), *lines[1:]])
    divergence = diff(recording, other).divergence
    assert divergence is not None
    assert divergence.rule == "header"


def test_words_that_do_not_count_may_differ(edited: Edit, recording: Path) -> None:
    def tag(lines: list[str]) -> list[str]:
        return [lines[0], *(json.dumps(json.loads(line) | {"tag": "x"}) + "\n" for line in lines[1:])]

    assert diff(recording, edited(tag)).verdict == "holds"
