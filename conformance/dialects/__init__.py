"""Dialects: what a target does otherwise than the protocol text without harm, as data with the reason."""

from .dialect import Dialect, Difference
from .known import dialect_of
from .text import WINDOW_TOPS

__all__ = ["WINDOW_TOPS", "Dialect", "Difference", "dialect_of"]
