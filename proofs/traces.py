"""A way to a state, told in names that are never used twice: from the calls that the search remembers to a scenario.

The search renames states as it goes. Here the calls are done again, one state at a time, keeping track of who is
who; each new node and each operation gets a new number, as the events of a real cache have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any, TypedDict

import numpy as np

from ..model.algebra import HOLDER
from .arrays import arrays
from .planes import Planes
from .program import Program, Universe
from .shape import Shape, namings
from .successors import successors
from .symmetry import Canon, rename_holders, rename_nodes

_XP = arrays("cpu")


class Step(TypedDict):
    """One step of a scenario."""

    action: str
    args: dict[str, int]


class Walk:
    """A state of the search, and the numbers that its nodes and holders have in the scenario."""

    def __init__(self, universe: Universe) -> None:
        self.universe = universe
        self.shape: Shape = universe.start
        self.columns: np.ndarray[Any, Any] = np.array(universe.layout.initial, np.int64).reshape(-1, 1)
        self.node_ids = [0, *([-1] * universe.nodes)]
        self.holder_ids = [-1] * universe.holders
        self.steps: list[Step] = []
        self._next_node = 1
        self._next_holder = 1

    @property
    def program(self) -> Program:
        """What can happen now."""
        return self.universe.program(self.shape)

    def planes(self) -> Planes:
        """The state as a batch of one."""
        return Planes(_XP, self.columns, self.program.needed)

    def take(self, number: int) -> None:
        """Do a call that the search did from this state."""
        self.mention(number)
        planes, program = self.planes(), self.program
        fires = [p if f.number == number else 0 for f, p in zip(program.firings, self.decided(planes), strict=False)]
        (batch,) = successors(_XP, program, planes, fires, self.columns)
        firing = next(f for f in program.firings if f.number == number)
        (names,) = {e.names for e in firing.effects if e.shape == batch.shape}
        self.node_ids = _moved(self.node_ids, names)
        self.shape = batch.shape
        if self.universe.symmetry:
            self._settle(batch.columns)
        else:
            self.columns = np.array(batch.columns)

    def decided(self, planes: Planes) -> list[int]:
        """The outputs of the program for this state."""
        found: list[int] = self.program.decide(planes.planes, planes.one)
        return found

    def mention(self, number: int) -> None:
        """Write a call down as the next step, with new numbers for who is new."""
        call = self.universe.calls[number]
        action = self.universe.system.actions[call.action]
        args: dict[str, int] = {}
        for parameter, value in zip(action.parameters, call.args, strict=True):
            if parameter.var.sort == HOLDER:
                if self.holder_ids[value] < 0 or parameter.kind == "idle" or self._empty_handed(value):
                    self.holder_ids[value] = self._next_holder
                    self._next_holder += 1
                args[parameter.var.name] = self.holder_ids[value]
            else:
                if parameter.kind == "fresh":
                    self.node_ids[value] = self._next_node
                    self._next_node += 1
                args[parameter.var.name] = self.node_ids[value]
        self.steps.append({"action": call.action, "args": args})

    def copy(self) -> Walk:
        """Another walk that begins where this one is."""
        twin = Walk(self.universe)
        twin.shape, twin.columns = self.shape, self.columns
        twin.node_ids, twin.holder_ids, twin.steps = [*self.node_ids], [*self.holder_ids], [*self.steps]
        twin._next_node, twin._next_holder = self._next_node, self._next_holder
        return twin

    def named(self, values: Mapping[str, int], holders: set[str]) -> dict[str, int]:
        """Names of the universe in the scenario's numbers; -1 for who never appeared."""
        return {k: (self.holder_ids if k in holders else self.node_ids)[v] for k, v in values.items()}

    def _empty_handed(self, holder: int) -> bool:
        for word, made in enumerate(self.universe.layout.words):
            if int(self.columns[word, 0]) >> made.field(holder) & ((1 << made.width) - 1):
                return False
        return True

    def _settle(self, columns: list[Any]) -> None:
        layout = self.universe.layout
        wanted = Canon(layout, self.shape)(_XP, columns)
        for nodes in namings(layout.nodes):
            if self.shape.renamed(nodes) != self.shape:
                continue
            renamed = rename_nodes(layout, columns, nodes)
            for holders in permutations(range(layout.holders)):
                found = [rename_holders(layout, w, c, holders) for w, c in enumerate(renamed)]
                if all((a == b).all() for a, b in zip(found, wanted, strict=True)):
                    self.node_ids = _moved(self.node_ids, nodes)
                    self.holder_ids = _moved(self.holder_ids, holders)
                    self.columns = np.array(wanted)
                    return
        raise AssertionError("a representative is not one of the state's namings")


def walk_of(universe: Universe, calls: Sequence[int]) -> Walk:
    """The state that the calls lead to, with the scenario so far."""
    walk = Walk(universe)
    for number in calls:
        walk.take(number)
    return walk


def _moved(ids: list[int], names: Sequence[int]) -> list[int]:
    found = [-1] * len(ids)
    for old, new in enumerate(names):
        found[new] = ids[old]
    return found
