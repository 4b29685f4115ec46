"""Scenarios, counterexamples, explorations and ITF traces become stories that say what is wrong and why."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from pinproof.conformance.scenario import load, shipped
from pinproof.model.errors import BadArgument
from pinproof.model.instance import instance
from pinproof.model.mutants import mutant
from pinproof.proofs.explore import explore
from pinproof.proofs.itf import to_itf
from pinproof.view.page import render
from pinproof.view.reports import from_scenario
from pinproof.view.source import tell
from pinproof.view.sources import from_json, from_two_traces, open_source

SCENARIOS = [file.name.removesuffix(".toml") for file in shipped()]


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_has_a_page_on_which_nothing_is_wrong(name: str) -> None:
    scenario = load(name)
    for policy, components in scenario.settings:
        if scenario.step:
            told = tell(from_scenario(scenario, policy, components))
            assert told.violation is None, told.violation
            assert len(told.steps) == len(scenario.step)
            assert all(step.refused for step, s in zip(told.steps, scenario.step, strict=True) if s.expect == "refused")
    if scenario.step:
        assert set(told.names.values()) | {"root"} >= {
            v for s in scenario.step for k, v in s.args.items() if k == "node"
        }
        assert render(told).startswith("<!doctype html>")


def test_a_scenario_is_for_its_policies_only() -> None:
    scenario = load(SCENARIOS[0])
    with pytest.raises(BadArgument, match="is for"):
        from_scenario(scenario, "nope")  # type: ignore[arg-type]


def exploration(name: str, policy: Any = "write_back", components: Any = ("full",), size: int = 2) -> dict[str, Any]:
    faulty = mutant(name).instance(policy, components)
    found = explore(policy, components, size, size, instance=faulty)
    return {"verdict": "violated", "explorations": [{**asdict(found), "mutant": name}]}


def test_a_broken_property_says_what_is_so() -> None:
    told = tell(from_json(exploration("split-loses-pin"), "split.json"))
    found = told.violation
    assert found is not None
    assert (found.kind, found.rule, told.at) == ("property", "safety.full-source-is-pinned", len(told.steps) - 1)
    assert found.conjunct == "reads.full(n2, h2) implies load_back_pending(n2, h2)"
    assert [f.words for f in found.facts] == [
        "node 2: full host slots are copied to its device slots by load-back 2",
        "node 2 is not pinned by load-back 2",
    ]
    assert told.reproduce.endswith("--nodes 2 --holders 2 --mutant split-loses-pin")


def test_a_broken_promise_says_who_uses_what_is_freed() -> None:
    told = tell(from_json(exploration("demote-before-ack", size=1), "demote.json"))
    assert told.violation is not None
    assert (told.violation.kind, told.violation.rule) == ("promise", "demote/unused device.full")
    assert told.violation.conjunct == "not (device.full(n1) & (some h: writes.full(n1, h)))"
    assert told.violation.facts[-1].words == "node 1: full device slots are copied to its host slots by backup 1"


EXAMPLE = {
    "obligation": "write_back/full/reclaim_duplicate.promise.unused-host.full",
    "kind": "promise",
    "policy": "write_back",
    "components": ["full"],
    "action": "reclaim_duplicate",
    "args": {"node": 1},
    "subject": "unused host.full",
    "words": "nothing is freed while somebody uses it",
    "false": ["in words"],
    "before": {
        "parents": {"1": 0},
        "facts": {
            "live": [[0], [1]], "device.full": [[0], [1]], "host.full": [[0], [1]], "host_arrived.full": [[0], [1]],
            "reads.full": [[1, 1]], "load_back": [[1]], "tracked_duplicate": [[1]],
        },
    },
    "after": None,
}  # fmt: skip


def test_a_counterexample_to_induction_begins_in_its_state() -> None:
    told = tell(from_json({"verdict": "violated", "counterexamples": [EXAMPLE]}, "prove.json"))
    assert told.tree(-1)[1] == {"parent": 0, "full": "dH", "duplicate": 1}
    assert told.violation is not None
    assert told.violation.rule == "reclaim_duplicate/unused host.full"
    assert told.violation.facts[-1].words == "node 1: full host slots are copied to its device slots by load-back 1"
    assert "may not be reachable" in told.note


def test_a_counterexample_to_a_property_keeps_its_own_words() -> None:
    example = {
        **EXAMPLE,
        "kind": "consecution",
        "subject": "safety.load-back-source-stays.full",
        "after": EXAMPLE["before"],
    }
    told = tell(from_json(example, "x"))
    assert told.violation is not None
    assert [f.words for f in told.violation.facts] == ["in words"]


def test_itf_is_read_back(tmp_path: Path) -> None:
    trace: Any = exploration("reclaim-ignores-pin")["explorations"][0]["violation"]["trace"]
    file = tmp_path / "early.itf.json"
    file.write_text(json.dumps(to_itf(instance("write_back", ("full",)), trace, description="early")))
    told = tell(open_source(file))
    assert (told.title, len(told.steps), told.at) == ("early", len(trace), len(trace) - 1)
    assert told.violation is not None
    assert told.violation.rule.startswith("reclaim_duplicate/")


def test_two_traces_part_where_they_first_differ(tmp_path: Path) -> None:
    header = '{"trace":"pinproof/1","policy":"write_back","components":["full"]}'
    row = '{{"seq":{},"action":"{}","args":{},"outcome":"done","post":{{"1":{}}}}}'
    born = row.format(0, "insert_leaf", '{"parent":0,"leaf":1}', '{"full":"D"}')
    files = []
    for name, action, state in (("a", "begin_backup", '{"full":"Dh"}'), ("b", "begin_backup", '{"full":"DH"}')):
        args = '{"node":1,"top":1,"holder":1}'
        files.append(tmp_path / f"{name}.ndjson")
        files[-1].write_text("\n".join([header, born, row.format(1, action, args, state)]) + "\n")
    told = tell(from_two_traces(*files))
    assert told.at == 1
    assert told.violation is not None
    assert told.violation.title == "Two traces part here"
    assert [(d.node, d.field, d.expected, d.observed) for d in told.violation.differences] == [(1, "full", "DH", "Dh")]
    assert tell(from_two_traces(files[0], files[0])).violation is None


def test_itf_is_as_its_description_says() -> None:
    """Apalache's ADR 015: `#meta`, `params`, `vars`, `states`; every state has every variable; sets, maps and tuples
    are objects of one key.
    """
    trace: Any = exploration("reclaim-ignores-pin")["explorations"][0]["violation"]["trace"]
    told = json.loads(json.dumps(to_itf(instance("write_back", ("full",)), trace, description="<b>`\n" * 1000)))
    assert told["#meta"]["format"] == "ITF"
    assert set(told) <= {"#meta", "params", "vars", "states", "loop"}
    assert told["states"]
    for number, state in enumerate(told["states"]):
        assert state["#meta"]["index"] == number
        assert set(told["vars"]) == set(state) - {"#meta"}
        for value in state.values():
            expression(value)


def expression(value: Any) -> None:
    """One of the expressions of ITF."""
    match value:
        case bool() | str() | int():
            assert not isinstance(value, int) or abs(value) < 2**53
        case list():
            for inner in value:
                expression(inner)
        case dict():
            special = [key for key in value if key.startswith("#")]
            assert special in ([], ["#meta"], ["#bigint"], ["#tup"], ["#set"], ["#map"], ["#unserializable"])
            for key, inner in value.items():
                if key == "#map":
                    assert all(len(pair) == 2 for pair in inner)
                expression(inner)
        case _:
            raise AssertionError(value)
