"""Random walks of the reference machine: states and traces that are reachable by construction.

A walk prefers arguments that have a chance (an operation's own anchor, a holder that is at work), so that deep
interleavings come up within a few dozen steps. The same seed gives the same walk.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from .algebra import Action
from .machine import Outcome, ReferenceMachine

Arguments = dict[str, int]


def random_walk(
    machine: ReferenceMachine, rng: Random, attempts: int, *, nodes: int = 8, holders: int = 4, refused: bool = False
) -> Iterator[tuple[str, Arguments, Outcome]]:
    """Try `attempts` random actions and yield those that were done (and, with `refused`, those that were refused).

    Args:
        machine: starts from whatever state it is in, and is changed.
        rng: the only source of randomness.
        attempts: how many actions are tried, senseless ones included.
        nodes: the tree is kept at or below this many nodes.
        holders: no more operations than this are under way at a time.
        refused: also yield refused attempts, which change nothing.
    """
    actions = [a for a in machine.instance.actions.values() if a.name != "reset"]
    fresh = 1 + max([*machine.state.nodes(), *machine.state.holders()])
    for _ in range(attempts):
        action = rng.choice(actions)
        live = len(machine.state.marks["live"])
        if live > nodes and action.name in ("insert_leaf", "insert_host", "split"):
            continue
        starts = any(q.kind == "idle" for q in action.parameters)
        if starts and len(machine.state.holders()) >= holders:
            continue
        args = likely_arguments(machine, action, rng, fresh)
        if args is None:
            continue
        outcome = machine.step(action.name, args)
        if outcome:
            fresh += 1
        if outcome or (refused and outcome.verdict != "senseless"):
            yield action.name, args, outcome


def likely_arguments(machine: ReferenceMachine, action: Action, rng: Random, fresh: int) -> Arguments | None:
    """Arguments of the right kinds, a holder's own nodes first; None if there is nothing to choose from."""
    state = machine.state
    live, holders = sorted(state.marks["live"]), state.holders()
    kinds = {q.var.name: q.kind for q in action.parameters}
    args: Arguments = {}
    if "holder" in kinds:
        if kinds["holder"] == "idle" or not holders:
            args["holder"] = fresh
        else:
            args["holder"] = rng.choice([*holders, fresh] if action.name.startswith("backup_aux") else holders)
    for name, kind in kinds.items():
        if kind == "fresh":
            args[name] = fresh
        elif name == "node" and (own := _own_nodes(machine, args.get("holder"))) and rng.random() < 0.9:
            args[name] = rng.choice(own)
        elif kind in ("live", "inner") and name not in ("top", "boundary"):
            choice = [n for n in live if n or kind == "live"]
            if not choice:
                return None
            args[name] = rng.choice(choice)
    for name in ("top", "boundary"):
        if name in kinds:
            args[name] = rng.choice([n for n in state.path(args["node"]) if n] or [args["node"]])
    return {name: args[name] for name in kinds}


def _own_nodes(machine: ReferenceMachine, holder: int | None) -> list[int]:
    if holder is None:
        return []
    pairs = machine.state.pairs
    return sorted(pairs["anchor"].nodes(holder) or pairs["device_lock.full"].nodes(holder))
