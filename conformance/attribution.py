"""Puts violations down to known deviations, in one life: by what they look like, and by what has happened before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..model.state import State
from .cause import NONE, Cause
from .causes import CAUSES
from .events import Event
from .violation import Violation

if TYPE_CHECKING:
    from .deviations import Deviation

COUNTS = ("lock_ref", "host_lock_ref")


class Attribution:
    """Follows one life.

    Args:
        known: the deviations that the target is known to have.
        state: the model's, which changes as the life goes on.
    """

    def __init__(self, known: Sequence[Deviation], state: State) -> None:
        self._known = [(each, CAUSES[each.cause]()) for each in known]
        self._state = state
        self._last: Event | None = None

    def saw(self, event: Event) -> None:
        """Take an event in before it is checked."""
        self._last = event
        for _, cause in self._known:
            cause.saw(event, self._state)

    def name(self, violation: Violation) -> str | None:
        """The deviation that a violation belongs to; None: to no known one. Asked before the next event is taken in."""
        event = self._last if self._last is not None and violation.seq == self._last.seq else None
        looks = [(each, cause) for each, cause in self._known if each.looks_like(violation)]
        if violation.field is not None and violation.field.partition(".")[0] in COUNTS:
            made = self._of_count(violation)
            return next((each.id for each, cause in looks if cause in made), None)
        return next((each.id for each, cause in looks if cause.explains(violation, event, self._state)), None)

    def _of_count(self, violation: Violation) -> list[Cause]:
        """The causes that together make just the difference that a violation of a count shows; none if they do not."""
        field, _, only = (violation.field or "").partition(".")
        wanted, got = ({only: side} if only else side for side in (violation.expected, violation.observed))
        if violation.node is None or not isinstance(wanted, dict) or not isinstance(got, dict):
            return []
        # A node that the target did not show is as it was: what is observed is what was expected before.
        unshown = violation.rule.endswith("/shown")
        found: list[Cause] = []
        for component in {*wanted, *got}:
            low = high = 0
            for _, cause in self._known:
                now = cause.missing(field, component, violation.node, self._state)
                was = cause.was_missing(field, component, violation.node) if unshown else NONE
                low, high = low + now.start - was.stop + 1, high + now.stop - 1 - was.start
                if now != NONE or was != NONE:
                    found.append(cause)
            if not low <= wanted.get(component, 0) - got.get(component, 0) <= high:
                return []
        return found
