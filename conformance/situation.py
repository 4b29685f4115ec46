"""Where a run stands, as the model knows it: which nodes and operations there are to pick from.

An operation of a run names nodes and holders by *picks*: the third of those that are only on the host. So a run can be
written down, shortened and replayed on another target, and still makes sense.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..model.machine import ReferenceMachine
from ..model.state import State


@dataclass(frozen=True, slots=True)
class Pick:
    """The `index`-th (modulo how many there are) node or holder of a kind."""

    among: str
    index: int = 0


NODES: Mapping[str, Callable[[State], set[int]]] = {
    "any": lambda s: s.marks["live"],
    "inner": lambda s: s.marks["live"] - {0},
    "device": lambda s: s.marks["device.full"] - {0},
    "host_only": lambda s: s.marks["host.full"] - s.marks["device.full"] - {0},
    "unbacked": lambda s: s.marks["device.full"] - s.marks["host.full"] - {0},
    "backed": lambda s: s.marks["host_arrived.full"] - {0},
    "duplicate": lambda s: s.marks["tracked_duplicate"],
    "pinned": lambda s: set(s.pairs["load_back_pending"].by_node),
    "locked": lambda s: set(s.pairs["device_lock.full"].by_node) - {0},
    "read": lambda s: set(s.pairs["reads.full"].by_node),
    "written": lambda s: set(s.pairs["writes.full"].by_node),
    "leaf": lambda s: {n for n in s.marks["live"] if n and not s.children.get(n)},
    "upper": lambda s: {n for n in s.marks["live"] if n and s.children.get(n)},
    "aux_host": lambda s: {
        n for n in s.marks["live"] if any(n in s.marks.get(f"host.{c}", ()) for c in ("swa", "mamba"))
    },
}
"""Kinds of nodes."""

HOLDERS: Mapping[str, Callable[[State], set[int]]] = {
    "request": lambda s: s.marks["request"],
    "backup": lambda s: s.marks["backup"],
    "loading": lambda s: s.marks["loading"],
    "load_back": lambda s: s.marks["load_back"],
    "prefetch": lambda s: s.marks["prefetch"],
    "read_prefetch": lambda s: s.marks["prefetch"] - s.marks["filling"],
    "storing": lambda s: s.marks["storing"],
    "operation": lambda s: set().union(
        *(s.marks[k] for k in ("request", "backup", "loading", "load_back", "prefetch", "storing"))
    ),
    "flying": lambda s: s.marks["backup"] | s.marks["load_back"] | s.marks["filling"] | s.marks["storing"],
}
"""Kinds of holders."""

NOBODY = 999_999
"""A name that no node and no operation has: what a stale or mistaken caller passes."""


class Situation:
    """Answers picks from the state of the model that follows a run.

    Attributes:
        spent: holders that are no longer picked, though the model does not know yet what becomes of them.
    """

    def __init__(self, machine: ReferenceMachine) -> None:
        self.machine = machine
        self.spent: set[int] = set()

    def among(self, kind: str) -> set[int]:
        """All nodes or holders of a kind."""
        return (NODES.get(kind) or HOLDERS[kind])(self.machine.state)

    def resolve(self, args: Mapping[str, Any]) -> dict[str, Any] | None:
        """Arguments with every pick replaced by an id; None if there is nothing to pick from."""
        found: dict[str, Any] = {}
        for name, value in args.items():
            if isinstance(value, Pick):
                if value.among == "nobody":
                    found[name] = NOBODY
                    continue
                ids = self.among(value.among)
                if self.spent and value.among in HOLDERS:
                    ids = ids - self.spent
                if not ids:
                    return None
                found[name] = sorted(ids)[value.index % len(ids)]
            else:
                found[name] = value
        return found

    def picks(self, asked: Operation, args: Mapping[str, Any]) -> Operation:
        """The operation with picks that mean now what `args` say; with ids where no pick does."""
        given = {}
        for name, value in asked.args.items():
            given[name] = value
            if isinstance(value, Pick) and value.among != "nobody":
                given[name] = self._pick(value.among, args[name])
        return Operation(asked.name, given)

    def _pick(self, kind: str, wanted: int) -> Pick | int:
        for among in (kind, "any" if kind in NODES else "operation"):
            ids = self.among(among)
            if wanted in ids:
                return Pick(among, sorted(ids).index(wanted))
        return wanted


class Operation(NamedTuple):
    """One operation of a run: its name, and arguments of which some may be picks."""

    name: str
    args: Mapping[str, Any]

    def __str__(self) -> str:
        told = ", ".join(
            f"{k}={v.among}[{v.index}]" if isinstance(v, Pick) else f"{k}={v!r}" for k, v in self.args.items()
        )
        return f"{self.name}({told})"


class Leading(Operation):
    """An operation that brings about what the next one picks from: nothing is chosen before it is done."""

    __slots__ = ()


def operation(name: str, /, **args: Any) -> Operation:
    """An operation, written shortly."""
    return Operation(name, args)
