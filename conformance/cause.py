"""Why a known deviation comes about: what must have happened in a life for a violation to be put down to it."""

from __future__ import annotations

from ..model.state import State
from .events import Event
from .violation import Violation

NONE = range(1)
"""No lock is missing."""


class Cause:
    """Follows the events of one life. It knows what the target has lost by the deviation so far, and so what a model
    with the same mistake would show: a violation is the deviation's only if it is that much and no more.
    """

    def saw(self, event: Event, state: State) -> None:
        """Take an event in; `state` is the model's before it."""

    def missing(self, field: str, component: str, node: int, state: State) -> range:
        """How many locks of a node the target may not count, and should (`field`: lock_ref or host_lock_ref)."""
        return NONE

    def was_missing(self, field: str, component: str, node: int) -> range:
        """What `missing` said before the event."""
        return NONE

    def explains(self, violation: Violation, event: Event | None, state: State) -> bool:
        """Whether a violation, other than of a count, is what a target with this mistake shows (`event`: where)."""
        return False


class AnyOf(Cause):
    """One mistake that comes about in several ways, each of which loses locks of its own."""

    def __init__(self, *ways: Cause) -> None:
        self.ways = ways

    def saw(self, event: Event, state: State) -> None:
        """Take an event in."""
        for way in self.ways:
            way.saw(event, state)

    def missing(self, field: str, component: str, node: int, state: State) -> range:
        """What the one way says that this is about."""
        return next((m for w in self.ways if (m := w.missing(field, component, node, state)) != NONE), NONE)

    def was_missing(self, field: str, component: str, node: int) -> range:
        """The same before the event."""
        return next((m for w in self.ways if (m := w.was_missing(field, component, node)) != NONE), NONE)

    def explains(self, violation: Violation, event: Event | None, state: State) -> bool:
        """Whether one of the ways does."""
        return any(way.explains(violation, event, state) for way in self.ways)
