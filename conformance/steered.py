"""The driver of single actions: walks the model at random and asks the target to come along, step by step."""

from __future__ import annotations

from random import Random

from ..model.walk import likely_arguments
from .situation import Operation, Situation, operation

NODES, HOLDERS = 7, 4
"""The tree and the operations under way are kept at or below so many."""


class SteeredDriver:
    """Chooses actions that make sense to the model, those that a protection refuses among them.

    Args:
        seed: the only source of randomness.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(f"{seed}/steered")
        self._fresh = 1 << 20

    def next(self, situation: Situation) -> Operation:
        """One action, as an `act` operation."""
        machine, rng = situation.machine, self.random
        actions = list(machine.instance.actions.values())
        live = machine.state.marks["live"]
        for _ in range(200):
            action = rng.choice(actions)
            if action.name == "reset" and rng.random() < 0.9:
                continue
            if len(live) > NODES and action.name in ("insert_leaf", "insert_host", "split"):
                continue
            if any(q.kind == "idle" for q in action.parameters) and len(machine.state.holders()) >= HOLDERS:
                continue
            self._fresh += 1
            args = likely_arguments(machine, action, rng, self._fresh)
            if args is None or machine.allows(action.name, args).verdict not in ("done", "refused"):
                continue
            return operation("act", action=action.name, args=args)
        return operation("act", action="insert_leaf", args={"parent": 0, "leaf": self._fresh})
