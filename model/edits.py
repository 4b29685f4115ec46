"""Small changes to the protocol text, for protocols that are wrong on purpose (see mutants.py).

An edit that changes nothing is an error: the text has moved on and left it behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from .algebra import Action, Assign, Formula, Guard, GuardKind, Inherit, Step, Var
from .errors import ModelError
from .instance import Instance, instance, record
from .protocol import TEXT, Setting
from .protocol.setting import Text
from .vocabulary import Component

NODE, HOLDER = Var("node", "node"), Var("holder", "holder")
"""The arguments that most actions have."""

Made = Callable[[Setting, Component], Step]
"""Writes a step of one instance; for actions that exist once the component is FULL."""


class StaleEdit(ModelError):
    """An edit found nothing to change in an instance in which it is said to bite."""


@dataclass(frozen=True, slots=True)
class Without:
    """An action without some of its steps: guards by name, assignments and inheritances by relation.

    A relation without a component means all of them, so does `#` in a guard's name.
    """

    action: str
    guards: tuple[str, ...] = ()
    assigns: tuple[str, ...] = ()
    inherits: tuple[str, ...] = ()

    def steps(self, action: Action, setting: Setting) -> tuple[Step, ...]:
        """The steps that are left."""
        return tuple(s for s in action.steps if not self._drops(s))

    def _drops(self, step: Step) -> bool:
        match step:
            case Guard(name=name):
                return any(name == g or _with_any_component(name) == g for g in self.guards)
            case Assign(relation=relation):
                return _among(relation.name, self.assigns)
            case Inherit(relation=relation):
                return _among(relation.name, self.inherits)
        return False


@dataclass(frozen=True, slots=True)
class With:
    """An action with one more step, first or last."""

    action: str
    made: Made
    first: bool = False

    def steps(self, action: Action, setting: Setting) -> tuple[Step, ...]:
        """The steps with the new one among them."""
        _, _, component = action.name.partition(".")
        step = self.made(setting, component or "full")  # type: ignore[arg-type]
        return (step, *action.steps) if self.first else (*action.steps, step)


@dataclass(frozen=True, slots=True)
class Instead:
    """An action with another text."""

    action: str
    text: Text


Edit = Without | With | Instead


def apply(edits: tuple[Edit, ...], setting: Setting) -> Instance:
    """The instance of the text that results.

    Raises:
        StaleEdit: an edit changes nothing here.
    """
    found = instance(setting.policy, setting.components)
    text = {e.action: replace(TEXT[e.action], text=e.text) for e in edits if isinstance(e, Instead)}
    actions = {**found.actions, **record(setting, text)}
    for edit in edits:
        if not isinstance(edit, Instead):
            actions |= _edited(edit, actions, setting)
    return replace(found, actions=actions)


def _edited(edit: Without | With, actions: Mapping[str, Action], setting: Setting) -> dict[str, Action]:
    changed: dict[str, Action] = {}
    for action in actions.values():
        if action.name.partition(".")[0] == edit.action:
            steps = edit.steps(action, setting)
            if steps != action.steps:
                changed[action.name] = replace(action, steps=steps)
    if not changed:
        raise StaleEdit(f"{edit} changes nothing under {setting}")
    return changed


def guard(kind: GuardKind, name: str, formula: Formula, danger: Formula | None = None) -> Guard:
    """A guard whose words are its name."""
    return Guard(kind, name, formula, name, danger)


def _among(name: str, wanted: tuple[str, ...]) -> bool:
    return any(name == w or name.startswith(f"{w}.") for w in wanted)


def _with_any_component(name: str) -> str:
    return " ".join("#" if word in ("full", "swa", "mamba") else word for word in name.split(" "))
