"""One instance of the protocol: the text under one write policy, for one set of components."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import get_args, get_type_hints

from .algebra import HOLDER, NODE, Action, Parameter, ParameterKind, Relation, Sort, Var
from .errors import UnknownName
from .properties import CATALOGUE, Property
from .protocol import TEXT, Entry, Setting
from .transaction import Transaction
from .vocabulary import (
    COMPONENT_SETS,
    POLICIES,
    WRITE_BACK,
    WRITE_THROUGH,
    Component,
    Policy,
    ownership_policy,
    relations,
)

_SORT_OF: Mapping[str, Sort] = {"live": NODE, "inner": NODE, "fresh": NODE, "idle": HOLDER, "any": HOLDER}


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """The actions, relations and properties of one (policy, component set). Equal to itself alone."""

    setting: Setting
    relations: tuple[Relation, ...]
    actions: Mapping[str, Action]
    properties: tuple[Property, ...]

    @property
    def name(self) -> str:
        """Stable name, as in `write_back/full+swa`."""
        return f"{self.setting.policy}/{'+'.join(self.setting.components)}"

    def property(self, identifier: str) -> Property:
        """The property of that id; a family's id names its first member.

        Raises:
            UnknownName: no such property here.
        """
        for candidate in self.properties:
            if identifier in (candidate.id, candidate.family):
                return candidate
        raise UnknownName("property", identifier, [x.id for x in self.properties])


def instance(policy: Policy, components: tuple[Component, ...]) -> Instance:
    """The protocol under `policy` for `components`; write_through_selective shares write_through's instance.

    Raises:
        UnknownName: not a policy, or not one of the four component sets.
    """
    if policy not in POLICIES:
        raise UnknownName("policy", policy, list(POLICIES))
    if tuple(components) not in COMPONENT_SETS:
        raise UnknownName("component set", "+".join(components), ["+".join(c) for c in COMPONENT_SETS])
    return _build(ownership_policy(policy), tuple(components))


def instances() -> Iterator[Instance]:
    """All eight: two ownership policies by four component sets."""
    for policy in (WRITE_BACK, WRITE_THROUGH):
        for components in COMPONENT_SETS:
            yield instance(policy, components)


@cache
def _build(policy: Policy, components: tuple[Component, ...]) -> Instance:
    return compose(Setting(policy, components), TEXT)


def compose(setting: Setting, text: Mapping[str, Entry]) -> Instance:
    """An instance from a given text: the protocol's own, or a faulty one (see mutants.py)."""
    properties = tuple(found for family in CATALOGUE.values() for found in family.members(setting))
    return Instance(setting, tuple(relations(setting.components)), record(setting, text), properties)


def record(setting: Setting, text: Mapping[str, Entry]) -> dict[str, Action]:
    """The actions of a text, or of a part of it, as they read under `setting`."""
    actions: dict[str, Action] = {}
    for name, entry in text.items():
        if setting.policy in entry.policies:
            for component in setting.aux if entry.per_aux else (None,):
                made = _record(name, entry, setting, component)
                actions[made.name] = made
    return actions


def _record(name: str, entry: Entry, setting: Setting, component: Component | None) -> Action:
    t = Transaction(setting.components)
    hints = get_type_hints(entry.text, include_extras=True)
    names = list(inspect.signature(entry.text).parameters)[3 if component else 2 :]
    parameters = tuple(_parameter(n, get_args(hints[n])[1]) for n in names)
    static = (component,) if component else ()
    entry.text(t, setting, *static, *(q.var for q in parameters))
    words = (inspect.getdoc(entry.text) or "").split("\n\n")[0]
    return Action(f"{name}.{component}" if component else name, words, parameters, t.steps())


def _parameter(name: str, kind: ParameterKind) -> Parameter:
    return Parameter(Var(name, _SORT_OF[kind]), kind)
