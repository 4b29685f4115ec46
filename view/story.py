"""A neutral story: what happened, step by step, with the tree, the operations and what changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..model.vocabulary import Component
from .judge import Violation
from .tree import Change, Tree, apply
from .words import FAMILY, HolderKind, sentence, split_name

Held = dict[int, dict[str, tuple[list[int], list[int]]]]
"""What operations take and give back: operation, relation, (nodes taken, nodes given back)."""

BUCKETS = 400
"""Columns of the overview at most."""


@dataclass(slots=True)
class Step:
    """One event, told."""

    seq: int
    action: str
    component: Component | None
    args: dict[str, int]
    refused: bool = False
    reason: str = ""
    tag: str = ""
    changes: dict[int, Change] = field(default_factory=dict)
    held: Held = field(default_factory=dict)

    @property
    def words(self) -> str:
        """What happens, as a sentence."""
        return sentence(self.action, {**self.args, "component": self.component})

    @property
    def family(self) -> str:
        """What it is at a glance."""
        return FAMILY.get(split_name(self.action)[0], "other")

    @property
    def nodes(self) -> list[int]:
        """The nodes that it is about."""
        named = [v for k, v in self.args.items() if k in ("node", "leaf", "parent", "prefix", "top")]
        return list(dict.fromkeys([*named, *self.changes]))

    def size(self) -> int:
        """About how many bytes it takes on a page."""
        fields = sum(len(change) for change in self.changes.values())
        held = sum(len(a) + len(b) + 3 for rows in self.held.values() for a, b in rows.values())
        return 200 + len(self.tag) + len(self.reason) + 26 * fields + 8 * held


@dataclass(slots=True)
class Lane:
    """The life of one operation, in positions of steps: begun, bytes moving, ended; None where that did not happen."""

    holder: int
    kind: HolderKind
    begin: int
    commit: int | None = None
    end: int | None = None
    how: str = ""
    node: int | None = None


@dataclass(slots=True)
class Overview:
    """Counts for the whole source in at most `BUCKETS` columns of `width` steps each."""

    width: int = 1
    total: int = 0
    rows: dict[str, list[int]] = field(default_factory=dict)

    def count(self, family: str) -> None:
        """One more step, of that family."""
        column = self.total // self.width
        if column >= BUCKETS:
            self.width *= 2
            for name, row in self.rows.items():
                even = row + [0] * (len(row) % 2)
                self.rows[name] = [a + b for a, b in zip(even[::2], even[1::2], strict=True)]
            column = self.total // self.width
        row = self.rows.setdefault(family, [])
        row.extend([0] * (column + 1 - len(row)))
        row[column] += 1
        self.total += 1


@dataclass(slots=True)
class Story:
    """What a page needs. `first` is the position of the first step that is kept; `base` the tree just before it."""

    title: str
    header: Mapping[str, object]
    components: tuple[Component, ...]
    steps: list[Step]
    base: Tree
    base_held: dict[int, dict[str, list[int]]]
    lanes: list[Lane]
    overview: Overview
    first: int = 0
    violations: list[tuple[int, Violation]] = field(default_factory=list)
    """Position of the violating step, and what is wrong with it; at most `VIOLATIONS`."""
    reproduce: str = ""
    note: str = ""
    names: dict[int, str] = field(default_factory=dict)
    """What the author of a scenario calls its nodes."""

    @property
    def violation(self) -> Violation | None:
        """The first thing that is wrong."""
        return self.violations[0][1] if self.violations else None

    @property
    def at(self) -> int | None:
        """Position of the first violating step."""
        return self.violations[0][0] if self.violations else None

    def tree(self, position: int) -> Tree:
        """The tree after the step at `position` (`first - 1` for the base)."""
        tree = {node: dict(flat) for node, flat in self.base.items()}
        for step in self.steps[: position - self.first + 1]:
            apply(tree, step.changes)
        return tree

    def pair(self, position: int) -> tuple[Tree, Tree]:
        """The trees before and after a step."""
        return self.tree(position - 1), self.tree(position)
