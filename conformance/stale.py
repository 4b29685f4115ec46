"""Whether known deviations still occur: each has a run that shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..model.vocabulary import Component, Policy
from .deviations import Deviation, shipped
from .scenario import Scenario
from .session import Session
from .situation import Operation
from .targets.base import Configuration, Target
from .violation import Violation


def shows(target: Target, deviation: Deviation, policy: Policy, components: tuple[Component, ...]) -> bool:
    """Whether the deviation's own run still shows it."""
    plenty: dict[str, Any] = {"device_pages": 64, "host_pages": 64}
    chosen = Configuration(policy, components, **(plenty | deviation.config))
    session = Session(target, chosen, audit_every=0, known=shipped())
    for asked in Scenario("", "", [policy], ["+".join(components)], op=deviation.op).operations():
        session.perform(Operation(asked.name, asked.args))
        if session.over or deviation.id in session.known:
            break
    return deviation.id in session.known


def stale(
    target: Target, known: Sequence[Deviation], policy: Policy, components: tuple[Component, ...]
) -> list[Violation]:
    """Those of `known` that no longer occur, where their run is made for this policy and component set."""
    return [
        Violation("refinement", -1, f"deviation/{each.id}", f"known deviation {each.id} no longer occurs: {each.words}")
        for each in known
        if (policy, "+".join(components)) == (each.policies[0], each.components[0])
        and not shows(target, each, policy, components)
    ]
