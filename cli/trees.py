"""The two trees around the first violation, on the terminal: what `diff` and `replay` draw."""

from __future__ import annotations

from ..view import terminal
from ..view.source import Source, tell
from .report import out


def draw(source: Source) -> None:
    """The tree before and after the step that breaks a rule, what differs lit; nothing where no step does."""
    told = tell(source)
    at = told.at
    if told.violation is None or at is None:
        return
    before, after = told.pair(at)
    out.print(terminal.side_by_side(before, after))
