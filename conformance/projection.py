"""What the model says can be seen of a node, as a `NodeState`; and how that differs from what was seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..model.machine import ReferenceMachine
from ..model.vocabulary import (
    COMPONENTS,
    device,
    device_arrived,
    device_lock,
    host,
    host_arrived,
    host_lock,
)
from .events import FIELDS, NOTHING, NodeState

_NONE: dict[Any, int] = {}


class Projector:
    """Calling it with a node gives what an observer sees of it, None if it is not in the tree. The hot path of a check.

    Bound to the state that `machine` has now.
    """

    def __init__(self, machine: ReferenceMachine) -> None:
        marks, pairs = machine.state.marks, machine.state.pairs
        self._live = marks["live"]
        self._rows = [
            (
                COMPONENTS.index(c),
                c,
                marks[device[c].name],
                marks[device_arrived[c].name],
                marks[host[c].name],
                marks[host_arrived[c].name],
                pairs[device_lock[c].name].by_node,
                pairs[host_lock[c].name].by_node,
            )
            for c in machine.components
        ]
        self._pins = pairs["load_back_pending"].by_node
        self._pending = pairs["write_through_pending"].by_node
        self._tracked = marks["tracked_duplicate"]
        self._stored = marks["stored"]

    def __call__(self, node: int) -> NodeState | None:
        """What can be seen of `node`."""
        if node not in self._live:
            return None
        tiers: list[Any] = [None, None, None]
        locks = host_locks = _NONE
        for number, name, here, arrived, there, host_there, locked, host_locked in self._rows:
            if node in here:
                seen = "D" if node in arrived else "d"
                if node in there:
                    seen += "H" if node in host_there else "h"
                tiers[number] = seen
            elif node in there:
                tiers[number] = "H" if node in host_there else "h"
            if node in locked:
                if locks is _NONE:
                    locks = {}
                locks[name] = len(locked[node])
            if node in host_locked:
                if host_locks is _NONE:
                    host_locks = {}
                host_locks[name] = len(host_locked[node])
        return NodeState(
            tiers[0],
            tiers[1],
            tiers[2],
            locks,
            host_locks,
            min(self._pins[node]) if node in self._pins else None,
            min(self._pending[node]) if node in self._pending else None,
            node in self._tracked,
            node in self._stored,
        )


class Sight:
    """The fields that a target can see: names of `NodeState` fields, or one component of a count, as `lock_ref.full`.

    Args:
        names: None: all.
    """

    def __init__(self, names: Sequence[str] | None) -> None:
        self.all = names is None
        wanted = FIELDS if names is None else names
        self.fields = tuple(name for name in wanted if "." not in name)
        self.parts = tuple(tuple(name.split(".", 1)) for name in wanted if "." in name)
        self.unseen = 0 if self.all else len(FIELDS) - len(self.fields)

    def differences(
        self, expected: NodeState | None, observed: NodeState | None
    ) -> Iterator[tuple[str, object, object]]:
        """Field, expected and observed value, for each field that is seen and differs."""
        if expected is None or observed is None:
            if expected is not observed:
                words = [None if state is None else "in the tree" for state in (expected, observed)]
                yield "node", words[0] or "gone", words[1] or "gone"
            return
        for field in self.fields:
            wanted, got = getattr(expected, field), getattr(observed, field)
            if wanted != got:
                yield field, wanted, got
        for field, part in self.parts:
            wanted, got = getattr(expected, field).get(part, 0), getattr(observed, field).get(part, 0)
            if wanted != got:
                yield f"{field}.{part}", wanted, got


def is_blank(state: NodeState | None) -> bool:
    """Nothing at all is seen: what targets show of a root that they do not model."""
    return state is not None and state == NOTHING
