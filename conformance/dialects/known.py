"""The dialects that there are, found by the name of a target."""

from __future__ import annotations

from functools import cache

from .dialect import Dialect
from .sglang import DIFFERENCES


@cache
def dialect_of(target: str) -> Dialect | None:
    """The dialect of a target or of the target of a trace: of `sglang:VERSION…`; None: it speaks the text itself."""
    kind, _, rest = target.partition(":")
    version = rest.partition(":")[0]
    if kind != "sglang" or not version.replace(".", "").isdigit():
        return None
    return Dialect(f"sglang:{version}", tuple(d for d in DIFFERENCES if d.applies(version)))
