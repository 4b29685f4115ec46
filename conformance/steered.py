"""The driver of single actions: walks the model at random and asks the target to come along, step by step."""

from __future__ import annotations

from random import Random

from ..model.walk import likely_arguments
from .situation import Operation, Situation, operation

WEIGHTS = {
    "commit_load_back": 12.0, "begin_load_back": 4.0, "ack_load_back": 2.0, "demote": 8.0, "begin_backup": 4.0,
    "ack_backup": 6.0, "refuse_load_back": 0.2, "abort_load_back": 0.1, "release_window": 0.3, "forward": 0.5,
    "reset": 0.05, "begin_prefetch": 0.4, "evict_host_leaf": 0.2, "delete_leaf": 0.2, "insert_leaf": 3.0,
    "drop_subtree": 0.2, "reclaim_duplicate": 0.4, "unevict": 0.3, "begin_storage_backup": 0.4, "lock": 0.6,
}  # fmt: skip
"""How often an action is tried, where not once: copies on both tiers and load-backs that overlap are what matters."""
NODES, HOLDERS = 7, 5
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
        weights = [WEIGHTS.get(a.name.partition(".")[0], 1.0) for a in actions]
        live = machine.state.marks["live"]
        for _ in range(200):
            action = rng.choices(actions, weights)[0]
            if len(live) > NODES and action.name in ("insert_leaf", "insert_host", "split"):
                continue
            if any(q.kind == "idle" for q in action.parameters) and len(machine.state.holders()) >= HOLDERS:
                continue
            self._fresh += 1
            args = likely_arguments(machine, action, rng, self._fresh)
            if args is not None and action.name == "begin_load_back":
                self._from_the_host(situation, args)
            if args is None or machine.allows(action.name, args).verdict not in ("done", "refused"):
                continue
            return operation("act", action=action.name, args=args)
        return operation("act", action="insert_leaf", args={"parent": 0, "leaf": self._fresh})

    def _from_the_host(self, situation: Situation, args: dict[str, int]) -> None:
        """Load-backs mostly start at what is only on the host."""
        away = sorted(situation.among("host_only"))
        if away and self.random.random() < 0.8:
            args["node"] = self.random.choice(away)
            path = [n for n in situation.machine.state.path(args["node"]) if n]
            args["boundary"] = self.random.choice(path)
