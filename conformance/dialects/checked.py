"""Which properties of the protocol a target lets us check, and how."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Literal, get_args

from ...model.algebra import Formula, Region, Relation
from ...model.instance import Instance
from ..events import FIELDS

How = Literal["observed", "implied", "not at all"]
WAYS: tuple[How, ...] = get_args(How)
"""observed    every relation that the property speaks of is shown after each step, or is the driver's own knowledge
implied     some are not shown: the model keeps them, and every step that depends on them is judged by it
not at all  none of what it speaks of is shown
"""

_SHOWN = {
    "load_back_pending": "load_back_pending_id",
    "write_through_pending": "write_through_pending_id",
    "tracked_duplicate": "duplicate",
    "stored": "stored",
}


def how_checked(instance: Instance, sees: Sequence[str] | None) -> dict[str, How]:
    """Each property of the instance, and how it is checked on a target that shows those fields (None: all)."""
    seen = frozenset(FIELDS if sees is None else sees)
    return {each.id: _how({r.name for r in relations_in(each.formula)}, seen) for each in instance.properties}


def _how(names: set[str], seen: frozenset[str]) -> How:
    hidden = {name for name in names if not _is_shown(name, seen)}
    if not hidden:
        return "observed"
    return "not at all" if hidden == names else "implied"


def _is_shown(name: str, seen: frozenset[str]) -> bool:
    family, _, component = name.partition(".")
    if family in ("device_lock", "host_lock"):
        field = "lock_ref" if family == "device_lock" else "host_lock_ref"
        return field in seen or f"{field}.{component}" in seen
    if family in ("device", "host", "device_arrived", "host_arrived"):
        return component in seen
    return family not in _SHOWN or _SHOWN[family] in seen


def relations_in(term: object) -> Iterator[Relation]:
    """Every relation that a formula or region speaks of."""
    if isinstance(term, Relation):
        yield term
    elif isinstance(term, tuple):
        for part in term:
            yield from relations_in(part)
    elif isinstance(term, Formula | Region) and is_dataclass(term):
        for each in fields(term):
            yield from relations_in(getattr(term, each.name))
