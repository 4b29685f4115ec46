"""The reference machine: what it accepts, refuses and shows."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from pinproof.model.algebra import Guard
from pinproof.model.errors import BadArgument, UnknownName
from pinproof.model.instance import instance, instances
from pinproof.model.machine import ReferenceMachine
from pinproof.model.vocabulary import COMPONENT_SETS
from pinproof.model.walk import random_walk


def run(machine: ReferenceMachine, *steps: tuple[str, dict[str, int]]) -> None:
    for name, args in steps:
        outcome = machine.step(name, args)
        assert outcome, (name, args, outcome.guard)


def host_only_chain(machine: ReferenceMachine, *chain: int) -> None:
    """root → chain[0] → chain[1] …, FULL on the host only."""
    for parent, leaf in zip((0, *chain), chain, strict=False):
        run(machine, ("insert_leaf", {"parent": parent, "leaf": leaf}))
    for number, node in enumerate(chain):
        holder = 900 + number
        run(
            machine, ("begin_backup", {"node": node, "top": node, "holder": holder}), ("ack_backup", {"holder": holder})
        )
    for node in reversed(chain):
        run(machine, ("demote", {"node": node}))


def test_a_round_trip_under_write_back() -> None:
    m = ReferenceMachine("write_back")
    host_only_chain(m, 1, 2)
    assert m.project(2) == {"full": "H"}
    run(m, ("begin_load_back", {"node": 2, "boundary": 2, "holder": 7}))
    assert m.project(2) == {"full": "H", "host_lock_ref": {"full": 1}}
    run(m, ("commit_load_back", {"node": 2, "holder": 7}))
    assert m.project(1) == {"full": "dH", "lock_ref": {"full": 1}, "load_back_pending_id": 7}
    assert m.step("reclaim_duplicate", {"node": 1}).verdict == "senseless", "not tracked before the ack"
    run(m, ("ack_load_back", {"node": 2, "holder": 7}))
    assert m.project(1) == {"full": "DH", "duplicate": True}
    run(m, ("reclaim_duplicate", {"node": 1}))
    assert m.project(1) == {"full": "D"}


def test_nothing_is_pinned_under_write_through() -> None:
    m = ReferenceMachine("write_through_selective")
    host_only_chain(m, 1)
    run(m, ("begin_load_back", {"node": 1, "boundary": 1, "holder": 7}), ("commit_load_back", {"node": 1, "holder": 7}))
    assert "load_back_pending_id" not in (m.project(1) or {})
    # What is being read is no duplicate yet, so that nobody needs a pin to keep it.
    assert m.step("reclaim_duplicate", {"node": 1}).verdict == "senseless"
    run(m, ("ack_load_back", {"node": 1, "holder": 7}), ("reclaim_duplicate", {"node": 1}))
    assert m.project(1) == {"full": "D"}


def test_namespaces_do_not_meet() -> None:
    """Node 1 and operation 7 are of the watched namespace, 2 and 8 of another; the root is everybody's."""
    m = ReferenceMachine("write_back")
    m.state.marks["watched"].update((1, 3))
    m.state.marks["watched_by"].add(7)
    run(m, ("insert_leaf", {"parent": 0, "leaf": 1}), ("insert_leaf", {"parent": 0, "leaf": 2}))
    for node, holder, verdict in ((1, 8, "senseless"), (2, 7, "senseless"), (1, 7, "done"), (2, 8, "done")):
        assert m.step("lock", {"node": node, "boundary": node, "holder": holder}).verdict == verdict
    for action, args in (
        ("insert_leaf", {"parent": 2, "leaf": 3}),
        ("split", {"node": 2, "prefix": 3}),
        ("insert_leaf", {"parent": 1, "leaf": 4}),
    ):
        assert "namespace" in m.step(action, args).guard.words
    run(m, ("insert_leaf", {"parent": 1, "leaf": 3}), ("begin_prefetch", {"node": 0, "holder": 9}))
    run(m, ("complete_prefetch", {"holder": 9}))
    m.state.marks["watched"].add(5)
    told = m.step("insert_host", {"parent": 0, "leaf": 5, "holder": 9})
    assert told.guard.words == "the pages were read for its namespace"
    run(m, ("insert_host", {"parent": 0, "leaf": 6, "holder": 9}))
    assert list(m.violations()) == []


@pytest.mark.parametrize("components", COMPONENT_SETS)
def test_a_path_of_ten_thousand_nodes(components: tuple[str, ...]) -> None:
    m = ReferenceMachine("write_back", components)
    for node in range(1, 10_001):
        run(m, ("insert_leaf", {"parent": node - 1, "leaf": node}))
    run(m, ("lock", {"node": 10_000, "boundary": 10_000, "holder": 1}), ("unlock", {"holder": 1}))
    assert m.project(10_000) == {"full": "D"}


def test_refusals_name_their_guard_and_change_nothing() -> None:
    m = ReferenceMachine("write_back")
    run(m, ("insert_leaf", {"parent": 0, "leaf": 1}), ("lock", {"node": 1, "boundary": 1, "holder": 5}))
    before = m.project(1)
    outcome = m.step("delete_leaf", {"node": 1})
    assert (outcome.verdict, outcome.guard.words) == ("refused", "no device lock")
    assert m.project(1) == before


def test_an_empty_answer_needs_an_excuse() -> None:
    m = ReferenceMachine("write_back")
    host_only_chain(m, 1)
    run(m, ("begin_load_back", {"node": 1, "boundary": 1, "holder": 7}))
    outcome = m.step("refuse_load_back", {"node": 1, "holder": 7})
    assert (outcome.verdict, outcome.guard.words) == ("unjustified", "FULL is on the device")


def test_bad_arguments_are_named() -> None:
    m = ReferenceMachine("write_back")
    with pytest.raises(UnknownName, match="unknown action 'demot'; there is demote"):
        m.step("demot", {"node": 1})
    with pytest.raises(BadArgument, match=r"demote takes \(node\), got \(leaf\)"):
        m.step("demote", {"leaf": 1})
    with pytest.raises(UnknownName, match="unknown policy 'write_bak'"):
        instance("write_bak", ("full",))
    with pytest.raises(UnknownName, match=r"unknown component set 'swa'"):
        instance("write_back", ("swa",))
    assert m.step("demote", {"node": 5}).guard.words == "node is not in the tree"
    assert m.step("demote", {"node": 0}).guard.words == "node is the root"


WALKS = [(i, seed) for i in instances() for seed in range(3)]


@pytest.mark.parametrize(("inst", "seed"), WALKS, ids=[f"{i.name}-{s}" for i, s in WALKS])
def test_walks_keep_every_property(inst, seed: int) -> None:
    m = ReferenceMachine(inst)
    for _ in range(4):
        for name, args, outcome in random_walk(m, Random(seed), 60, nodes=5, holders=3):
            assert outcome, (name, args, outcome.guard)
        assert [(rule.id, where) for rule, where in m.violations()] == []


@pytest.mark.parametrize("inst", list(instances()), ids=lambda i: i.name)
def test_every_action_happens_and_every_protection_refuses(inst) -> None:
    """The 'sometimes' beside the 'always': no action is dead text, no refusal is."""
    done, refused = set(), set()
    for seed in range(40):
        m = ReferenceMachine(inst)
        for name, _, outcome in random_walk(m, Random(seed), 1_500, refused=True):
            assert outcome.verdict != "violated"
            (done if outcome else refused).add(name)
        if inst.actions.keys() - done <= {"reset"} and seed > 8:
            break
    assert ReferenceMachine(inst).step("reset", {})
    assert done == inst.actions.keys() - {"reset"}
    guarded = {a.name for a in inst.actions.values() if any(a.guards("require"))}
    assert refused >= guarded - MOOT - {"reset"}


# Their danger is a transfer in flight on the very node, which a random walk meets too rarely to insist on.
MOOT = {
    "backup_aux.swa",
    "backup_aux.mamba",
    "begin_backup",
    "forward",
    "evict_device_aux.swa",
    "evict_device_aux.mamba",
}


def test_a_broken_text_is_caught_by_its_promise() -> None:
    """The red beside the green: without its guard, freeing a locked leaf breaks a promise at once."""
    good = instance("write_back", ("full",))
    action = good.actions["delete_leaf"]
    unguarded = replace(action, steps=tuple(s for s in action.steps if not isinstance(s, Guard) or s.kind != "require"))
    m = ReferenceMachine(replace(good, actions={**good.actions, "delete_leaf": unguarded}))
    run(m, ("insert_leaf", {"parent": 0, "leaf": 1}), ("lock", {"node": 1, "boundary": 1, "holder": 5}))
    outcome = m.step("delete_leaf", {"node": 1})
    assert (outcome.verdict, outcome.guard.name) == ("violated", "unused device.full")
