"""What a run of two targets side by side comes to: where they part, and how much agreed."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from ..model.vocabulary import Component, Policy
from .divergence import FieldDifference
from .scenario import Scenario
from .violation import Violation


@dataclass(frozen=True, slots=True)
class Parting:
    """The first answers in which two targets differ.

    Attributes:
        number: of the operation in its life, from 1.
        asked: the operation, as target `a` was asked for it.
        a, b: what either said: how it ended, then its events, one a line.
        fields: what differs, under the names of `a`.
        recent: operations before, the oldest first.
    """

    number: int
    asked: str
    a: tuple[str, ...]
    b: tuple[str, ...]
    fields: tuple[FieldDifference, ...]
    recent: tuple[str, ...] = ()

    @property
    def signature(self) -> tuple[str, ...]:
        """What makes two partings the same: the operation and the fields, less their numbers."""
        return (self.asked.partition("(")[0], *sorted({re.sub(r"\W*\d+", "", f.field) for f in self.fields}))

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "number": self.number, "asked": self.asked, "a": list(self.a), "b": list(self.b),
            "fields": [{"node": f.node, "field": f.field, "a": f.a, "b": f.b} for f in self.fields],
            "recent": list(self.recent),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parted:
    """One distinct divergence: the first time, how often, and the shortest run that shows it."""

    first: Parting
    seed: int
    times: int
    scenario: Scenario | None


@dataclass(slots=True)
class LockstepResult:
    """What came of two targets under one policy and component set.

    Attributes:
        compared: how much agreed, by kind (see `Pairing.compared`).
        coverage: how often each action was seen in both.
        unseen: fields of nodes that only one of the two shows.
        violations: what the model has against either, by target.
        known: how often each known deviation of either was seen.
    """

    targets: tuple[str, str]
    policy: Policy
    components: tuple[Component, ...]
    seed: int
    reproduce: str
    steps: int = 0
    lives: int = 0
    seconds: float = 0.0
    compared: Counter[str] = field(default_factory=Counter)
    coverage: Counter[str] = field(default_factory=Counter)
    unseen: tuple[str, ...] = ()
    parted: dict[tuple[str, ...], Parted] = field(default_factory=dict)
    violations: dict[str, list[Violation]] = field(default_factory=dict)
    known: dict[str, Counter[str]] = field(default_factory=dict)

    @property
    def verdict(self) -> Literal["holds", "violated", "vacuous"]:
        """ "vacuous" if there was nothing to compare."""
        if self.parted or any(self.violations.values()):
            return "violated"
        return "holds" if self.compared["events"] else "vacuous"

    @property
    def divergence(self) -> Parting | None:
        """The first one."""
        return next((each.first for each in self.parted.values()), None)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "verdict": self.verdict, "targets": list(self.targets), "policy": self.policy,
            "components": list(self.components), "steps": self.steps, "lives": self.lives,
            "steps_per_second": round(self.steps / self.seconds) if self.seconds else 0,
            "compared": dict(self.compared), "coverage": dict(sorted(self.coverage.items())),
            "unseen": list(self.unseen), "seed": self.seed, "reproduce": self.reproduce,
            "divergence": None if self.divergence is None else self.divergence.as_json(),
            "divergences": [
                {
                    "first": each.first.as_json(), "times": each.times,
                    "shortest": None if each.scenario is None else [str(o) for o in each.scenario.operations()],
                }
                for each in self.parted.values()
            ],
            "violations": {name: [v.as_json() for v in found] for name, found in self.violations.items()},
            "known": {name: dict(found) for name, found in self.known.items()},
        }  # fmt: skip
