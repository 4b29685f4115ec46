"""A worker may crash, hang or talk nonsense: each is a report, and nothing waits for ever."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from io import BytesIO

import msgspec
import pytest
from pinproof.conformance.session import Session
from pinproof.conformance.situation import operation
from pinproof.conformance.targets.base import CRASHED, Configuration
from pinproof.conformance.targets.reference import ReferenceTarget
from pinproof.conformance.targets.worker import WorkerTarget
from pinproof.conformance.targets.worker_main import serve

HEAD = """
import json, sys, time
def answer(n, **more): print(json.dumps({"id": n, "ok": True, "result": {"operations": ["poll"]}, **more}), flush=True)
def request(): return json.loads(sys.stdin.readline())
answer(request()["id"])
"""


@pytest.fixture
def worker(request: pytest.FixtureRequest) -> Iterator[WorkerTarget]:
    target = WorkerTarget([sys.executable, "-S", "-c", HEAD + request.param], "made-up", timeout=20)
    yield target
    target.close()


CASES = {
    "crash": ("request(); print('last words', file=sys.stderr); sys.exit(3)", "exit status 3.*last words"),
    "nonsense": ("request(); print('what?', flush=True); time.sleep(60)", "makes no sense"),
    "wrong id": ("request(); answer(99)", "it answered 99"),
    "malformed event": ("answer(request()['id'], events=[{'seq': 'x'}])", "makes no sense.*seq"),
}


@pytest.mark.parametrize(("worker", "words"), CASES.values(), ids=CASES, indirect=["worker"])
def test_a_worker_that_fails_is_reported(worker: WorkerTarget, words: str) -> None:
    session = Session(worker, Configuration())
    session.perform(operation("poll"))
    assert [v.kind for v in session.violations] == ["crash"]
    import re

    assert re.search(words, session.violations[0].words, re.DOTALL)
    assert session.over
    assert worker.op("poll").crashed


@pytest.mark.parametrize("worker", ["request(); time.sleep(600)"], indirect=True)
def test_a_worker_that_hangs_is_killed(worker: WorkerTarget) -> None:
    assert worker.configure(Configuration()).ok
    worker.timeout = 0.05
    answer = worker.op("poll")
    assert answer.error is not None
    assert answer.error.type == CRASHED
    assert "no answer within" in answer.error.message


def test_a_worker_that_cannot_be_started_is_reported() -> None:
    target = WorkerTarget(["/nowhere/at/all"], "made-up")
    answer = target.configure(Configuration())
    assert answer.error is not None
    assert "cannot be started" in answer.error.message
    target.close()


def answers(*requests: object) -> list[dict[str, object]]:
    out = BytesIO()
    lines = b"".join(r if isinstance(r, bytes) else msgspec.json.encode(r) + b"\n" for r in requests)
    serve(ReferenceTarget(), BytesIO(lines), out)
    return [msgspec.json.decode(line) for line in out.getvalue().splitlines()]


def test_the_server_answers_whatever_comes() -> None:
    insert = {"op": "act", "id": 3, "action": "insert_leaf", "args": {"parent": 0, "leaf": 1}}
    configure = {"op": "configure", "id": 2, "policy": "write_back"}
    told = answers(
        {"op": "audit", "id": 1}, configure, insert, {"op": "batch", "id": 4, "requests": [insert]}, b"?\n", {}
    )
    assert [a["ok"] for a in told] == [False, True, True, True, False, False]
    assert told[2]["events"] == [
        {"seq": 0, "action": "insert_leaf", "args": {"parent": 0, "leaf": 1}, "outcome": "done",
         "post": {"0": {"full": "DH"}, "1": {"full": "D"}}}
    ]  # fmt: skip
    assert told[3]["answers"][0]["result"]["outcome"] == "senseless"


def test_a_configuration_that_cannot_be_is_told() -> None:
    assert "policy" in str(answers({"op": "configure", "policy": "often"})[0]["error"])
    assert "page_size" in str(answers({"op": "configure", "page_size": 0})[0]["error"])
