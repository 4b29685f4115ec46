"""A small state as plain data, to be printed, saved and read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..model.algebra import Relation
from ..model.errors import BadArgument
from ..model.state import State


@dataclass(frozen=True, slots=True)
class Picture:
    """A small state: the parent of every node but the root (0), and the rows of every relation that has any."""

    parents: dict[int, int]
    facts: dict[str, list[list[int]]]

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Picture:
        """A picture that was written as JSON.

        Raises:
            BadArgument: its nodes are no tree.
        """
        parents = {int(node): int(parent) for node, parent in data["parents"].items()}
        for node in parents:
            above, steps = node, 0
            while above in parents and steps <= len(parents):
                above, steps = parents[above], steps + 1
            if above:
                raise BadArgument(f"node {node} of the picture has no way up to the root")
        return cls(parents, {str(name): [list(row) for row in rows] for name, rows in data["facts"].items()})

    def state(self, relations: Iterable[Relation]) -> State:
        """The same as a state that the reference machine can go on from."""
        state = State(relations)
        for node in sorted(self.parents, key=self._depth):
            state.grow(node, self.parents[node])
        for relation in state.relations:
            rows = self.facts.get(relation.name, [])
            if relation.name in state.pairs:
                for node, holder in rows:
                    state.pairs[relation.name].add(node, holder)
            else:
                state.marks[relation.name] = {row[0] for row in rows}
        return state

    def _depth(self, node: int) -> int:
        return 0 if node not in self.parents else 1 + self._depth(self.parents[node])


def picture(state: State) -> Picture:
    """A concrete state as plain data."""
    facts: dict[str, list[list[int]]] = {}
    for relation in state.relations:
        if relation.name in state.pairs:
            by_node = state.pairs[relation.name].by_node
            rows = [[node, holder] for node in by_node for holder in by_node[node]]
        else:
            rows = [[member] for member in state.marks[relation.name]]
        if rows:
            facts[relation.name] = sorted(rows)
    return Picture(dict(sorted(state.parent.items())), facts)
