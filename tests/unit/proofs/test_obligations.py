"""The parts of an obligation that are not z3."""

from __future__ import annotations

import pytest
from pinproof.model.algebra import HOLDER, NODE, Assign, Var, someone
from pinproof.model.errors import UnknownName
from pinproof.model.instance import instance, instances
from pinproof.model.machine import ReferenceMachine
from pinproof.model.vocabulary import FULL, PHASES, device, host, load_back_pending, request
from pinproof.model.words import in_words, steps_in_words
from pinproof.proofs.counterexample import find
from pinproof.proofs.obligations import (
    ENDS,
    FAILURES,
    KINDS,
    SECOND_LINE,
    antecedents,
    script,
    script_names,
    slug,
)
from pinproof.proofs.picture import picture

N, H = Var("n", NODE), Var("h", HOLDER)


def test_kinds_all_occur() -> None:
    found = instance("write_back", ("full", "swa"))
    kinds = {o.kind for name in script_names(found) for o in script(found, name, lambda *_: True).obligations()}
    assert kinds == set(KINDS)


def test_second_lines_name_guards_that_exist_and_the_property_before_them() -> None:
    guards = {
        (a.name.split(".")[0], g.name.split(" of ")[0])
        for i in instances()
        for a in i.actions.values()
        for g in a.guards("require")
    }
    for (action, name, policy), keeper in SECOND_LINE.items():
        assert (action, name.split(" of ")[0]) in guards
        assert any(i.property(keeper) for i in instances() if i.setting.policy.startswith(policy))


def test_failures_are_actions() -> None:
    assert set(instance("write_back", ("full",)).actions) >= FAILURES


def test_ends_are_the_actions_that_leave_a_phase_for_no_other() -> None:
    found = set()
    for action in instance("write_back", ("full",)).actions.values():
        values = {s.value for s in action.steps if isinstance(s, Assign) and s.relation in PHASES}
        found |= {action.name} if values == {False} else set()
    assert found == ENDS


def test_antecedents() -> None:
    a, b = device[FULL](N), host[FULL](N)
    assert list(antecedents(a.implies(b))) == [a]
    assert list(antecedents(a.implies(~b))) == [a]
    assert list(antecedents(~(a & b))) == [a, b]
    assert list(antecedents(a.implies(b) & b.implies(a))) == [a, b]
    assert list(antecedents(~a)) == []


def test_slugs() -> None:
    assert slug("no backup of full reads it") == "no-backup-of-full-reads-it"
    assert slug("unused device.swa (2)") == "unused-device.swa-2"


def test_only_what_is_wanted_is_written_down() -> None:
    text = script(instance("write_back", ("full",)), "split", lambda kind, subject, _: subject == "safety.anchor-stays")
    assert [o.id for o in text.obligations()] == ["write_back/full/split.consecution.safety.anchor-stays"]


@pytest.mark.parametrize(
    "identifier", ["write_back/full/split.promise.nothing", "elsewhere/full/split.vacuity.happens"]
)
def test_an_unknown_obligation_is_told(identifier: str) -> None:
    with pytest.raises(UnknownName, match="obligation"):
        find(instance("write_back", ("full",)), identifier)


def test_a_picture_is_read_back() -> None:
    relations = instance("write_back", ("full",)).relations
    found = instance("write_back", ("full",))
    machine = ReferenceMachine(found)
    machine.step("insert_leaf", {"parent": 0, "leaf": 1})
    machine.step("lock", {"node": 1, "boundary": 0, "holder": 7})
    seen = picture(machine.state)
    assert seen.parents == {1: 0}
    assert seen.facts["device_lock.full"] == [[0, 7], [1, 7]]
    assert picture(seen.state(relations)) == seen


def test_words() -> None:
    rule = instance("write_back", ("full",)).property("permissiveness.pins-only-where-full-is-read")
    assert in_words(rule.formula, {"n": "node 3", "h": "holder 5"}) == (
        "if node 3 is pinned by load-back holder 5, "
        "then node 3's full host slots are copied to its device slots by load-back holder 5"
    )
    assert in_words(~someone(load_back_pending, N)) == "n is pinned by load-back nobody"
    assert in_words(request(H)) == "h is a request"
    lines = list(steps_in_words(instance("write_back", ("full",)).actions["split"]))
    assert lines[0].startswith("expect both are of one namespace: node is the root or (")
    assert lines[1] == "prefix is put above node"
    assert "prefix inherits load_back_pending from node" in lines
