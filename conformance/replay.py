"""Replays a scenario: on the model alone, or on a target with the checker looking on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..model.errors import BadArgument, UnknownName
from ..model.machine import ReferenceMachine
from ..model.vocabulary import Component, Policy
from .derived import Derivation
from .projection import Projector
from .registry import open_target
from .scenario import Scenario, Step, load
from .session import Session
from .situation import Operation
from .targets.base import Configuration, Target
from .violation import Violation, told

Verdict = Literal["holds", "violated", "unknown"]
NONE = "none"
"""What a scenario writes for a field that is absent."""
MODEL = "model"
"""The target name that stands for the model alone."""


@dataclass(frozen=True, slots=True)
class ReplayRun:
    """A scenario under one policy and component set.

    Attributes:
        steps: how many were taken.
        reason: why the verdict is unknown: a step that this target cannot be brought to take.
    """

    policy: Policy
    components: tuple[Component, ...]
    verdict: Verdict
    steps: int
    violations: tuple[Violation, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What came of a scenario on a target. The verdict is "holds" if it went as the scenario says everywhere."""

    scenario: str
    target: str
    verdict: Verdict
    runs: list[ReplayRun] = field(default_factory=list)

    @property
    def violations(self) -> list[Violation]:
        """Of all runs."""
        return [v for run in self.runs for v in run.violations]


def replay(
    scenario: Scenario | Path | str,
    target: str | Target | Callable[[], Target] = MODEL,
    *,
    trace: Path | None = None,
    policy: Policy | None = None,
) -> ReplayResult:
    """Replay a scenario under every policy and component set that it names (or under one policy of those).

    Args:
        scenario: the scenario, its file, or the name of one that comes with the package.
        target: "model", a target's name, or a target (left open).
        trace: write the events of the first run that goes wrong here, or of the last.

    Raises:
        BadScenario, UnknownTarget, TargetUnavailable.
    """
    what = scenario if isinstance(scenario, Scenario) else load(scenario)
    runs = []
    opened = None if target == MODEL else open_target(target)
    try:
        for chosen, components in what.settings:
            if policy not in (None, chosen):
                continue
            if opened is None:
                runs.append(_on_model(what, chosen, components))
            else:
                wrong = any(run.violations for run in runs)
                runs.append(replay_on_target(what, opened, chosen, components, None if wrong else trace))
    finally:
        if opened is not None and opened is not target:
            opened.close()
    found = {run.verdict for run in runs}
    verdict: Verdict = "violated" if "violated" in found else "unknown" if "unknown" in found or not runs else "holds"
    if what.verdict == "violated" and verdict != "unknown":
        verdict = "holds" if verdict == "violated" else "violated"
    return ReplayResult(what.name, MODEL if opened is None else opened.name, verdict, runs)


# On the model
def _on_model(scenario: Scenario, policy: Policy, components: tuple[Component, ...]) -> ReplayRun:
    if not scenario.step:
        return ReplayRun(
            policy, components, "unknown", 0, (), "it has operations only, and the model has no choices of its own"
        )
    machine = ReferenceMachine(policy, components)
    project = Projector(machine)
    names = _Names()
    violations = []
    taken = 0
    for number, step in enumerate(scenario.step):
        args = {k: names.of(k, v) for k, v in step.args.items()}
        try:
            outcome = machine.step(step.action, args)
        except (UnknownName, BadArgument) as error:
            violations.append(Violation("refinement", number, f"step/{step.action}", str(error), _said(number, step)))
            break
        taken += 1
        if outcome.verdict != step.expect:
            why = f" ({outcome.guard.words})" if outcome.guard is not None else ""
            words = f"expected {step.expect}, the protocol says {outcome.verdict}{why}"
            violations.append(Violation("refinement", number, f"step/{step.action}", words, _said(number, step)))
            break
        violations += _shown(number, step, lambda node: project(names.known[node]))
    return ReplayRun(policy, components, "violated" if violations else "holds", taken, tuple(violations))


class _Names:
    """Ids for names, in the order in which they come."""

    def __init__(self) -> None:
        self.known = {"root": 0}
        self._next = {"node": 1, "holder": 1}

    def of(self, parameter: str, name: str) -> int:
        """The id of a name; a new one for a new name."""
        if name not in self.known:
            kind = "holder" if parameter == "holder" else "node"
            self.known[name] = self._next[kind]
            self._next[kind] += 1
        return self.known[name]


def _said(number: int, step: Step) -> str:
    return f"step {number + 1} {step.action}({', '.join(f'{k}={v}' for k, v in step.args.items())})"


def _shown(number: int, step: Step, state: Callable[[str], Any]) -> list[Violation]:
    found = []
    for node, fields in step.shows.items():
        seen = state(node)
        for name, wanted in fields.items():
            got = None if seen is None else getattr(seen, name)
            if got != (None if wanted == NONE else wanted):
                words = f"after {step.action} {node} shows {name}"
                found.append(
                    Violation("refinement", number, f"step/{name}", words, _said(number, step), None, name, wanted, got)
                )
    return found


# On a target
def configuration(scenario: Scenario, policy: Policy, components: tuple[Component, ...]) -> Configuration:
    """Plenty of room, unless the scenario says otherwise."""
    plenty: dict[str, Any] = {"device_pages": 64, "host_pages": 96, "window": 3}
    if not scenario.op:  # nothing is backed up that no step backs up
        plenty["threshold"] = 1000
    return Configuration(policy, components, **(plenty | scenario.config))


def replay_on_target(
    scenario: Scenario,
    target: Target,
    policy: Policy,
    components: tuple[Component, ...],
    trace: Path | None,
    audit_every: int = 1,
    after_step: Callable[[Session], None] | None = None,
) -> ReplayRun:
    """Replay a scenario on a target that is open, under one policy and component set.

    Args:
        audit_every: the target looks at all it has after so many steps, and at the end; 0 for only there.
        after_step: told after each step that went well; may ask for more.
    """
    session = Session(target, configuration(scenario, policy, components), trace=trace, audit_every=audit_every)
    try:
        if scenario.step and target.capabilities.actions:
            taken, reason = _steps(scenario, session, after_step)
        elif not scenario.op:
            taken, reason = _derived(scenario, session)
        else:
            taken, reason = _operations(scenario, session)
        if not session.over and not reason:
            session.finish()
    finally:
        session.close()
    violations = tuple(session.violations)
    verdict: Verdict = "violated" if violations else "unknown" if reason else "holds"
    return ReplayRun(policy, components, verdict, taken, violations, reason)


def _steps(
    scenario: Scenario, session: Session, after_step: Callable[[Session], None] | None = None
) -> tuple[int, str]:
    """Steer the target through every step. Returns how many were taken and why no more."""
    names = {"root": 0}
    fresh = 1_000_000
    for number, step in enumerate(scenario.step):
        if step.expect not in ("done", "refused"):
            continue
        fresh += len(step.args)
        args = {k: names.get(v, fresh + i) for i, (k, v) in enumerate(step.args.items())}
        answer = session.perform(Operation("act", {"action": step.action, "args": args}))
        assert answer is not None
        if session.over:
            return number + 1, ""
        result = answer.result or {}
        if not answer.ok or not result.get("steered"):
            why = answer.error.message if answer.error is not None else result.get("reason", "")
            return number, f"{_said(number, step)}: {why}"
        made = result.get("names", {})
        for parameter, name in step.args.items():
            if name not in names and result.get("outcome") == "done":
                names[name] = made.get(parameter, args[parameter])
        if result.get("outcome") != step.expect:
            words = f"expected {step.expect}, the target says {result.get('outcome')}"
            last = answer.events[-1] if answer.events else None
            session.violations.append(
                Violation(
                    "refinement", number, f"step/{step.action}", words, told(last) if last else _said(number, step)
                )
            )
            return number + 1, ""
        session.violations += _shown(number, step, lambda node: session.checker.project(names[node]))
        if after_step is not None and not session.over:
            after_step(session)
            if session.over:
                return number + 1, ""
    return len(scenario.step), ""


def _derived(scenario: Scenario, session: Session) -> tuple[int, str]:
    """Bring every step about by operations. Returns how many were taken and why not all: a refusal that cannot be asked
    for is left out, a step that cannot be brought about is the end.
    """
    derivation, reasons = Derivation(scenario, session), list[str]()
    names, project = derivation.names, session.checker.project
    for number, step in enumerate(scenario.step):
        if step.expect not in ("done", "refused"):
            continue
        reason = derivation.take(number)
        if session.over:
            return number + 1, ""
        if reason is not None:
            reasons.append(f"{_said(number, step)}: {reason}")
            if step.expect == "done":
                break
        elif not derivation.ahead(number):
            shown = _shown(number, step, lambda node: project(names[node]))
            # Copies of other components come along with those that the scenario speaks of, and so do their locks.
            session.violations += [v for v in shown if not _has(v.observed, v.expected)]
            if session.over:
                return number + 1, ""
    return number + 1 - len(reasons), "; ".join(reasons)


def _has(observed: object, expected: object) -> bool:
    """Counts that have what is expected of each component that is named."""
    counts = isinstance(observed, dict) and isinstance(expected, dict) and bool(expected)
    return counts and expected.items() <= observed.items()  # type: ignore[attr-defined]


def _operations(scenario: Scenario, session: Session) -> tuple[int, str]:
    bound: dict[str, Any] = {}
    for number, (op, asked) in enumerate(zip(scenario.op, scenario.operations(), strict=True)):
        if asked.name not in session.operations:
            if asked.name in ("step", "wait"):
                continue
            return number, f"op {number + 1}: {session.target.name} has no operation {asked.name!r}"
        args = {k: bound.get(v, v) if isinstance(v, str) else v for k, v in asked.args.items()}
        answer = session.perform(Operation(asked.name, args))
        if session.over:
            return number + 1, ""
        if answer is None:
            continue
        said = "done" if answer.ok else "refused"
        if op.expect not in ("any", said):
            why = f" ({answer.error.message})" if answer.error is not None else ""
            words = f"op {number + 1} {op.name}: expected {op.expect}, the target says {said}{why}"
            kind: Any = "permissiveness" if op.expect == "done" else "safety"
            session.violations.append(Violation(kind, session.events - 1, f"op/{op.name}", words))
            return number + 1, ""
        result: Mapping[str, Any] = answer.result or {}
        for name, key in op.bind.items():
            bound[name] = result.get(key)
    return len(scenario.op), ""
