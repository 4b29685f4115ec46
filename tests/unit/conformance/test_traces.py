"""Traces are read strictly: what is wrong is told with its line, and nothing is made up."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from pinproof import specs
from pinproof.conformance.errors import BadEvent, BadTrace
from pinproof.conformance.events import Event, Header, NodeState, action_of, convert_event, event_args
from pinproof.conformance.trace import TraceReader, TraceWriter

Edit = Callable[[Callable[[list[str]], list[str]]], Path]


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    header = Header("pinproof/1", "write_through", ("full", "swa"), "x", 2, ["full"], {"host": {"full": 3}}, 7, "again")
    told = [
        Event(0, "insert_leaf", {"parent": 0, "leaf": 1}, "done", "", [("take", "device", "full", [3], ("node", 1))],
              {1: NodeState("D", lock_ref={"full": 1})}),
        Event(1, "delete_leaf", {"node": 1}, "done", post={1: None}),
        Event(2, "reset", {}, "refused", "busy"),
    ]  # fmt: skip
    with TraceWriter(tmp_path / "t", header) as writer:
        for event in told:
            writer.write(event)
    reader = TraceReader(tmp_path / "t")
    assert (reader.header, list(reader), reader.truncated) == (header, told, False)


def test_a_recording_fits_its_schema(recording: Path) -> None:
    schema = json.loads((specs.files() / "trace.schema.json").read_text())
    header, *lines = recording.read_text().splitlines()
    jsonschema.validate(json.loads(header), schema["$defs"]["header"] | {"$defs": schema["$defs"]})
    validator = jsonschema.Draft202012Validator(schema["$defs"]["event"] | {"$defs": schema["$defs"]})
    for line in lines:
        validator.validate(json.loads(line))


def test_a_last_line_that_was_cut_off_is_reported(edited: Edit) -> None:
    reader = TraceReader(edited(lambda lines: [*lines[:-1], lines[-1][:-9]]))
    seen = list(reader)
    assert reader.truncated
    assert seen[-1].seq == len(seen) - 1


BROKEN = {
    "not JSON": (lambda line: line[:-5] + "\n", "line 4"),
    "an unknown outcome": (
        lambda line: line.replace('"done"', '"perhaps"').replace('"refused"', '"perhaps"'),
        "outcome",
    ),
    "a gap": (lambda line: line.replace('"seq":2', '"seq":3'), "seq is 3, and 2 would be next"),
    "an unknown field": (lambda line: re.sub(r'"post":\{"(\d+)":\{', r'"post":{"\1":{"colour":1,', line), "colour"),
    "a node that is no number": (lambda line: re.sub(r'"post":\{"\d+"', '"post":{"x"', line), "line 4"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_malformed_line_is_told_by_its_number(edited: Edit, what: str) -> None:
    change, words = BROKEN[what]
    path = edited(lambda lines: [*lines[:3], change(lines[3]), *lines[4:]])
    with pytest.raises(BadTrace, match=re.escape(words)) as told:
        list(TraceReader(path))
    assert told.value.line == 4


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("", "no header"),
        ('{"seq": 0}', "trace"),
        ('{"trace": "pinproof/9", "policy": "write_back", "components": ["full"]}', "pinproof/9"),
        ('{"trace": "pinproof/1", "policy": "write_often", "components": ["full"]}', "policy"),
        ('{"trace": "pinproof/1", "policy": "write_back", "components": ["swa"]}', "components"),
        ('{"trace": "pinproof/1", "policy": "write_back", "components": ["full"], "sees": ["mood"]}', "mood"),
    ],
)
def test_a_header_that_makes_no_sense_is_refused(tmp_path: Path, first: str, words: str) -> None:
    (tmp_path / "t").write_text(first + "\n")
    with pytest.raises(BadTrace, match=words):
        TraceReader(tmp_path / "t")


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match="cannot be opened"):
        TraceReader(tmp_path / "nowhere")


def test_events_of_a_process_are_held_to_the_same_form() -> None:
    with pytest.raises(BadEvent, match=r"event 4: .*full"):
        convert_event({"seq": 4, "action": "x", "args": {}, "outcome": "done", "post": {"1": {"full": "Q"}}})


def test_component_names_go_both_ways() -> None:
    event = Event(0, "attach_aux", {"node": 3, "component": "swa"}, "done")
    assert action_of(event) == ("attach_aux.swa", {"node": 3})
    assert event_args("attach_aux.swa", {"node": 3}) == (event.action, event.args)
