"""Faulty protocols must not prove: each mutant is refuted, by the obligation it names, wherever it bites."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Literal

from ..model.instance import Instance
from ..model.mutants import MUTANTS, Mutant, mutant
from ..model.vocabulary import Component, Policy
from .obligations import Kind, script
from .pool import Progress, spread
from .prove import Verdict, discharge


@dataclass(frozen=True, slots=True)
class Trial:
    """One mutant under one policy, for one component set. Of the obligations that it names,
    those that hold in spite of it, those that fail, and those that z3 gave up on."""

    mutant: str
    policy: Policy
    components: tuple[Component, ...]
    proved: tuple[str, ...]
    failed: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def killed(self) -> bool:
        """An obligation that the mutant names was refuted; that a solver gave up does not count."""
        return bool(self.failed)

    @property
    def instance(self) -> str:
        """As in `write_back/full+swa`."""
        return f"{self.policy}/{'+'.join(self.components)}"


@dataclass(frozen=True, slots=True)
class MutationReport:
    """All trials, in the order of the mutants."""

    trials: tuple[Trial, ...]
    seconds: float

    @property
    def total(self) -> int:
        """How many mutants were tried."""
        return len({t.mutant for t in self.trials})

    @property
    def survivors(self) -> tuple[Trial, ...]:
        """Where a mutant was not caught although it says that it bites there."""
        return tuple(t for t in self.trials if not t.killed)

    @property
    def killed(self) -> int:
        """How many mutants were caught wherever they bite."""
        return self.total - len({t.mutant for t in self.survivors})

    @property
    def verdict(self) -> Literal["holds", "violated"]:
        """A mutant that survives is a failed run, and so is a run without any."""
        return "holds" if self.trials and not self.survivors else "violated"


@dataclass(frozen=True, slots=True)
class _Task:
    mutant: str
    policy: Policy
    components: tuple[Component, ...]

    def __str__(self) -> str:
        return f"{self.mutant} {self.policy}/{'+'.join(self.components)}"


def run_mutants(
    identifiers: Iterable[str] | None = None, *, jobs: int | None = None, progress: Progress | None = None
) -> MutationReport:
    """Try to prove faulty protocols.

    Args:
        identifiers: ids of mutants; all if None.
        jobs: number of processes, one a core if None.
        progress: called with (done, total, name) after each trial.

    Raises:
        UnknownName: there is no such mutant.
    """
    started = time.perf_counter()
    chosen = [mutant(i) for i in (MUTANTS if identifiers is None else identifiers)]
    tasks = [_Task(m.id, policy, components) for m in chosen for policy, components in m.bites()]
    order = {str(t): number for number, t in enumerate(tasks)}
    heavy = sorted(tasks, key=lambda t: -len(t.components))
    found = dict(spread(_try_task, heavy, jobs, progress))
    trials = tuple(found[name] for name in sorted(found, key=order.__getitem__))
    return MutationReport(trials, time.perf_counter() - started)


def try_mutant(candidate: Mutant, policy: Policy, components: tuple[Component, ...]) -> Trial:
    """One trial: only the obligations that the mutant names, in the actions that it changes.

    No others can have become false: an obligation speaks of one action's text and of the properties alone.
    """
    faulty = candidate.instance(policy, components)
    found: dict[Verdict, list[str]] = {"proved": [], "failed": [], "unknown": []}
    for name in edited(candidate, faulty):
        for result in discharge(script(faulty, name, partial(is_named, candidate.caught_by, faulty))):
            found[result.verdict].append(result.id)
            if result.verdict == "failed":
                break
        if found["failed"]:
            break
    return Trial(candidate.id, policy, components, *(tuple(found[v]) for v in ("proved", "failed", "unknown")))


def edited(candidate: Mutant, faulty: Instance) -> list[str]:
    """The actions of the faulty instance that the mutant changes."""
    return [name for name in faulty.actions if name.partition(".")[0] in candidate.actions()]


def is_named(caught_by: str, faulty: Instance, kind: Kind, subject: str, identifier: str) -> bool:
    """Whether `caught_by` speaks of this obligation: a property that the action must keep, or one of its own claims."""
    if kind == "consecution":
        return fnmatchcase(subject, caught_by) or fnmatchcase(faulty.property(subject).family, caught_by)
    return fnmatchcase(identifier.removeprefix(f"{faulty.name}/"), caught_by)


def _try_task(task: _Task) -> tuple[str, Trial]:
    return str(task), try_mutant(mutant(task.mutant), task.policy, task.components)
