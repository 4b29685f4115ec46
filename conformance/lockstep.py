"""Two targets side by side: both are given the same operations, each is checked against the model, and the answers are
compared (see `pairing`): the first difference ends a life.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing

from ..model.vocabulary import Component, Policy
from .batches import Chosen, choose
from .campaign import LIFE, SHRINKING, seed_of, signature
from .deviations import deviations_of
from .driver import Driver, operations, small
from .errors import ConformanceError
from .events import Event, counted_as
from .pairing import Pairing
from .parting import LockstepResult, Parted, Parting
from .registry import open_target
from .scenario import Scenario, from_run
from .session import Session
from .shrink import shortest as shortest_run
from .situation import Operation
from .steered import SteeredDriver
from .targets.base import Answer, Configuration, OneByOne, Target
from .targets.worker import WorkerTarget
from .violation import told


class Lockstep:
    """One life of two targets.

    Args:
        targets: they need not be configured yet.
        batch: operations in one request; 0: one.

    Attributes:
        sessions: of both; the first has the log.
        parting: where they differ, if they do.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        chosen: Configuration,
        *,
        audit_every: int = 24,
        read: bool = True,
        listen: Callable[[Event], None] | None = None,
        batch: int = 0,
    ) -> None:
        self.sessions = [
            Session(
                target, chosen, audit_every=audit_every, read=read, listen=None if number else listen,
                known=deviations_of(target.name, chosen.policy, chosen.components) or None,
            )
            for number, target in enumerate(targets)
        ]  # fmt: skip
        self.parting: Parting | None = None
        self.pairing = Pairing(*(session.header.sees for session in self.sessions))
        self._size = batch or 1
        self._audit_every = audit_every
        self._pipes = [t if isinstance(t, WorkerTarget) else OneByOne(t) for t in targets]

    @property
    def over(self) -> bool:
        """They have parted, or something is held against one of them."""
        return self.parting is not None or any(session.over for session in self.sessions)

    def run(self, run: Iterable[Operation], *, finish: bool = True) -> Parting | None:
        """Perform operations on both until something is found."""
        first = self.sessions[0]
        coming = iter(run)
        while not self.over:
            asked = choose(first, coming, self._size, [])
            if not asked:
                break
            self._together(asked)
        for session in self.sessions:
            if finish and not self.over:
                session.finish()
        return self.parting

    def _together(self, chosen: Sequence[Chosen]) -> None:
        both = [[each.args for each in chosen], [self.pairing.request(each.args) for each in chosen]]
        for pipe, args in zip(self._pipes, both, strict=True):
            pipe.send([{"op": each.asked.name, **own} for each, own in zip(chosen, args, strict=True)])
        answers = [pipe.receive() for pipe in self._pipes]
        first = self.sessions[0]
        for asked, *each in zip([each.asked for each in chosen], *both, *answers, strict=False):
            (a, b), (left, right) = each[:2], each[2:]
            asked = first.situation.picks(asked, a)
            for session, args, answer in zip(self.sessions, (a, b), (left, right), strict=True):
                session.take(asked, args, answer)
            fields = self.pairing.differences(left, right)
            if fields:
                recent = tuple(str(o) for o in first.log[-6:-1])
                said = f"{asked.name}({', '.join(f'{k}={v!r}' for k, v in a.items())})"
                self.parting = Parting(first.done, said, _said(left), _said(right), fields, recent)
            if self.over:
                return
        self._look(answers, len(chosen))

    def _look(self, answers: Sequence[Sequence[Answer]], count: int) -> None:
        """Bytes that have arrived are read, and now and then there is an audit."""
        for session, said in zip(self.sessions, answers, strict=True):
            arrived = session.arrived(event for answer in said for event in answer.events)
            if arrived and session.reads:
                session.problems(session.target.op("read", nodes=arrived), "bytes/read")
            if self._audit_every and (session.done - count) // self._audit_every != session.done // self._audit_every:
                session.audit()


def lockstep(
    a: str | Target, b: str | Target, policy: Policy = "write_back", components: tuple[Component, ...] = ("full",),
    steps: int = 2000, seed: int = 0, *, batch: int = 0, shorten: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> LockstepResult:  # fmt: skip
    """Give two targets the same operations, `steps` in all, in lives of `LIFE` from nothing.

    Raises:
        UnknownTarget, TargetUnavailable: one of them cannot be had.
        ConformanceError: they have no operations in common.
    """
    with ExitStack() as opened:
        pair = [
            each if not isinstance(each, str) else opened.enter_context(closing(open_target(each))) for each in (a, b)
        ]
        reproduce = _command(pair, policy, components, steps, seed, batch)
        done = LockstepResult((pair[0].name, pair[1].name), policy, components, seed, reproduce)
        begun = time.perf_counter()
        while done.steps < steps:
            number = seed_of(seed, done.lives)
            chosen = small(policy, components, number)
            life = Lockstep(pair, chosen, listen=lambda e: done.coverage.update((counted_as(e),)), batch=batch)
            life.run(_operations(life, chosen, number, min(LIFE, steps - done.steps)))
            _add(done, life)
            if life.parting is not None:
                pause = time.perf_counter()
                _keep(done, life, chosen, number, shorten)
                begun += time.perf_counter() - pause
            if progress is not None:
                progress(min(done.steps, steps), steps)
        done.seconds = time.perf_counter() - begun
    return done


def _operations(life: Lockstep, chosen: Configuration, seed: int, steps: int) -> Iterator[Operation]:
    first, second = life.sessions
    shared = first.operations & second.operations
    driver: Driver | SteeredDriver
    if "insert" in shared:
        both = all(session.target.capabilities.namespaces for session in life.sessions)
        driver = Driver(chosen, seed, shared, namespaces=both)
    elif "act" in shared:
        driver = SteeredDriver(seed)
    else:
        names_ = " and ".join(session.target.name for session in life.sessions)
        raise ConformanceError(f"{names_} have no operations in common that change anything")
    return operations(driver, first.situation, steps)


def _add(done: LockstepResult, life: Lockstep) -> None:
    done.lives += 1
    done.steps += max(1, life.sessions[0].done)
    done.compared.update(life.pairing.compared)
    done.unseen = life.pairing.unseen
    for side, session in zip("ab", life.sessions, strict=True):
        name = f"{side} {session.target.name}"
        if session.violations:
            had = done.violations.setdefault(name, [])
            if signature(session.violations[0]) not in map(signature, had):
                had.append(session.violations[0])
        if session.known:
            done.known.setdefault(name, Counter()).update(session.known)


def _keep(done: LockstepResult, life: Lockstep, chosen: Configuration, seed: int, shorten: bool) -> None:
    parting = life.parting
    assert parting is not None
    had = done.parted.get(parting.signature)
    if had is not None:
        done.parted[parting.signature] = Parted(had.first, had.seed, had.times + 1, had.scenario)
        return
    scenario = shortest(life, chosen) if shorten else None
    done.parted[parting.signature] = Parted(parting, seed, 1, scenario)


def shortest(life: Lockstep, chosen: Configuration) -> Scenario | None:
    """The shortest run in which the two part in the same way; None if they do not again."""
    wanted = life.parting
    assert wanted is not None
    targets = [session.target for session in life.sessions]

    def ends(run: Sequence[Operation]) -> int | None:
        again = Lockstep(targets, chosen, audit_every=0, read=False)
        parting = again.run(run, finish=False)
        same = parting is not None and parting.signature == wanted.signature
        return len(again.sessions[0].log) if same else None

    best = shortest_run(life.sessions[0].log, ends, SHRINKING)
    if best is None:
        return None
    name = re.sub(r"\W+", "-", f"parted {' '.join(wanted.signature)}").strip("-")
    words = f"{targets[0].name} and {targets[1].name} part: {', '.join(f.field for f in wanted.fields)}"
    return from_run(name, words, chosen.policy, chosen.components, best, config=chosen.choices())


def _said(answer: Answer) -> tuple[str, ...]:
    """An answer in lines."""
    head = f"{answer.error.type}: {answer.error.message}" if answer.error is not None else f"done {answer.result or ''}"
    return (head.strip(), *(told(event) for event in answer.events))


def _command(
    pair: Sequence[Target], policy: str, components: Sequence[str], steps: int, seed: int, batch: int
) -> str:  # fmt: skip
    return " ".join([
        f"pinproof conform --target {pair[0].name} --against {pair[1].name}", f"--policy {policy}",
        f"--components {'+'.join(components)}", f"--seed {seed}", f"--steps {steps}",
        *([f"--batch {batch}"] if batch else []),
    ])  # fmt: skip
