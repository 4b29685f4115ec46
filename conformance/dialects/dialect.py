"""What a dialect is: differences from the protocol text, and the text that they add up to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from ...model.instance import Instance, instance, record
from ...model.protocol import Setting
from ...model.vocabulary import Component, Policy
from .text import REFILL, Habits, text


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that a target does otherwise, and why nobody is harmed.

    Attributes:
        id: stable name.
        words: what it does, and what the protocol text says instead.
        reason: why it is permitted.
        since, until: the first and the last release that does so; None: no such bound.
        habits: what it sets in the text (see `text.Habits`).
    """

    id: str
    words: str
    reason: str
    since: str | None = None
    until: str | None = None
    habits: Mapping[str, bool] | None = None

    def applies(self, version: str) -> bool:
        """Whether the release does so."""
        found = release_number(version)
        return (self.since is None or release_number(self.since) <= found) and (
            self.until is None or found <= release_number(self.until)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """The protocol as one release of a target speaks it. Equal to itself alone."""

    name: str
    differences: tuple[Difference, ...]

    @property
    def habits(self) -> Habits:
        """All that the differences set."""
        set_by_all: dict[str, bool] = {}
        for difference in self.differences:
            set_by_all |= difference.habits or {}
        return replace(Habits(), **set_by_all)

    def instance(self, policy: Policy, components: tuple[Component, ...]) -> Instance:
        """The protocol text with the actions that the dialect words otherwise."""
        return _spoken(self, policy, components)


@cache
def _spoken(dialect: Dialect, policy: Policy, components: tuple[Component, ...]) -> Instance:
    plain = instance(policy, components)
    setting = Setting(plain.setting.policy, plain.setting.components)
    actions = {**plain.actions, **record(setting, text(dialect.habits))}
    refill = actions.pop(REFILL, None)
    if refill is not None:
        actions["attach_host_aux.full"] = replace(refill, name="attach_host_aux.full")
    return replace(plain, actions=actions)


def release_number(version: str) -> tuple[int, ...]:
    """A version as numbers that compare."""
    return tuple(int(part) for part in version.split("."))
