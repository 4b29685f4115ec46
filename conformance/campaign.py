"""Many short lives of a target, each from nothing: what is found in one does not hide what comes after it.

What `specs/deviations` knows of a release is counted and followed; anything else ends the life, and is kept once, made
short.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ..model.vocabulary import Component, Policy
from .batches import in_batches_of
from .deviations import deviations_of
from .driver import Driver, operations, small
from .events import Event
from .scenario import Scenario, from_run
from .session import Session
from .shrink import shortest as shortest_run
from .situation import Operation
from .stale import stale
from .targets.base import Configuration, Target
from .violation import Violation

LIFE = 400
"""Operations of a life at most."""
SHRINKING = 15.0
"""Seconds spent on making one finding short."""

Signature = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Found:
    """One distinct thing that was found: the first time, how often, and the shortest run that shows it."""

    violation: Violation
    seed: int
    times: int
    scenario: Scenario | None


@dataclass(slots=True)
class Campaign:
    """What came of all lives."""

    steps: int = 0
    events: int = 0
    lives: int = 0
    seconds: float = 0.0
    found: dict[Signature, Found] = field(default_factory=dict)
    known: Counter[str] = field(default_factory=Counter)
    gone: list[Violation] = field(default_factory=list)

    @property
    def violations(self) -> list[Violation]:
        """Deviations that no longer occur, then what is not known, each once."""
        return [*self.gone, *(found.violation for found in self.found.values())]


def signature(violation: Violation) -> Signature:
    """What makes two violations the same: kind and rule, and what a crash or an audit says less its numbers."""
    said = violation.words if violation.rule.startswith("target/") else ""
    return violation.kind, violation.rule, re.sub(r"\W*\d[\d\W]*", " # ", said)[:160]


def seed_of(seed: int, life: int) -> int:
    """The seed of a life of a run."""
    return seed + 1_000_003 * life


def campaign(
    target: Target,
    policy: Policy,
    components: tuple[Component, ...],
    steps: int,
    seed: int,
    *,
    listen: Callable[[Event], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    audit_every: int = 24,
    shorten: bool = True,
    batch: int = 0,
) -> Campaign:
    """Live again and again, for `steps` operations in all, `batch` of them in one request (0: each by itself)."""
    done = Campaign()
    known = deviations_of(target.name, policy, components)
    done.gone = stale(target, known, policy, components)
    begun = time.perf_counter()
    while done.steps < steps:
        number = seed_of(seed, done.lives)
        chosen = small(policy, components, number)
        life = Session(target, chosen, seed=number, audit_every=audit_every, listen=listen, known=known)
        driver = Driver(chosen, number, life.operations)
        life.run(operations(driver, life.situation, min(LIFE, steps - done.steps)), by=in_batches_of(batch))
        done.lives += 1
        done.steps += max(1, life.done)
        done.events += life.events
        done.known.update(life.known)
        if life.violations:
            _keep(done, target, chosen, life, number, shorten)
        if progress is not None:
            progress(min(done.steps, steps), steps)
    done.seconds += time.perf_counter() - begun
    return done


def _keep(done: Campaign, target: Target, chosen: Configuration, life: Session, seed: int, shorten: bool) -> None:
    first = life.violations[0]
    said = signature(first)
    had = done.found.get(said)
    if had is not None:
        done.found[said] = replace(had, times=had.times + 1)
        return
    pause = time.perf_counter()
    scenario = shortest(target, chosen, life, first) if shorten else None
    done.seconds -= time.perf_counter() - pause
    done.found[said] = Found(first, seed, 1, scenario)


def shortest(target: Target, chosen: Configuration, failed: Session, first: Violation) -> Scenario | None:
    """The shortest run that shows the same; None if it does not come again."""
    wanted = signature(first)
    often = 1 if first.rule.startswith("target/audit") else 0

    def ends(run: Sequence[Operation]) -> int | None:
        again = Session(target, chosen, audit_every=often, read=False, known=failed.deviations)
        found = again.run(run, finish=first.rule.startswith("idle/"))
        return len(again.log) if any(signature(v) == wanted for v in found[:1]) else None

    best = shortest_run(failed.log, ends, SHRINKING)
    if best is None:
        return None
    name = re.sub(r"\W+", "-", f"{first.kind} {first.rule}").strip("-")
    return from_run(name, str(first), chosen.policy, chosen.components, best, config=chosen.choices())
