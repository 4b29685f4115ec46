"""Traces in the Informal Trace Format (`.itf.json`), which TLA+ tools show: one state after each step.

A state has `parent` (a map from nodes to their parents), every relation as a set of nodes, of holders or of (node,
holder) pairs, and the step that led to it. See Apalache's ADR 015.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..model.instance import Instance
from ..model.machine import ReferenceMachine
from .traces import Step

Json = dict[str, Any]


def to_itf(instance: Instance, trace: Sequence[Step], *, description: str = "") -> Json:
    """The trace as an ITF object, replayed by the reference machine.

    A last step that breaks a rule has no state of its own: its state repeats the one before, and `outcome` says
    what became of it.
    """
    machine = ReferenceMachine(instance)
    states = [_state(machine, 0, None, "done")]
    for index, step in enumerate(trace, 1):
        before = _state(machine, index, step, "")
        outcome = machine.step(step["action"], step["args"])
        state = _state(machine, index, step, outcome.verdict) if outcome else {**before, "outcome": outcome.verdict}
        states.append(state)
    names = ["action", "args", "outcome", "parent", *(r.name for r in instance.relations)]
    meta = {"format": "ITF", "source": f"pinproof {instance.name}", "description": description}
    return {"#meta": meta, "params": [], "vars": names, "states": states}


def _state(machine: ReferenceMachine, index: int, step: Step | None, outcome: str) -> Json:
    state = machine.state
    found: Json = {
        "#meta": {"index": index},
        "action": "" if step is None else step["action"],
        "args": {} if step is None else dict(step["args"]),
        "outcome": outcome,
        "parent": {"#map": [[n, p] for n, p in sorted(state.parent.items())]},
    }
    for relation in machine.instance.relations:
        if relation.name in state.pairs:
            pairs = state.pairs[relation.name]
            members = [{"#tup": [n, h]} for n in sorted(pairs.by_node) for h in sorted(pairs.holders(n))]
            found[relation.name] = {"#set": members}
        else:
            found[relation.name] = {"#set": sorted(state.marks[relation.name])}
    return found
