"""A run in batches: many operations in one request, the next of them under way while the answers are checked.

What a batch consists of is chosen from the situation before the batch that is under way, and so from what does not
depend on time; after an operation that brings about what the next one picks from (`Leading`), a batch ends, and the
next waits for its answers. An operation may be about what has gone meanwhile: it is declined, and whether rightly is
judged by the situation in which it was. The log has each with the picks that mean the same when it is performed alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from .session import Performer, Session
from .situation import Leading, Operation
from .targets.base import Answer, OneByOne
from .targets.worker import WorkerTarget

ENDING = ("unlock", "abort", "wait", "finish_prefetch", "commit_load_back", "release_window")
"""After these there is nothing more to be asked of their holder, or not the same."""

Request = dict[str, Any]


class Chosen(NamedTuple):
    """An operation, and its arguments as they were when it was chosen."""

    asked: Operation
    args: dict[str, Any]


class Batch(NamedTuple):
    """What goes to the target in one request: looks at what the batch before has left behind, then operations.

    A look is the rule that it is for, and what is asked.
    """

    looks: list[tuple[str, Request]]
    chosen: list[Chosen]
    asked: list[Request]

    @property
    def leads(self) -> bool:
        """The next operation is chosen from what this brings about."""
        return bool(self.chosen) and isinstance(self.chosen[-1].asked, Leading)

    @property
    def requests(self) -> list[Request]:
        """All of it in the words of the worker protocol."""
        return [request for _, request in self.looks] + self.asked


NOTHING = Batch([], [], [])


def in_batches_of(size: int) -> Performer | None:
    """Performs runs with so many operations in one request; 0: None, for one by one."""
    return partial(_perform, size) if size else None


def _perform(size: int, session: Session, run: Iterable[Operation]) -> None:
    target = session.target
    pipe = target if isinstance(target, WorkerTarget) else OneByOne(target)
    coming = iter(run)
    done: list[Request] = []
    under_way = NOTHING
    while True:
        chosen = [] if under_way.leads else choose(session, coming, size, under_way.chosen)
        answers = pipe.receive() if under_way.requests else []
        asked = [{"op": each.name, **session.given(each.name, args)} for each, args in chosen]
        following = Batch(looks(session, answers, len(done) - len(under_way.asked), len(done)), chosen, asked)
        if following.requests:
            pipe.send(following.requests)
        if len(answers) < len(under_way.requests):
            answers = again(session, done, under_way, answers[-1])
        check(session, under_way, answers)
        if session.over or not (following.requests or under_way.leads):
            return
        under_way = following
        done += asked


def choose(session: Session, coming: Iterator[Operation], size: int, under_way: Sequence[Chosen]) -> list[Chosen]:
    """The next operations that have something to pick from, `size` at most; what is about to end is not picked."""
    situation = session.situation
    situation.spent = {args["holder"] for asked, args in under_way if asked.name in ENDING}
    found: list[Chosen] = []
    while len(found) < size and (asked := next(coming, None)) is not None:
        args = situation.resolve(asked.args)
        if args is not None:
            found.append(Chosen(asked, args))
            if asked.name in ENDING:
                situation.spent.add(args["holder"])
            if isinstance(asked, Leading):
                break
    situation.spent = set()
    return found


def looks(session: Session, answers: Sequence[Answer], first: int, after: int) -> list[tuple[str, Request]]:
    """What to ask once the operations from `first` to `after` are done: the bytes that have arrived, and an audit."""
    found: list[tuple[str, Request]] = []
    arrived = session.arrived(event for answer in answers for event in answer.events)
    if arrived and session.reads:
        found.append(("bytes/read", {"op": "read", "nodes": arrived}))
    often = session.audit_every
    if often and first // often != after // often and "audit" in session.operations:
        found.append(("target/audit", {"op": "audit"}))
    return found


def check(session: Session, batch: Batch, answers: Sequence[Answer]) -> None:
    """Hold every answer to the protocol, in order, until something is found."""
    for (rule, _), answer in zip(batch.looks, answers, strict=False):
        session.problems(answer, rule)
        if session.over:
            return
    for (asked, args), answer in zip(batch.chosen, answers[len(batch.looks) :], strict=False):
        session.take(session.situation.picks(asked, args), args, answer)
        if session.over:
            return


def again(session: Session, done: Sequence[Request], lost: Batch, end: Answer) -> list[Answer]:
    """The answers to a batch in which the target ended: the whole run is done again, that batch one by one."""
    target = session.target
    target.configure(session.configuration)
    for request in done[: len(done) - len(lost.asked)]:
        target.op(**_call(request))
    answers = []
    for request in lost.requests:
        answers.append(target.op(**_call(request)))
        if answers[-1].crashed:
            return answers
    return [*answers[:-1], end]


def _call(request: Request) -> dict[str, Any]:
    return {"name": request["op"], **{k: v for k, v in request.items() if k != "op"}}
