"""The trace viewer in a browser: it loads in silence, is driven by the keyboard, and fits small and large windows."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from pinproof.conformance.scenario import load, shipped
from pinproof.view.page import render
from pinproof.view.reports import from_scenario, from_steps
from pinproof.view.source import tell
from pinproof.view.sources import open_source

SCRIPT = [
    ("insert_leaf", {"parent": 0, "leaf": 1}),
    ("insert_leaf", {"parent": 1, "leaf": 2}),
    ("attach_aux.swa", {"node": 2}),
    ("begin_backup", {"node": 2, "top": 1, "holder": 1}),
    ("split", {"node": 2, "prefix": 3}),
    ("ack_backup", {"holder": 1}),
    ("demote", {"node": 2}),
    ("demote", {"node": 3}),
    ("demote", {"node": 1}),
    ("begin_load_back", {"node": 2, "boundary": 3, "holder": 2}),
    ("commit_load_back", {"node": 2, "holder": 2}),
    ("reclaim_duplicate", {"node": 3}),
    ("ack_load_back", {"node": 2, "holder": 2}),
]
AT = 11
HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\u2028`${1}"
HUGE = "x" * 1_000_000


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a short story with a violation."""
    rows = [{"action": action, "args": args} for action, args in SCRIPT]
    steps = {"policy": "write_back", "components": "full+swa", "title": "Early reclaim", "step": rows}
    story = tell(from_steps(steps, "x", "pinproof replay x"))
    assert story.at == AT
    file = tmp_path_factory.mktemp("pages") / "scenario.html"
    file.write_text(render(story))
    return file


def step(page: Any) -> int:
    return int(page.run("document.getElementById('seq').value"))


def test_the_keyboard_leads_to_the_violation(clean: Any, scenario: Path) -> None:
    clean.open(scenario, "#step=0")
    assert step(clean) == 0
    clean.press("ArrowRight")
    clean.press("ArrowRight")
    assert step(clean) == 2
    clean.press("ArrowLeft")
    assert step(clean) == 1
    clean.press("v")
    assert step(clean) == AT
    assert "reclaimed" in clean.run("document.getElementById('now').textContent")
    assert clean.run("document.querySelector('.row.accused').dataset.node") == "3"
    clean.press("Home")
    assert step(clean) == 0
    clean.press("End")
    assert step(clean) == len(SCRIPT) - 1


def test_a_page_with_a_violation_opens_there_and_says_why(clean: Any, scenario: Path) -> None:
    clean.open(scenario)
    assert step(clean) == AT
    told = clean.run("document.getElementById('breach').innerText")
    for words in (
        "reclaim_duplicate only when",
        "tracked_duplicate(n3)",
        "node 3 is pinned by load-back 2",
        "replay x",
    ):
        assert words in told
    assert clean.run("document.getElementById('verdict').textContent") == "violated"


def test_a_link_leads_to_a_step_and_a_filter(clean: Any, scenario: Path) -> None:
    clean.open(scenario, "#step=4&filter=3")
    assert step(clean) == 4
    assert clean.run("document.getElementById('filter').value") == "3"
    clean.press("ArrowRight")
    assert clean.run("location.hash") == "#step=5&filter=3"


def test_the_filter_passes_over_other_steps(clean: Any, scenario: Path) -> None:
    clean.open(scenario, "#step=0")
    clean.press("/")
    for key in "h2":
        clean.call("Input.insertText", text=key)
    assert clean.run("document.activeElement.id") == "filter"
    assert clean.run("document.getElementById('matches').textContent") == "3 of 13 steps"
    clean.press("Escape")
    assert clean.run("document.getElementById('filter').value") == ""
    clean.run("[...document.querySelectorAll('#tree .node')].find(b => b.textContent === '1').click()")
    assert clean.run("document.getElementById('filter').value") == "1"


def test_the_tree_is_the_one_at_the_step(clean: Any, scenario: Path) -> None:
    """Going back and forth ends in the same tree, and it is what the model says."""
    nodes = "[...document.querySelectorAll('#tree .row[data-node]')].map(r => r.dataset.node).join()"
    clean.open(scenario, "#step=4")
    assert clean.run(nodes) == "0,1,3,2"
    before = clean.run("document.getElementById('tree').innerText")
    clean.press("End")
    clean.press("Home")
    assert clean.run(nodes) == "0,1"
    for _ in range(4):
        clean.press("ArrowRight")
    assert clean.run("document.getElementById('tree').innerText") == before


def test_every_control_can_be_reached_and_seen(clean: Any, scenario: Path) -> None:
    clean.open(scenario, "#step=4")
    seen = []
    for _ in range(40):
        clean.press("Tab")
        clean.call("Input.dispatchKeyEvent", type="rawKeyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9)
        seen.append(clean.run("document.activeElement.id || document.activeElement.dataset.go || ''"))
        outline = clean.run("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none" or seen[-1] == "", seen[-1]
    assert {"seq", "filter", "lanes", "list", "theme", "help-open", "to-violation"} <= set(seen)
    nameless = clean.run(
        "[...document.querySelectorAll('button, input, [role=slider], [role=listbox]')].filter(e => !e.hidden && "
        "!(e.textContent.trim() || e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || "
        "(e.labels && e.labels.length))).map(e => e.outerHTML)"
    )
    assert nameless == []


@pytest.mark.parametrize("name", [file.name.removesuffix(".toml") for file in shipped()])
def test_the_page_of_a_scenario_opens_and_can_be_stepped_through(clean: Any, tmp_path: Path, name: str) -> None:
    scenario = load(name)
    if not scenario.step:
        pytest.skip("it has operations only")
    page = tmp_path / "scenario.html"
    page.write_text(render(tell(from_scenario(scenario))))
    clean.open(page, width=390, height=844)
    for number in range(len(scenario.step)):
        assert step(clean) == number
        clean.press("ArrowRight")
    assert clean.run("document.documentElement.scrollWidth") <= 390
    assert clean.run("document.querySelectorAll('#tree .row').length") >= 1


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_it_fits_and_can_be_read(clean: Any, scenario: Path, width: int, height: int, dark: bool) -> None:
    clean.open(scenario, width=width, height=height, dark=dark)
    assert clean.run("document.documentElement.scrollWidth") <= width
    assert len(zlib.compress(clean.screenshot())) > 15_000
    pale = clean.run(Path(__file__).with_name("contrast.js").read_text())
    assert pale == []


def test_nothing_from_a_trace_becomes_markup(clean: Any, tmp_path: Path) -> None:
    header = {
        "trace": "pinproof/1",
        "policy": "write_back",
        "components": ["full"],
        "target": HOSTILE,
        "title": HOSTILE,
    }
    events: list[dict[str, Any]] = [
        {
            "seq": 0,
            "action": "insert_leaf",
            "args": {"parent": 0, "leaf": 1},
            "tag": HOSTILE,
            "post": {"1": {"full": "D"}},
        },
        {"seq": 1, "action": HOSTILE, "args": {"node": 1}, "outcome": "refused", "reason": HOSTILE, "post": {}},
        {
            "seq": 2,
            "action": "demote",
            "args": {"node": 1, HOSTILE: HOSTILE},
            "outcome": "done",
            "tag": "x" * 1_000_000,
        },
    ]
    trace = tmp_path / "hostile.ndjson"
    trace.write_text("\n".join(json.dumps(row) for row in [header, *events]) + "\n")
    text = render(tell(open_source(trace)))
    assert len(text) < 300_000
    page = tmp_path / "<img src=x onerror=alert(1)>.html"
    page.write_text(text)
    for number in range(3):
        clean.open(page, f"#step={number}&filter=%3Cimg%20src=x%3E")
        assert clean.run("document.images.length") == 0
        assert clean.run("document.scripts.length") == 2
        assert "pinproof" in clean.run("document.title")


def test_a_trace_of_200_000_events(clean: Any, tmp_path: Path) -> None:
    """The page keeps what is around the violation, and an overview of all."""
    trace = tmp_path / "long.ndjson"
    rounds, at = 25_000, 150_000
    with trace.open("w") as file:
        file.write('{"trace": "pinproof/1", "policy": "write_back", "components": ["full"], "target": "long"}\n')
        for number in range(rounds):
            file.write(cycle(number, broken=number == at // 8))
    source = open_source(trace)
    story = tell(source, budget=1_000_000)
    assert (story.overview.total, story.at) == (8 * rounds, at + 4)
    page = tmp_path / "long.html"
    page.write_text(render(story))
    assert page.stat().st_size < 4_000_000
    clean.open(page)
    assert step(clean) == at + 4
    clean.press("Home")
    assert step(clean) == story.first
    clean.press("v")
    assert step(clean) == at + 4
    assert clean.run("document.querySelectorAll('#overview .wrong').length") == 1
    assert clean.run("document.querySelectorAll('#list .line').length") < 100


def cycle(number: int, *, broken: bool) -> str:
    """Eight events: a leaf is inserted, locked, backed up, let go, and taken out again."""
    seq, node, one, two = 8 * number, number + 1, 2 * number + 1, 2 * number + 2
    locked = '"lock_ref":{"full":1}'
    fifth = ("demote", f'"node":{node}', '{"full":"H"}') if broken else ("forward", f'"node":{node},"holder":{one}', "")
    rows = [
        ("insert_leaf", f'"parent":0,"leaf":{node}', '{"full":"D"}'),
        ("lock", f'"node":{node},"holder":{one}', f'{{"full":"D",{locked}}}'),
        ("begin_backup", f'"node":{node},"top":{node},"holder":{two}', f'{{"full":"Dh",{locked},"host_{locked[1:]}}}'),
        ("ack_backup", f'"holder":{two}', f'{{"full":"DH",{locked},"duplicate":true}}'),
        fifth,
        ("unlock", f'"holder":{one}', '{"full":"DH","duplicate":true}'),
        ("demote", f'"node":{node}', '{"full":"H"}'),
        ("evict_host_leaf", f'"node":{node}', "null"),
    ]
    told = []
    for i, (action, args, post) in enumerate(rows):
        seen = f'{{"{node}":{post}}}' if post else "{}"
        told.append(f'{{"seq":{seq + i},"action":"{action}","args":{{{args}}},"outcome":"done","post":{seen}}}\n')
    return "".join(told)
