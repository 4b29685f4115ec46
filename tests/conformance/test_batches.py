"""In batches a run comes to the same verdicts, finds the same faults, and leaves a log that does without batches."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pinproof.conformance.batches import in_batches_of
from pinproof.conformance.conform import conform
from pinproof.conformance.driver import Driver, operations, small
from pinproof.conformance.errors import ConformanceError
from pinproof.conformance.faults import FAULTS, injected
from pinproof.conformance.registry import open_target
from pinproof.conformance.replay import replay
from pinproof.conformance.session import Session
from pinproof.conformance.situation import Leading, Operation, Pick, operation
from pinproof.conformance.steered import SteeredDriver
from pinproof.conformance.targets.base import Configuration
from pinproof.conformance.targets.worker import WorkerTarget
from pinproof.model.vocabulary import COMPONENT_SETS, POLICIES, Component, Policy

ALL: tuple[Component, ...] = ("full", "swa", "mamba")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("components", COMPONENT_SETS, ids="+".join)
def test_the_cache_conforms(policy: Policy, components: tuple[Component, ...]) -> None:
    found = conform("impl", policy, components, 250, 1, batch=16)
    assert ([str(v) for v in found.violations], found.verdict) == ([], "holds")
    assert found.steps >= 250


@pytest.mark.parametrize("target", ["worker:impl", "worker:reference"])
def test_a_worker_gets_the_same_verdict_as_without(target: str) -> None:
    assert [conform(target, "write_back", ALL, 100, 3, batch=batch).verdict for batch in (0, 1, 7)] == ["holds"] * 3


@pytest.mark.parametrize("target", ["impl", "worker:impl", "worker:reference"])
def test_what_was_done_in_batches_is_the_same_one_by_one(target: str, tmp_path: Path) -> None:
    opened, chosen = open_target(target), small("write_back", ALL, 5)
    session = Session(opened, chosen, trace=tmp_path / "batches")
    session.run(_chosen(session, 200), finish=False, by=in_batches_of(8))
    alone = Session(opened, chosen, trace=tmp_path / "alone")
    alone.run(session.log, finish=False)
    opened.close()
    assert (tmp_path / "alone").read_bytes() == (tmp_path / "batches").read_bytes()
    assert (session.events, alone.events) == (alone.events, len((tmp_path / "alone").read_bytes().splitlines()) - 1)
    assert (alone.log, alone.violations, session.violations) == (session.log, [], [])
    # The sometimes: much was asked of what had gone by the time of it, and declined without being held against it.
    gone = [each for each in session.log if any(type(each.args.get(key)) is int for key in ("node", "holder"))]
    assert bool(gone) is (target != "worker:reference")


def _chosen(session: Session, steps: int) -> Iterator[Operation]:
    single = "insert" not in session.operations
    driver = SteeredDriver(5) if single else Driver(session.configuration, 5, session.operations)
    return operations(driver, session.situation, steps)


@pytest.mark.parametrize("batch", [8, 32])
@pytest.mark.parametrize("name", ["mark-forgotten-on-split", "demoted-before-arrival", "slots-leaked"])
def test_a_fault_is_found_and_made_short_without_batches(name: str, batch: int) -> None:
    fault = FAULTS[name]
    with injected(fault):
        found = conform("impl", fault.policy, fault.components, 300, 0, batch=batch)
        assert found.verdict == "violated"
        assert f"--batch {batch}" in found.reproduce
        assert found.scenario is not None
        assert len(found.scenario.op) <= 9
        assert replay(found.scenario, "impl").verdict == "violated"
    assert replay(found.scenario, "impl").verdict == "holds"


ENDS = """
import os
from pinproof.conformance.targets import worker_main
from pinproof.conformance.targets.reference import ReferenceTarget
class Mortal(ReferenceTarget):
    def op(self, name, **args):
        if args.get("action") == "unlock":
            os.write(2, b"last words"); os._exit(9)
        return super().op(name, **args)
worker_main.serve(Mortal(), os.fdopen(0, "rb"), os.fdopen(1, "wb"))
"""


def _acts(*actions: tuple[str, dict[str, int]]) -> Iterable[Operation]:
    return [operation("act", action=action, args=args) for action, args in actions]


def test_a_worker_that_ends_in_a_batch_is_followed_up_to_there() -> None:
    run = _acts(
        ("insert_leaf", {"parent": 0, "leaf": 1}), ("insert_leaf", {"parent": 1, "leaf": 2}),
        ("lock", {"node": 2, "boundary": 1, "holder": 1}), ("unlock", {"holder": 1}),
        ("insert_leaf", {"parent": 0, "leaf": 3}),
    )  # fmt: skip
    target = WorkerTarget([sys.executable, "-c", ENDS], "mortal")
    for batch in (0, 2, 3, 9):
        session = Session(target, Configuration())
        assert [v.kind for v in session.run(run, by=in_batches_of(batch))] == ["crash"]
        assert "last words" in session.violations[0].words
        assert (session.events, session.done) == (3, 4), batch
        assert [each.args["action"] for each in session.log] == ["insert_leaf", "insert_leaf", "lock", "unlock"]
    target.close()


ALONE = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    more = {"result": {"operations": ["poll"]}} if asked["op"] != "batch" else {
        "ok": False, "error": {"type": "RefusedOperation", "message": "one at a time"}}
    print(json.dumps({"id": asked["id"], "ok": True, **more}), flush=True)
"""


def test_a_batch_ends_where_the_next_operation_is_about_what_it_brings() -> None:
    sent: list[list[str]] = []

    class Recorded(WorkerTarget):
        def send(self, requests: Sequence[dict[str, Any]]) -> None:
            sent.append([each["op"] for each in requests])
            super().send(requests)

    worker = [sys.executable, "-m", "pinproof.conformance.targets.worker_main", "impl"]
    target = Recorded(worker, "worker:impl")
    run = [
        operation("insert", tokens=[1, 2]), Leading("evict", {"component": "full", "pages": 9}),
        operation("load_back", node=Pick("host_only")), operation("poll"), operation("poll"), operation("poll"),
    ]  # fmt: skip
    session = Session(target, Configuration(), audit_every=0, read=False)
    session.run(run, finish=False, by=in_batches_of(3))
    target.close()
    assert sent == [["insert", "evict"], ["load_back", "poll", "poll"], ["poll"]]
    assert session.log[2].args["node"] == Pick("host_only")


def test_what_cannot_go_in_batches_is_told() -> None:
    target = WorkerTarget([sys.executable, "-S", "-c", ALONE], "single-minded")
    session = Session(target, Configuration())
    with pytest.raises(ConformanceError, match="single-minded takes no batches: one at a time"):
        session.run([operation("poll")], by=in_batches_of(4))
    target.close()
    with pytest.raises(ConformanceError, match="batch: what a workload asks next"):
        conform("impl", workload="chat", batch=4)
