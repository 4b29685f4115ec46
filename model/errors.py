"""What can be wrong with what the model is asked."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


class ModelError(Exception):
    """Anything the model refuses to do because of how it was asked, not because of the protocol."""


class UnknownName(ModelError):
    """A name that the model does not have. Says which kind of name, and the nearest ones."""

    def __init__(self, kind: str, name: str, known: Sequence[str]) -> None:
        near = difflib.get_close_matches(name, known, 3) or list(known)[:8]
        super().__init__(f"unknown {kind} {name!r}; there is {', '.join(near)}")
        self.kind = kind
        self.name = name


class BadArgument(ModelError):
    """An action was called with arguments that do not fit it."""
