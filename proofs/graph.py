"""The whole transition graph of a small universe, up to names: states as numbers, edges as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from ..model.errors import BadArgument
from .arrays import arrays
from .frontier import Block
from .planes import Planes
from .program import Universe
from .search import Limits, Search
from .shape import Shape, namings
from .spill import Disk
from .successors import successors
from .symmetry import Canon, rename_holders, rename_nodes

_XP = arrays("cpu")
Renaming = tuple[tuple[int, ...], tuple[int, ...]]
"""Node `n` is called `nodes[n]` after a step, holder `h` `holders[h]`."""


class TooManyTransitions(BadArgument):
    """The universe is larger than was asked for."""


@dataclass(slots=True)
class Graph:
    """Edges sorted by source; state 0 is the initial one.

    Attributes:
        first: edges `first[s]..first[s+1]-1` leave state s.
        call: the number of each edge's call, in the names of its source.
        target: the state that each edge leads to.
        renaming: which of `renamings` takes the source's names to the target's.
        empty_handed: a bit mask of holders for each state.
    """

    universe: Universe
    first: np.ndarray[Any, Any]
    call: np.ndarray[Any, Any]
    target: np.ndarray[Any, Any]
    renaming: np.ndarray[Any, Any]
    renamings: list[Renaming]
    empty_handed: np.ndarray[Any, Any]

    @property
    def states(self) -> int:
        """How many states."""
        return len(self.empty_handed)

    @property
    def transitions(self) -> int:
        """How many edges."""
        return len(self.target)


def graph_of(universe: Universe, *, memory: int, most: int) -> Graph:
    """Search the universe, then go through it once more to join the edges.

    Raises:
        TooManyTransitions: there are more than `most`.
        BadArgument: the text violates a rule, so that it has no graph.
    """
    disk, keep = Disk(), Disk()
    search = Search(universe, _XP, Limits(None, None, memory), disk, keep=keep)
    blocks: list[Block] = []
    try:
        search.start()
        blocks += search.blocks

        def level_done() -> None:
            blocks.extend(search.blocks)
            if search.tally.transitions > most:
                raise TooManyTransitions(
                    f"{universe.system.name} with {universe.nodes} nodes and {universe.holders} holders has more than "
                    f"{most:,} transitions"
                )

        if not search.run(None, level_done):
            raise BadArgument(f"{universe.system.name} breaks a rule; explore it to see how")
        rows = [(b.shape, b.kept.read()[:-1]) for b in blocks if b.kept is not None]
        return _Joiner(universe, search, rows).joined()
    finally:
        search.close()
        disk.close()
        keep.close()


class _Joiner:
    def __init__(self, universe: Universe, search: Search, blocks: list[tuple[Shape, np.ndarray[Any, Any]]]) -> None:
        self.universe = universe
        self.search = search
        self.blocks = blocks
        hashes = [search.hashes(shape, list(rows)) for shape, rows in blocks]
        keys = np.concatenate([k for k, _ in hashes])
        self.checks = None if search.visited.exact else np.concatenate([c for _, c in hashes])
        self.order = np.lexsort((keys,) if self.checks is None else (self.checks, keys))
        self.keys = keys[self.order]
        self.renamings: dict[Renaming, int] = {}

    def joined(self) -> Graph:
        parts: list[list[np.ndarray[Any, Any]]] = [[], [], [], []]
        empty, base = [], 0
        for shape, rows in self.blocks:
            for at in range(0, rows.shape[1], self.search.limits.chunk):
                columns = np.ascontiguousarray(rows[:, at : at + self.search.limits.chunk])
                for part, found in zip(parts, self._edges(shape, columns, base + at), strict=True):
                    part.extend(found)
            empty.append(self._empty_handed(rows))
            base += rows.shape[1]
        source, call, target, renaming = (np.concatenate(p) for p in parts)
        order = np.lexsort((call, source))
        first = np.searchsorted(source[order], np.arange(base + 1))
        return Graph(
            self.universe,
            first,
            call[order],
            target[order],
            renaming[order],
            list(self.renamings),
            np.concatenate(empty),
        )

    def _edges(self, shape: Shape, columns: np.ndarray[Any, Any], base: int) -> list[list[np.ndarray[Any, Any]]]:
        program = self.universe.program(shape)
        planes = Planes(_XP, columns, program.needed)
        fires = program.decide(planes.planes, planes.one)[: len(program.firings)]
        by_number = {f.number: f for f in program.firings}
        found: list[list[np.ndarray[Any, Any]]] = [[], [], [], []]
        for batch in successors(_XP, program, planes, fires, columns):
            names = next(e.names for e in by_number[batch.number].effects if e.shape == batch.shape)
            after, renaming = self._settled(batch.shape, batch.columns, names)
            n = len(batch.sources)
            parts = (batch.sources + base, np.full(n, batch.number), self._numbers(batch.shape, after), renaming)
            for whole, part in zip(found, parts, strict=True):
                whole.append(part.astype(np.int32))
        return found

    def _settled(
        self, shape: Shape, columns: list[Any], names: tuple[int, ...]
    ) -> tuple[list[Any], np.ndarray[Any, Any]]:
        """The representatives, and how each was renamed on the way there."""
        layout = self.universe.layout
        n = len(columns[0])
        if not self.universe.symmetry:
            return columns, np.full(n, self._number((names, tuple(range(layout.holders)))))
        after = Canon(layout, shape)(_XP, columns)
        found = np.full(n, -1)
        for nodes in namings(layout.nodes):
            if shape.renamed(nodes) != shape:
                continue
            renamed = rename_nodes(layout, columns, nodes)
            for holders in permutations(range(layout.holders)):
                if (found >= 0).all():
                    break
                equal = np.ones(n, np.bool_)
                for w, column in enumerate(renamed):
                    equal &= rename_holders(layout, w, column, holders) == after[w]
                whole = tuple(nodes[name] for name in names)
                found[equal & (found < 0)] = self._number((whole, holders))
        return after, found

    def _number(self, renaming: Renaming) -> int:
        return self.renamings.setdefault(renaming, len(self.renamings))

    def _numbers(self, shape: Shape, columns: list[Any]) -> np.ndarray[Any, Any]:
        keys, checks = self.search.hashes(shape, columns)
        at: Any = np.searchsorted(self.keys, keys)
        if self.checks is not None:
            # Equal first hashes stand together, by their second ones.
            while (wrong := np.flatnonzero(self.checks[self.order[at]] != checks)).size:
                at[wrong] += 1
        assert (self.keys[at] == keys).all()
        numbers: np.ndarray[Any, Any] = self.order[at]
        return numbers

    def _empty_handed(self, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        found = np.zeros(rows.shape[1], np.int64)
        for holder in range(self.universe.holders):
            empty = np.ones(rows.shape[1], np.bool_)
            for word, made in enumerate(self.universe.layout.words):
                if made.width:
                    empty &= rows[word] >> made.field(holder) & ((1 << made.width) - 1) == 0
            found |= empty.astype(np.int64) << holder
        return found
