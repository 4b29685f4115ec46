"""Edges of a graph, which renames states as it goes, told in numbers that are never used twice."""

from __future__ import annotations

from collections.abc import Iterator

from ..model.algebra import HOLDER, Action
from .graph import Graph


def lifted(graph: Graph, sequence: list[int]) -> Iterator[tuple[str, list[int]]]:
    """A sequence of edges as steps, in numbers that are never used twice."""
    universe = graph.universe
    actions: dict[str, Action] = dict(universe.system.actions)
    nodes, holders = [0, *([-1] * universe.nodes)], [-1] * universe.holders
    next_node = next_holder = 1
    state = 0
    for edge in sequence:
        call = universe.calls[graph.call[edge]]
        empty = int(graph.empty_handed[state])
        args = []
        for parameter, value in zip(actions[call.action].parameters, call.args, strict=True):
            if parameter.var.sort == HOLDER:
                if empty >> value & 1:
                    holders[value] = next_holder
                    next_holder += 1
                args.append(holders[value])
            else:
                if parameter.kind == "fresh":
                    nodes[value] = next_node
                    next_node += 1
                args.append(nodes[value])
        yield call.action, args
        node_names, holder_names = graph.renamings[graph.renaming[edge]]
        nodes = _moved(nodes, node_names)
        holders = _moved(holders, holder_names)
        state = int(graph.target[edge])


def _moved(ids: list[int], names: tuple[int, ...]) -> list[int]:
    found = [-1] * len(ids)
    for old, new in enumerate(names):
        found[new] = ids[old]
    return found
