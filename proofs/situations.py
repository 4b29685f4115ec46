"""The different situations in which a call fires, where whole states are too many to tell apart.

A call's *situation* is the tree, its arguments, and those bits of the state that its guards and its effects look
at. Two transitions in one situation differ only in what the action neither asks about nor changes; a suite that
takes one of each has seen every case of every action.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import Array, Arrays, signed
from .bits import Bits
from .layout import WORD
from .program import Firing, Program, Universe
from .shape import Shape
from .visited import hashed


@dataclass(frozen=True, slots=True)
class Situation:
    """The first state in which a situation was met, and the call."""

    state: int
    call: int


class Situations:
    """Collects situations while a search goes on."""

    def __init__(self, universe: Universe, xp: Arrays) -> None:
        self.universe = universe
        self.xp = xp
        self.found: list[Situation] = []
        self._masks: dict[tuple[Shape, int], list[tuple[int, int]]] = {}
        self._known: dict[tuple[Shape, int], set[int]] = {}

    def see(self, program: Program, firing: Firing, columns: Array, index: Array, base: int) -> None:
        """`firing` fires in the states numbered `base + index`, whose words are `columns[:, index]`."""
        key = (program.shape, firing.number)
        masks = self._masks.get(key)
        if masks is None:
            masks = self._masks[key] = looked_at(program, firing)
        known = self._known.setdefault(key, set())
        if not masks:
            if not known:
                known.add(0)
                self.found.append(Situation(base + int(index[0]), firing.number))
            return
        parts = [self.xp.take(columns[word], index) & mask for word, mask in masks]
        values: np.ndarray[Any, Any] = self.xp.get(parts[0] if len(parts) == 1 else hashed(parts, 0, 0))
        if (values == values[0]).all() and int(values[0]) in known:
            return
        different, first = np.unique(values, return_index=True)
        for value, at in zip(different.tolist(), first.tolist(), strict=True):
            if value not in known:
                known.add(value)
                self.found.append(Situation(base + int(index[at]), firing.number))


def looked_at(program: Program, firing: Firing) -> list[tuple[int, int]]:
    """(word, mask) for the bits that a call's guards and effects depend on."""
    ground = firing.ground
    literals = [ground.fires]
    for branch in ground.branches:
        literals += [branch.given, *branch.changed.values()]
    masks: dict[int, int] = {}
    for bit in support(program.bits, literals):
        masks[bit // WORD] = masks.get(bit // WORD, 0) | 1 << bit % WORD
    return [(word, signed(mask)) for word, mask in sorted(masks.items())]


def support(bits: Bits, literals: list[int]) -> set[int]:
    """The bits that expressions speak of."""
    found: set[int] = set()
    seen: set[int] = set()
    stack = [literal >> 1 for literal in literals]
    while stack:
        node = stack.pop()
        if node in seen or not node:
            continue
        seen.add(node)
        if bits.left[node] < 0:
            found.add(bits.right[node])
        else:
            stack += (bits.left[node] >> 1, bits.right[node] >> 1)
    return found
