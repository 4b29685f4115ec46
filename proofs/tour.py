"""A short closed walk that takes every edge of a graph, cut into sequences: the directed Chinese postman.

A walk can take every edge exactly once where every state is entered as often as it is left. So states that are
entered more often are joined, by ways that are taken once more, to near ones that are left more often; then an
Eulerian circuit is read off. Which surplus goes to which shortage is chosen greedily, nearest first, so the walk is
short but not a shortest one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..model.errors import BadArgument
from .graph import Graph

Ints = np.ndarray[Any, Any]


def sequences(graph: Graph, longest: int) -> Iterator[list[int]]:
    """Sequences of edges from the initial state that together take every edge; each ends after `longest` or little
    more.

    Raises:
        BadArgument: from some state there is no way back to the initial one.
    """
    source = np.repeat(np.arange(graph.states), np.diff(graph.first))
    ways_in = _ways_from_start(graph, source)
    current: list[int] = []
    target = graph.target.tolist()
    state = 0
    for edge in _circuit(graph, _repeated(graph, source)):
        if len(current) >= longest or (state == 0 and 2 * len(current) >= longest):
            yield current
            current = _way(ways_in, source, state)
        current.append(edge)
        state = target[edge]
    if current:
        yield current


def _repeated(graph: Graph, source: Ints) -> Ints:
    """How often each edge has to be taken."""
    times = np.ones(graph.transitions, np.int64)
    balance = np.bincount(graph.target, minlength=graph.states) - np.diff(graph.first)
    order = np.argsort(graph.target, kind="stable")
    incoming = (np.searchsorted(graph.target[order], np.arange(graph.states + 1)), order)
    target = graph.target
    while (surplus := np.flatnonzero(balance > 0)).size:
        depth, hop = _towards(balance < 0, incoming, source)
        if (depth[surplus] < 0).any():
            raise BadArgument("from some state there is no way back to an empty cache: no walk takes every transition")
        for state in surplus[np.argsort(depth[surplus], kind="stable")].tolist():
            ways = []
            at = state
            while depth[at]:
                ways.append(hop[at])
                at = target[hop[at]]
            moved = min(balance[state], -balance[at])
            if moved > 0:
                times[ways] += moved
                balance[state] -= moved
                balance[at] += moved
    return times


def _towards(goal: Ints, incoming: tuple[Ints, Ints], source: Ints) -> tuple[Ints, Ints]:
    """For every state, how far the nearest goal is (-1: out of reach), and the first edge on the way there."""
    first, edges = incoming
    depth = np.where(goal, 0, -1)
    hop = np.full(len(goal), -1)
    level, distance = np.flatnonzero(goal), 0
    while level.size:
        distance += 1
        counts = first[level + 1] - first[level]
        offsets = np.repeat(first[level] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
        arriving = edges[offsets + np.arange(counts.sum())]
        arriving = arriving[depth[source[arriving]] < 0]
        depth[source[arriving]] = distance
        hop[source[arriving]] = arriving
        level = np.flatnonzero(depth == distance)
    return depth, hop


def _circuit(graph: Graph, times: Ints) -> list[int]:
    """An Eulerian circuit from the initial state, by Hierholzer's method."""
    left: list[int] = times.tolist()
    place: list[int] = graph.first[:-1].tolist()
    end: list[int] = graph.first[1:].tolist()
    target: list[int] = graph.target.tolist()
    found: list[int] = []
    stack: list[tuple[int, int]] = [(0, -1)]
    while stack:
        state, came = stack[-1]
        edge = place[state]
        while edge < end[state] and not left[edge]:
            edge += 1
        place[state] = edge
        if edge < end[state]:
            left[edge] -= 1
            stack.append((target[edge], edge))
        else:
            stack.pop()
            found.append(came)
    found.pop()
    found.reverse()
    return found


def _ways_from_start(graph: Graph, source: Ints) -> Ints:
    """For every state but the first, the last edge of a shortest way to it."""
    came = np.full(graph.states, -1)
    seen = np.zeros(graph.states, np.bool_)
    level = np.zeros(1, np.int64)
    seen[0] = True
    while level.size:
        counts = graph.first[level + 1] - graph.first[level]
        offsets = np.repeat(graph.first[level] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
        leaving = offsets + np.arange(counts.sum())
        leaving = leaving[~seen[graph.target[leaving]]]
        came[graph.target[leaving]] = leaving
        level = np.unique(graph.target[leaving])
        seen[level] = True
    return came


def _way(ways_in: Ints, source: Ints, state: int) -> list[int]:
    found: list[int] = []
    while state:
        found.append(int(ways_in[state]))
        state = int(source[found[-1]])
    return found[::-1]
