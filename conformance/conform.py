"""Does a target conform? Drives it, checks every event, and makes what it finds short enough to read."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from ..model.vocabulary import Component, Policy
from .batches import in_batches_of
from .campaign import Found, campaign
from .checker import After
from .dialects import dialect_of
from .dialects.checked import How, how_checked
from .driver import Driver, operations, small
from .errors import ConformanceError
from .events import Event, counted_as
from .registry import open_target
from .scenario import Scenario, from_run, steps_of, write
from .session import Session
from .shrink import shortest as shortest_run
from .situation import Operation
from .steered import SteeredDriver
from .targets.base import Configuration, Target, fields_seen
from .violation import Violation
from .workload import Workload, open_workload

Verdict = Literal["holds", "violated", "vacuous"]
Progress = Callable[[int, int], None]
"""Called now and then with steps done and steps in all (0: not known)."""
TargetLike = str | Target | Callable[[], Target]


@dataclass(frozen=True, slots=True)
class ConformResult:
    """What came of one run under one policy and component set.

    Attributes:
        verdict: "vacuous" if nothing was found, and the run did not get to what it was to show.
        steps: operations performed.
        steps_per_second: by the clock, checks included.
        coverage: how often each action was seen, by `action` and `action refused`.
        trace: the recording, if one was asked for.
        scenario: the shortest run that shows the same, if something was found; it may have been written to `promoted`.
        reproduce: the command that does it again.
        missing: what a workload was to bring about and did not.
        known: how often each known deviation of the target was seen (specs/deviations).
        checked: by id, how each property could be checked on this target; only of targets that speak a dialect.
        findings: a shortest run for each distinct violation, where many lives were lived.
    """

    verdict: Verdict
    target: str
    policy: Policy
    components: tuple[Component, ...]
    steps: int
    events: int
    seconds: float
    violations: list[Violation]
    seed: int
    workload: str | None = None
    coverage: dict[str, int] = field(default_factory=dict)
    trace: Path | None = None
    scenario: Scenario | None = None
    promoted: Path | None = None
    reproduce: str = ""
    missing: tuple[str, ...] = ()
    known: dict[str, int] = field(default_factory=dict)
    checked: dict[str, How] = field(default_factory=dict)
    findings: tuple[Found, ...] = ()

    @property
    def steps_per_second(self) -> float:
        """Checked steps a second."""
        return self.steps / self.seconds if self.seconds > 0 else 0.0

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "verdict": self.verdict, "target": self.target, "policy": self.policy, "components": list(self.components),
            "steps": self.steps, "steps_per_second": round(self.steps_per_second), "events": self.events,
            "violations": [v.as_json() for v in self.violations], "seed": self.seed, "workload": self.workload,
            "coverage": self.coverage, "missing": list(self.missing),
            "trace": None if self.trace is None else str(self.trace),
            "scenario": None if self.promoted is None else str(self.promoted), "reproduce": self.reproduce,
            "known": self.known, "checked": self.checked,
        }  # fmt: skip


def conform(
    target: TargetLike = "impl",
    policy: Policy = "write_back",
    components: tuple[Component, ...] = ("full",),
    steps: int = 2000,
    seed: int = 0,
    workload: str | None = None,
    *,
    configuration: Configuration | None = None,
    single_actions: bool = False,
    trace: Path | None = None,
    promote: Path | None = None,
    shortest: bool = True,
    shrink_seconds: float = 10.0,
    after: After = "stop",
    audit_every: int = 24,
    scale: float | None = None,
    progress: Progress | None = None,
    suite: Sequence[Operation] | None = None,
    storage: Path | None = None,
    batch: int = 0,
) -> ConformResult:
    """Drive a target for `steps` operations, or through a workload, and check everything that it does.

    Args:
        target: a name (see `registry`), a target (left open), or a factory of targets.
        steps: operations to perform; with a workload, at most so many (0: all of it).
        workload: "chat", "storage", or the path of a Mooncake trace.
        configuration: sizes; small ones of the seed's choosing unless given.
        single_actions: steer single actions of the model instead of operations; targets that know nothing else always.
        trace: record the events here.
        promote: write the shortest failing run here as a scenario.
        shortest: look for the shortest failing run, for `shrink_seconds` at most.
        after: "resync" to go on after a violation where that is possible.
        audit_every: operations between two looks at everything.
        scale: how much a Mooncake trace is scaled down; chosen to fit unless given.
        suite: perform these operations instead of choosing some.
        storage: a directory for the storage tier, with one below it for each layout of pages; in memory unless given.
        batch: operations in one request (see `batches`); 0: each by itself. What a workload asks next depends on the
            answer before.

    Raises:
        UnknownTarget, TargetUnavailable, BadWorkload, ConformanceError: as their names say, with the argument.
    """
    if batch and workload is not None:
        raise ConformanceError("batch: what a workload asks next depends on the answer before")
    opened = open_target(target)
    try:
        work = open_workload(workload, policy, components, seed, scale) if workload is not None else None
        reproduce = _command(opened.name, policy, components, steps, seed, workload, single_actions, storage, batch)
        plain = not (workload or suite or trace or configuration or single_actions or storage)
        if plain and dialect_of(opened.name) is not None:
            return _lives(opened, policy, components, steps, seed, reproduce, progress, promote, shortest, batch)
        chosen = configuration or (work.configuration if work is not None else small(policy, components, seed))
        if storage is not None:
            place = storage / f"{policy}-{'+'.join(components)}-{chosen.page_size}"
            chosen = msgspec.structs.replace(chosen, storage=str(place))
        coverage: Counter[str] = Counter()
        listen = _listener(coverage, work)
        session = Session(
            opened, chosen, trace=trace, seed=seed, after=after, audit_every=audit_every,
            reproduce=reproduce, listen=listen,
        )  # fmt: skip
        start = time.perf_counter()
        run = suite if suite is not None else _operations(session, chosen, steps, seed, work, single_actions)
        _perform(session, run, steps, progress, batch)
        seconds = time.perf_counter() - start
        missing = tuple(work.missing(steps)) if work is not None and not session.violations else ()
        verdict: Verdict = "violated" if session.violations else "vacuous" if missing else "holds"
        found = None
        if session.violations and shortest:
            found = _shortest(opened, chosen, session, reproduce, shrink_seconds)
            if promote is not None and found is not None:
                write(found, promote)
        return ConformResult(
            verdict, opened.name, policy, components, session.done, session.events, seconds, session.violations, seed,
            workload, dict(sorted(coverage.items())), trace, found, promote if found is not None else None,
            reproduce, missing,
        )  # fmt: skip
    finally:
        if opened is not target:
            opened.close()


def _lives(
    opened: Target, policy: Policy, components: tuple[Component, ...], steps: int, seed: int, reproduce: str,
    progress: Progress | None, promote: Path | None, shortest: bool, batch: int,
) -> ConformResult:  # fmt: skip
    """A release that is known to deviate: many short lives, so that one thing does not hide another."""
    coverage: Counter[str] = Counter()
    done = campaign(
        opened, policy, components, steps, seed,
        listen=_listener(coverage, None), progress=progress, shorten=shortest, batch=batch,
    )  # fmt: skip
    first = next((f.scenario for f in done.found.values() if f.scenario is not None), None)
    if promote is not None and first is not None:
        write(first, promote)
    dialect = dialect_of(opened.name)
    assert dialect is not None
    sees = fields_seen(opened.capabilities.sees)
    return ConformResult(
        "violated" if done.violations else "holds", opened.name, policy, components, done.steps, done.events,
        done.seconds, done.violations, seed, None, dict(sorted(coverage.items())), None, first,
        promote if first is not None else None, reproduce, (), dict(sorted(done.known.items())),
        how_checked(dialect.instance(policy, components), sees), tuple(done.found.values()),
    )  # fmt: skip


def _listener(coverage: Counter[str], work: Workload | None) -> Callable[[Event], None]:
    def listen(event: Event) -> None:
        coverage[counted_as(event)] += 1
        if work is not None:
            work.saw(event)

    return listen


def _operations(
    session: Session, configuration: Configuration, steps: int, seed: int, work: Workload | None, single: bool
) -> Iterator[Operation]:
    if work is not None:
        yield from work.operations(session)
        return
    driver: Driver | SteeredDriver
    if single or "insert" not in session.operations:
        driver = SteeredDriver(seed)
    else:
        driver = Driver(configuration, seed, session.operations, namespaces=session.target.capabilities.namespaces)
    yield from operations(driver, session.situation, steps)


def _perform(
    session: Session, run: Iterator[Operation] | Sequence[Operation], steps: int, progress: Progress | None, batch: int
) -> None:
    if progress is None:
        session.run(run if not steps else _first(run, steps), by=in_batches_of(batch))
        return

    def told() -> Iterator[Operation]:
        for number, each in enumerate(run if not steps else _first(run, steps)):
            if not number % 200:
                progress(number, steps)
            yield each

    session.run(told(), by=in_batches_of(batch))
    progress(session.done, steps)


def _first(run: Iterator[Operation] | Sequence[Operation], steps: int) -> Iterator[Operation]:
    for number, each in enumerate(run):
        if number >= steps:
            return
        yield each


def _shortest(
    target: Target, configuration: Configuration, failed: Session, reproduce: str, seconds: float
) -> Scenario | None:
    """The shortest run that finds the same kind of thing; None if it cannot be found again."""
    first = failed.violations[0]
    wanted = (first.kind, first.rule.partition("/")[0])
    often = 1 if first.rule.startswith("target/audit") else 0

    def ends(run: Sequence[Operation]) -> int | None:
        session = Session(target, configuration, audit_every=often, read=first.kind == "bytes", renaming=True)
        found = session.run(run, finish=wanted[1] in ("idle", "target"))
        return len(session.log) if any((v.kind, v.rule.partition("/")[0]) == wanted for v in found) else None

    best = shortest_run(failed.log, ends, seconds)
    if best is None:
        return None
    name, words = f"found-{wanted[1].replace('_', '-').replace('.', '-')}", f"{first.words}. Found by: {reproduce}"
    if all(each.name == "act" for each in best):
        steps = steps_of(configuration.policy, configuration.components, best)
        if steps:
            joined = "+".join(configuration.components)
            return Scenario(name, words, [configuration.policy], [joined], step=steps)
    sizes = configuration.choices()
    return from_run(name, words, configuration.policy, configuration.components, best, config=sizes)


def _command(
    target: str,
    policy: str,
    components: Sequence[str],
    steps: int,
    seed: int,
    workload: str | None,
    single: bool,
    storage: Path | None,
    batch: int,
) -> str:
    parts = [
        "pinproof conform", f"--target {target}", f"--policy {policy}", f"--components {'+'.join(components)}",
        f"--seed {seed}", f"--steps {steps}", *([f"--workload {workload}"] if workload else []),
        *(["--single-actions"] if single else []), *([f"--storage {storage}"] if storage else []),
        *([f"--batch {batch}"] if batch else []),
    ]  # fmt: skip
    return " ".join(parts)
