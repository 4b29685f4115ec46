"""The protocol in words and tables, its catalogue of properties, and the scenarios. Data only.

`files()` finds them, in a checkout and in an installed package alike.
"""

from __future__ import annotations

from importlib.resources import files as _files
from importlib.resources.abc import Traversable


def files() -> Traversable:
    """The folder of the specifications."""
    return _files(__name__)
