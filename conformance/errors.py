"""What can be wrong with what conformance is given, as opposed to what it finds."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


class ConformanceError(Exception):
    """Anything that was asked for and cannot be done. The message names the offending argument, line or field."""


class BadEvent(ConformanceError):
    """An event does not have the form that the vocabulary asks for."""


class BadTrace(ConformanceError):
    """A trace file cannot be read: a line is malformed, there is no header, or it is of another format.

    Args:
        words: what is wrong.
        line: number of the line, from 1.
    """

    def __init__(self, words: str, line: int) -> None:
        super().__init__(f"line {line}: {words}")
        self.line = line


class BadScenario(ConformanceError):
    """A scenario file does not have the form that it must have."""


class BadWorkload(ConformanceError):
    """A workload file cannot be read, or asks for what a target has no room for."""


class UnknownTarget(ConformanceError):
    """No such target. Says which there are."""

    def __init__(self, name: str, known: Sequence[str], words: str = "") -> None:
        near = difflib.get_close_matches(name, known, 3) or list(known)
        super().__init__(f"unknown target {name!r}; there is {', '.join(near)}{f' ({words})' if words else ''}")
        self.name = name


class TargetUnavailable(ConformanceError):
    """The target is known, and cannot run here. Says why and what to do."""
