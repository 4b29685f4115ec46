"""Spare parts: steps of the protocol that could be left out without any obligation noticing.

Every step of every action is taken out in turn. What is left must fail: otherwise the step protects nothing that is
written down, and either a property is missing or the step is a second line of defence (or says what nobody asks about).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..model.algebra import Action, Assign, Guard, Inherit, Step
from ..model.instance import Instance, instance
from ..model.vocabulary import Component, Policy
from .obligations import Kind, script
from .pool import Progress, spread
from .prove import Task, discharge


@dataclass(frozen=True, slots=True)
class SparePart:
    """A step that no obligation of its action needs. `step` is a guard's name, or what is assigned or inherited."""

    instance: str
    action: str
    step: str


def spare_parts(
    policy: Policy,
    components: tuple[Component, ...],
    actions: Sequence[str] | None = None,
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> tuple[SparePart, ...]:
    """The steps that could be left out, one at a time, of these actions (of all, if None).

    Raises:
        UnknownName: not a policy or not a component set.
    """
    found = instance(policy, components)
    tasks = [Task(found.setting.policy, components, name) for name in (actions or found.actions)]
    return tuple(sorted((p for parts in spread(_of_task, tasks, jobs, progress) for p in parts), key=str))


def _of_task(task: Task) -> list[SparePart]:
    found = instance(task.policy, task.components)
    return list(_of_action(found, found.actions[task.script]))


def _of_action(found: Instance, action: Action) -> Iterator[SparePart]:
    for number, step in enumerate(action.steps):
        name = _name(step)
        if name:
            less = replace(action, steps=action.steps[:number] + action.steps[number + 1 :])
            faulty = replace(found, actions={**found.actions, action.name: less})
            if all(r.verdict == "proved" for r in discharge(script(faulty, action.name, _always))):
                yield SparePart(found.name, action.name, name)


def _name(step: Step) -> str | None:
    match step:
        case Guard(kind="expect" | "require" | "reason", name=name):
            return name
        case Assign(relation=relation, value=value):
            return f"{'takes' if value else 'gives back'} {relation.name}"
        case Inherit(relation=relation):
            return f"inherits {relation.name}"
    return None


def _always(kind: Kind, subject: str, identifier: str) -> bool:
    """Leaving a guard out makes more possible, so what must only be possible need not be asked again."""
    return kind not in ("vacuity", "redundancy")
