"""Two targets side by side: they agree where they are the same, and part where one of them has a fault."""

from __future__ import annotations

import pytest
from pinproof.conformance.errors import ConformanceError
from pinproof.conformance.events import Event
from pinproof.conformance.faults import FAULTS, Edit, Fault, injected
from pinproof.conformance.lockstep import lockstep
from pinproof.conformance.pairing import Pairing, common
from pinproof.conformance.parting import LockstepResult
from pinproof.conformance.targets.base import Answer
from pinproof.model.vocabulary import COMPONENT_SETS, POLICIES, Component, Policy

ALL: tuple[Component, ...] = ("full", "swa", "mamba")
YOUNGEST_FIRST = Fault(
    "youngest-first", "Eviction takes what was used last.", "",
    (Edit("eviction:Queue._rank_pushed", "(self.rank(node), node.id", "(-self.rank(node), node.id"),
     Edit("eviction:Queue.pop", "now = self.rank(node)", "now = -self.rank(node)")),
)  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("components", COMPONENT_SETS, ids="+".join)
def test_two_of_the_same_agree(policy: Policy, components: tuple[Component, ...]) -> None:
    found = lockstep("impl", "impl", policy, components, 150, 2)
    assert (found.verdict, found.parted, found.violations) == ("holds", {}, {})
    # The sometimes: something was compared, refusals among it, and nothing left out.
    assert found.compared["answers"] >= 150
    assert min(found.compared[kind] for kind in ("events", "states of nodes", "slots")) > 80
    assert any(action.endswith(" refused") for action in found.coverage)
    assert found.unseen == ()


def test_so_does_one_in_another_process_and_in_batches() -> None:
    for batch in (0, 6):
        found = lockstep("impl", "worker:impl", "write_back", ALL, 100, 3, batch=batch)
        assert (found.verdict, found.targets) == ("holds", ("impl", "worker:impl"))
        assert found.compared["events"] > 50


def test_single_actions_go_to_both_where_there_is_nothing_else() -> None:
    assert lockstep("reference", "worker:reference", "write_back", ALL, 100, 3).verdict == "holds"


def parted(fault: Fault, steps: int = 400) -> LockstepResult:
    """The healthy cache in a process of its own beside the faulty one in this."""
    with injected(fault):
        return lockstep("impl", "worker:impl", fault.policy, fault.components, steps, 1)


def test_a_choice_that_the_protocol_allows_is_a_divergence_all_the_same() -> None:
    found = parted(YOUNGEST_FIRST)
    assert (found.verdict, found.violations) == ("violated", {})
    first = found.divergence
    assert first is not None
    assert {field.field for field in first.fields} >= {"args"}
    assert first.a != first.b
    shortest = next(iter(found.parted.values())).scenario
    assert shortest is not None
    assert len(shortest.op) <= 5
    assert "--against worker:impl" in found.reproduce


@pytest.mark.parametrize("name", ["mark-forgotten-on-split", "slots-swapped-on-split", "pins-under-every-policy"])
def test_a_fault_in_one_of_the_two_is_a_divergence(name: str) -> None:
    found = parted(FAULTS[name], 200)
    assert found.divergence is not None
    assert ("a impl" in found.violations) is (name != "slots-swapped-on-split")
    assert "b worker:impl" not in found.violations


def test_two_that_have_nothing_in_common_are_told() -> None:
    with pytest.raises(ConformanceError, match=r"impl:threads and reference have no operations in common"):
        lockstep("impl:threads", "reference", steps=10)


# What counts
def answer(*events: tuple[str, dict[str, int]], slots: list[object] | None = None, **result: object) -> Answer:
    told = [
        Event(seq, action, args, "done", slots=slots or [], post={})  # type: ignore[arg-type]
        for seq, (action, args) in enumerate(events)
    ]
    return Answer(True, result, None, told)


def differ(*pairs: tuple[Answer, Answer]) -> list[str]:
    """The fields in which the last pair differs."""
    pairing = Pairing(None, None)
    for a, b in pairs[:-1]:
        assert pairing.differences(a, b) == ()
    return [field.field for field in pairing.differences(*pairs[-1])]


LEAF, OTHER = ("insert_leaf", {"parent": 0, "leaf": 1}), ("insert_leaf", {"parent": 0, "leaf": 7})


def test_names_are_learnt_by_birth() -> None:
    born = (answer(LEAF, node=1), answer(OTHER, node=7))
    assert differ(born) == []
    assert differ(born, (answer(("demote", {"node": 1})), answer(("demote", {"node": 7})))) == []
    assert differ(born, (answer(("demote", {"node": 1})), answer(("demote", {"node": 1})))) == ["args"]
    assert differ((answer(LEAF, node=1), answer(OTHER, node=1))) == ["result.node"]


def test_the_order_within_an_answer_does_not_count_and_what_is_missing_does() -> None:
    lock, split = ("lock", {"node": 0, "holder": 1}), ("split", {"node": 0, "prefix": 3})
    assert differ((answer(lock, split), answer(split, lock))) == []
    assert differ((answer(lock, split), answer(lock))) == ["event"]
    assert differ((answer(lock), answer(lock, split))) == ["event"]


def test_slots_are_known_by_who_took_them_and_in_which_place() -> None:
    def row(verb: str, *slots: int) -> list[object]:
        return [(verb, "device", "full", list(slots), ("node", 1))]

    took = (answer(LEAF, slots=row("take", 4, 5)), answer(LEAF, slots=row("take", 8, 9)))
    drop = ("delete_leaf", {"node": 1})
    assert differ(took) == []
    assert differ(took, (answer(drop, slots=row("give", 5, 4)), answer(drop, slots=row("give", 8, 9)))) == []
    assert differ(took, (answer(drop, slots=row("give", 5)), answer(drop, slots=row("give", 8)))) == [
        "give device full of node 1"
    ]
    assert differ((took[0], answer(LEAF, slots=row("take", 8)))) == ["take device full of node 1"]


def test_only_what_both_see_is_compared() -> None:
    assert common(None, ["full", "lock_ref.full"]) == ["full", "lock_ref.full"]
    assert common(["full", "lock_ref"], None) == ["full", "lock_ref"]
    assert Pairing(None, ["full", "lock_ref.full"]).unseen == (
        "swa", "mamba", "host_lock_ref", "load_back_pending_id", "write_through_pending_id", "duplicate", "stored",
    )  # fmt: skip
