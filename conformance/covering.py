"""Execute a suite on a target: sequences of single actions that cover a small universe, each from an empty cache.

A step that the target cannot be brought to take ends its sequence; it is listed with the reason, not dropped silently.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..model.vocabulary import Component, Policy
from .probing import Prober
from .registry import open_target
from .replay import replay_on_target
from .scenario import Scenario, Step
from .violation import Violation

Told = Mapping[str, Any]
"""A step as suites have it: `action`, and `args` as numbers."""
Progress = Callable[[int, int], None]


@dataclass(slots=True)
class SuiteResult:
    """What came of a suite.

    Attributes:
        verdict: "unknown" if nothing was wrong, but a step was not executed.
        executed, planned: steps taken, and steps in the suite.
        probes: forbidden actions that were asked for in between, in each state once.
        unsteered: reasons why steps were not taken, and how many sequences each ended.
        failed: the first sequence that showed a violation, as a scenario.
    """

    target: str
    policy: Policy
    components: tuple[Component, ...]
    sequences: int = 0
    executed: int = 0
    planned: int = 0
    probes: int = 0
    seconds: float = 0.0
    unsteered: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    failed: Scenario | None = None

    @property
    def verdict(self) -> Literal["holds", "violated", "vacuous", "unknown"]:
        """One word for the whole."""
        if self.violations:
            return "violated"
        if not self.planned:
            return "vacuous"
        return "holds" if self.executed == self.planned else "unknown"

    @property
    def steps_per_second(self) -> float:
        """Checked steps a second."""
        return (self.executed + self.probes) / self.seconds if self.seconds else 0.0


def run_suite(
    target: str,
    policy: Policy,
    components: tuple[Component, ...],
    sequences: Iterable[Sequence[Told]],
    *,
    total: int = 0,
    progress: Progress | None = None,
) -> SuiteResult:
    """Take every sequence on the target, each event checked, up to the first violation.

    Args:
        target: a name (see `registry`) of a target that takes single actions.
        total: how many sequences there are, for `progress`, which is told after each.

    Raises:
        UnknownTarget, TargetUnavailable: as `open_target`.
    """
    opened = open_target(target)
    result = SuiteResult(opened.name, policy, components)
    started = time.perf_counter()
    prober = Prober()
    try:
        for sequence in sequences:
            scenario = as_scenario(f"sequence-{result.sequences}", policy, components, sequence)
            run = replay_on_target(scenario, opened, policy, components, None, audit_every=0, after_step=prober)
            result.sequences += 1
            result.planned += len(sequence)
            result.executed += run.steps
            if run.reason:
                result.unsteered[f"{sequence[run.steps]['action']}: {run.reason.partition(': ')[2]}"] += 1
            if progress is not None:
                progress(result.sequences, total)
            if run.violations:
                result.violations.extend(run.violations)
                result.failed = scenario
                break
    finally:
        opened.close()
        result.probes = prober.probes
        result.seconds = time.perf_counter() - started
    return result


def as_scenario(name: str, policy: Policy, components: tuple[Component, ...], sequence: Sequence[Told]) -> Scenario:
    """The same steps with names in place of numbers."""
    steps = [Step(step["action"], {k: _named(k, v) for k, v in step["args"].items()}) for step in sequence]
    return Scenario(name, "one sequence of a covering suite", [policy], ["+".join(components)], step=steps)


def _named(parameter: str, number: int) -> str:
    if parameter == "holder":
        return f"h{number}"
    return f"n{number}" if number else "root"
