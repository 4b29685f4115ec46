"""Discharge every obligation of the chosen instances with z3, on all cores."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import z3  # type: ignore[import-untyped]

from ..model.instance import Instance, instance
from ..model.vocabulary import COMPONENT_SETS, POLICIES, Component, Policy, ownership_policy
from .inductive import Assume
from .obligations import Kind, Obligation, Script, script, script_names
from .pool import Progress, spread

Verdict = Literal["proved", "failed", "unknown"]
"""proved: discharged · failed: refuted · unknown: the solver gave up, which never counts as proved."""

RESOURCES = 40_000_000
"""How much work z3 may spend on one obligation, in its own unit (`rlimit`): unlike seconds the same on any machine."""

SEED = 0
"""z3's only source of randomness."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one obligation."""

    id: str
    kind: Kind
    verdict: Verdict
    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """What became of all of them, in a stable order."""

    results: tuple[Result, ...]
    seconds: float
    instances: tuple[str, ...]
    shared: Mapping[str, str]
    """Instances that need no proof of their own, and whose proof they share."""

    def with_verdict(self, verdict: Verdict) -> tuple[Result, ...]:
        """The results with that verdict."""
        return tuple(r for r in self.results if r.verdict == verdict)

    @property
    def verdict(self) -> Literal["holds", "violated", "vacuous", "unknown"]:
        """One word for the whole: a refuted claim decides, then one that z3 gave up on, then one that says nothing."""
        failed = self.with_verdict("failed")
        if any(r.kind != "vacuity" for r in failed):
            return "violated"
        if self.with_verdict("unknown"):
            return "unknown"
        return "vacuous" if failed or not self.results else "holds"

    def by_instance(self) -> dict[str, Counter[Verdict]]:
        """How many of each instance's obligations have which verdict."""
        table: dict[str, Counter[Verdict]] = {name: Counter() for name in self.instances}
        for result in self.results:
            table["/".join(result.id.split("/")[:2])][result.verdict] += 1
        return table


@dataclass(frozen=True, slots=True)
class Task:
    """The obligations of one script of one instance."""

    policy: Policy
    components: tuple[Component, ...]
    script: str

    def __str__(self) -> str:
        return f"{self.policy}/{'+'.join(self.components)}/{self.script}"


def prove(
    policies: Iterable[Policy] = POLICIES,
    components: Iterable[tuple[Component, ...]] = COMPONENT_SETS,
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Prove the protocol, for trees of any size, under these policies and for these component sets.

    Args:
        policies: write_through_selective shares the proof of write_through, and is reported as doing so.
        components: which of the four component sets.
        jobs: number of processes, one a core if None.
        progress: called with (done, total, name) after each script.

    Raises:
        UnknownName: not a policy or not a component set.
    """
    started = time.perf_counter()
    chosen, shared = choose(policies, components)
    tasks = [Task(i.setting.policy, i.setting.components, n) for i in chosen for n in script_names(i)]
    order = {str(t): number for number, t in enumerate(tasks)}
    heavy = sorted(tasks, key=lambda t: (-len(t.components), t.script != "start"))
    found = {str(task): results for task, results in spread(_discharge_task, heavy, jobs, progress)}
    results = tuple(r for name in sorted(found, key=order.__getitem__) for r in found[name])
    return Report(results, time.perf_counter() - started, tuple(i.name for i in chosen), shared)


def choose(
    policies: Iterable[Policy], components: Iterable[tuple[Component, ...]]
) -> tuple[list[Instance], dict[str, str]]:
    """The instances that have to be proven, and those that share the proof of another one."""
    sets = list(components)
    chosen: dict[str, Instance] = {}
    shared: dict[str, str] = {}
    for policy in policies:
        for components_ in sets:
            found = instance(policy, components_)
            chosen.setdefault(found.name, found)
            if ownership_policy(policy) != policy:
                shared[f"{policy}/{'+'.join(components_)}"] = found.name
    return list(chosen.values()), shared


def discharge(text: Script) -> Iterator[Result]:
    """The results of one script, in order."""
    solver = z3.Solver()
    solver.set("rlimit", RESOURCES)
    solver.set("random_seed", SEED)
    for entry in text.entries:
        if isinstance(entry, Assume):
            solver.add(entry.formula)
        else:
            yield _check(solver, entry)


def _check(solver: z3.Solver, obligation: Obligation) -> Result:
    started = time.perf_counter()
    solver.push()
    solver.add(obligation.query)
    answer = str(solver.check())
    solver.pop()
    return Result(obligation.id, obligation.kind, verdict_on(answer, obligation), time.perf_counter() - started)


def verdict_on(answer: str, obligation: Obligation) -> Verdict:
    """What a solver's answer (`sat`, `unsat`, anything else) says about an obligation."""
    if answer not in ("sat", "unsat"):
        return "unknown"
    return "proved" if answer == obligation.expected else "failed"


def _discharge_task(task: Task) -> tuple[Task, tuple[Result, ...]]:
    return task, tuple(discharge(script(instance(task.policy, task.components), task.script)))
