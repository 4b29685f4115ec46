"""The last events that touched each node, in memory that grows with the tree and not with the trace."""

from __future__ import annotations

from collections.abc import Iterable

from .events import Event

KEPT = 4
"""Events kept for each node."""
GONE = 256
"""Nodes that have left the tree and are still remembered."""


class History:
    """Remembers, for each node in the tree and for those that left it last, the last few events about it."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[Event, ...]] = {}
        self._gone: dict[int, tuple[Event, ...]] = {}

    def note(self, node: int, event: Event) -> None:
        """`event` was about `node`."""
        last = self._last
        had = last.get(node)
        last[node] = (event,) if had is None else (*had[1 - KEPT :], event)

    def forget(self, node: int) -> None:
        """`node` has left the tree."""
        had = self._last.pop(node, None)
        if had is not None:
            self._gone[node] = had
            if len(self._gone) > GONE:
                del self._gone[next(iter(self._gone))]

    def about(self, nodes: Iterable[int]) -> tuple[Event, ...]:
        """The last events about any of `nodes`, oldest first."""
        found = {event.seq: event for node in nodes for event in (*self._gone.get(node, ()), *self._last.get(node, ()))}
        return tuple(found[seq] for seq in sorted(found))
