"""Tests made from a whole universe: sequences of steps that together take all that is reachable, up to names.

Of a small universe every transition; of a larger one every *situation* of every call (see `situations.py`), which
are hundreds of times fewer and differ in all that an action looks at or changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..model.errors import BadArgument
from ..model.instance import Instance
from ..model.instance import instance as instance_of
from ..model.vocabulary import Component, Policy
from .arrays import arrays
from .explore import MEMORY
from .graph import graph_of
from .lifting import lifted
from .program import System, Universe
from .search import Hit, Limits, Search
from .situations import Situations
from .spill import Disk
from .suite import Covers, SuiteHeader, Told, write_suite
from .tour import sequences
from .traces import Step, Walk

LONGEST = 500
"""Steps of one sequence, unless asked otherwise: long enough that the way to its beginning does not matter."""


def emit(
    path: Path,
    policy: Policy,
    components: tuple[Component, ...],
    nodes: int,
    holders: int,
    *,
    covers: Covers = "transitions",
    longest: int = LONGEST,
    most: int = 5_000_000,
    memory: int = MEMORY,
    instance: Instance | None = None,
) -> SuiteHeader:
    """Write the suite of a universe to `path`.

    Args:
        longest: steps after which a sequence ends, where transitions are covered.
        most: transitions that a suite may cover one by one; a larger universe is refused.

    Raises:
        TooManyTransitions: the universe is larger.
        BadArgument: the text violates a rule.
        UnknownName: no such policy or component set.
    """
    if nodes < 1:
        raise BadArgument(f"nodes must be at least 1 (besides the root), got {nodes}")
    text = instance_of(policy, tuple(components)) if instance is None else instance
    universe = Universe(System.of(text), nodes, holders, symmetry=True)
    parameters = {name: [q.var.name for q in action.parameters] for name, action in text.actions.items()}
    where = (text.setting.policy, text.setting.components, nodes, holders, covers)
    if covers == "situations":
        disk = Disk()
        search = Search(universe, arrays("cpu"), Limits(None, None, memory), disk)
        try:
            ways = _ways(universe, search)
            steps = sum(len(way) for way in _leaves(ways))
            tally, found = search.tally, search.situations
            assert found is not None
            count = sum(1 for _ in _leaves(ways))
            header = SuiteHeader(*where, len(found.found), tally.states, tally.transitions, count, steps, parameters)
            write_suite(path, header, _walked(universe, ways, parameters))
        finally:
            search.close()
            disk.close()
        return header
    graph = graph_of(universe, memory=memory, most=most)
    edges = list(sequences(graph, longest))
    header = SuiteHeader(
        *where, graph.transitions, graph.states, graph.transitions, len(edges), sum(map(len, edges)), parameters
    )
    write_suite(path, header, (lifted(graph, sequence) for sequence in edges))
    return header


Ways = dict[int, "Ways"]
"""A tree of calls: those that follow each other from the initial state."""


def _ways(universe: Universe, search: Search) -> Ways:
    """A shortest way to each situation, with the call itself; ways that begin alike are one."""
    search.situations = Situations(universe, search.xp)
    search.start()
    if not search.run(None, None):
        raise BadArgument(f"{universe.system.name} breaks a rule; explore it to see how")
    ways: Ways = {}
    for situation in search.situations.found:
        at = ways
        for call in (*search.calls_to(Hit(situation.state)), situation.call):
            at = at.setdefault(call, {})
    return ways


def _leaves(ways: Ways) -> Iterator[list[int]]:
    stack: list[tuple[Ways, list[int]]] = [(ways, [])]
    while stack:
        at, way = stack.pop()
        if not at:
            yield way
        stack += [(more, [*way, call]) for call, more in at.items()]


def _walked(universe: Universe, ways: Ways, parameters: dict[str, list[str]]) -> Iterator[Iterator[Told]]:
    stack: list[tuple[Ways, Walk]] = [(ways, Walk(universe))]
    while stack:
        at, walk = stack.pop()
        if not at:
            yield (_told(step, parameters) for step in walk.steps)
        for call, more in at.items():
            further = walk.copy()
            further.take(call)
            stack.append((more, further))


def _told(step: Step, parameters: dict[str, list[str]]) -> Told:
    return step["action"], [step["args"][name] for name in parameters[step["action"]]]
