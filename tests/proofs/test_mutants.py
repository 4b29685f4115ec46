"""Each faulty protocol is refuted by the obligation that it names, wherever it says that it bites."""

from __future__ import annotations

import io
from collections import Counter

import pytest
from pinproof.model.algebra import Guard
from pinproof.model.edits import StaleEdit, Without, apply
from pinproof.model.instance import instance
from pinproof.model.machine import ReferenceMachine
from pinproof.model.mutants import MUTANTS, SHAPES
from pinproof.model.protocol import Setting
from pinproof.proofs.counterexample import Counterexample, find, is_reached
from pinproof.proofs.mutation import MutationReport, Trial, run_mutants, try_mutant
from pinproof.view.example import counterexample
from rich.console import Console

ONE_OF_EACH_SHAPE = {m.shape: m.id for m in MUTANTS.values()}


@pytest.mark.parametrize("identifier", MUTANTS)
def test_a_mutant_is_killed_wherever_it_bites(identifier: str) -> None:
    report = run_mutants([identifier], jobs=1)
    assert report.survivors == ()
    assert report.verdict == "holds"
    assert report.trials


def test_the_shapes_of_the_reports_are_covered() -> None:
    counts = Counter(m.shape for m in MUTANTS.values())
    assert len(MUTANTS) == 76
    assert set(SHAPES) - set(counts) == {11}
    assert all(m.report and "#" in m.report for m in MUTANTS.values())


def test_a_harmless_mutant_survives() -> None:
    """The red beside the green: a second line of defence may go, and then the run must say so."""
    harmless = MUTANTS["reclaim-ignores-pin"]
    trial = try_mutant(
        type(harmless)(
            "harmless", 1, "", "", harmless.caught_by, (Without("reclaim_duplicate", guards=("not pinned",)),)
        ),
        "write_back",
        ("full",),
    )
    assert trial.proved == ("write_back/full/reclaim_duplicate.promise.unused-host.full",)
    assert not trial.killed
    report = MutationReport((trial,), 0.0)
    assert (report.verdict, report.killed, report.survivors) == ("violated", 0, (trial,))


def test_an_unknown_does_not_kill() -> None:
    trial = Trial("x", "write_back", ("full",), (), (), ("write_back/full/split.consecution.safety.anchor-stays",))
    assert not trial.killed


def test_an_edit_that_changes_nothing_is_an_error() -> None:
    with pytest.raises(StaleEdit, match="no such guard"):
        apply((Without("split", guards=("no such guard",)),), Setting("write_back", ("full",)))


@pytest.mark.parametrize("shape", ONE_OF_EACH_SHAPE)
def test_a_refutation_is_real(shape: int) -> None:
    """The reference machine agrees: every property holds before, and the step does what the counterexample says."""
    mutant = MUTANTS[ONE_OF_EACH_SHAPE[shape]]
    policy, components = list(mutant.bites())[-1]
    faulty = mutant.instance(policy, components)
    (failed,) = try_mutant(mutant, policy, components).failed
    example = find(faulty, failed)
    assert example is not None
    machine = ReferenceMachine(faulty)
    machine.state = example.before.state(faulty.relations)
    assert list(machine.violations()) == []
    outcome = machine.step(example.action, example.args)
    match example.kind:
        case "consecution":
            assert outcome
            assert example.subject in {rule.id for rule, _ in machine.violations()}
        case "necessity":
            assert (outcome.verdict, _name(outcome.guard)) == ("refused", example.subject)
        case "promise" | "never":
            assert (outcome.verdict, _name(outcome.guard)) == ("violated", example.subject)
        case _:
            assert outcome
    assert example.false
    picture = drawn(example)
    assert picture[0] == failed
    assert f"  action  {example.action}(" in "\n".join(picture)


def drawn(example: Counterexample) -> list[str]:
    """What a terminal shows, a string a line."""
    file = io.StringIO()
    Console(file=file, width=200).print(counterexample(example))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def _name(guard: Guard | None) -> str:
    return guard.name if guard else ""


def test_a_counterexample_is_smallest_and_plain_data() -> None:
    faulty = MUTANTS["split-loses-host-lock"].instance("write_back", ("full",))
    example = find(faulty, "write_back/full/split.consecution.safety.stored-source-stays")
    assert example is not None
    assert drawn(example) == [
        "write_back/full/split.consecution.safety.stored-source-stays",
        "before                                              after",
        "  root  full DH                                       root  full DH",
        "                                                    + └─ 2  full H",
        "~    └─ 1  full H  locks H1  below 0                ~    └─ 1  full H  locks H1  below 2",
        "~ holder 1: storing · full host lock 1 · stores 1   ~ holder 1: storing · full host lock 1 · stores 1, 2",
        "  action  split(node=1, prefix=2)",
        "  broken  The host slots that storage reads are there, and host-locked by the storage backup, on every "
        "fragment of a split node. (safety.stored-source-stays)",
        "  not so  if node 2's full host slots are copied to storage by holder 1, then (node 2 has full slots on the "
        "host and node 2's full host slots are locked by holder 1)",
    ]
    plain = example.to_json()
    assert plain["args"] == {"node": 1, "prefix": 2}
    assert plain["before"]["parents"] == {1: 0}
    assert plain["before"]["facts"]["storage_reads"] == [[1, 1]]
    assert is_reached(example, faulty, lambda instance, goal: None) is None


def test_a_refusal_without_a_reason_is_shown() -> None:
    faulty = MUTANTS["nothing-loaded-although-there-was-something"].instance("write_back", ("full",))
    example = find(faulty, "write_back/full/refuse_load_back.necessity.commit_load_back-is-impossible")
    assert example is not None
    assert example.words == "a refusal needs a reason"
    machine = ReferenceMachine(instance("write_back", ("full",)))
    machine.state = example.before.state(faulty.relations)
    assert machine.step("commit_load_back", example.args)


def test_what_holds_has_no_counterexample() -> None:
    found = instance("write_through", ("full",))
    assert find(found, "write_through/full/demote.promise.unused-device.full") is None
