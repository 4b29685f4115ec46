"""Tests made from the whole graph: sequences of steps that together take every reachable transition of a universe,
up to names.

A suite is a text file: a header in its first line, then a sequence a line, all as JSON. Every sequence starts from
an empty cache. A step is `[action, argument, …]`, its arguments in the order that the header's `parameters` gives;
nodes and holders have numbers that are never used twice in a sequence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from ..model.algebra import HOLDER, Action
from ..model.instance import Instance
from ..model.instance import instance as instance_of
from ..model.vocabulary import Component, Policy
from .explore import MEMORY
from .graph import Graph, graph_of
from .program import System, Universe
from .tour import sequences
from .traces import Step

LONGEST = 500
"""Steps of one sequence, unless asked otherwise: long enough that the way to its beginning does not matter."""


@dataclass(frozen=True, slots=True)
class SuiteHeader:
    """What a suite covers."""

    policy: str
    components: tuple[str, ...]
    nodes: int
    holders: int
    states: int
    transitions: int
    sequences: int
    steps: int
    parameters: dict[str, list[str]]


def emit(
    path: Path,
    policy: Policy,
    components: tuple[Component, ...],
    nodes: int,
    holders: int,
    *,
    longest: int = LONGEST,
    most: int = 20_000_000,
    memory: int = MEMORY,
    instance: Instance | None = None,
) -> SuiteHeader:
    """Write the suite of a universe to `path`.

    Args:
        longest: steps after which a sequence ends.
        most: transitions; a larger universe is refused.

    Raises:
        TooManyTransitions: the universe is larger.
        BadArgument: the text violates a rule.
        UnknownName: no such policy or component set.
    """
    text = instance_of(policy, tuple(components)) if instance is None else instance
    universe = Universe(System.of(text), nodes, holders, symmetry=True)
    graph = graph_of(universe, memory=memory, most=most)
    found = list(sequences(graph, longest))
    header = SuiteHeader(
        text.setting.policy,
        text.setting.components,
        nodes,
        holders,
        graph.states,
        graph.transitions,
        len(found),
        sum(len(s) for s in found),
        {name: [q.var.name for q in action.parameters] for name, action in text.actions.items()},
    )
    with path.open("w") as file:
        told = {"suite": "pinproof/1", **{f: getattr(header, f) for f in (x.name for x in fields(header))}}
        file.write(json.dumps(told) + "\n")
        for sequence in found:
            steps = [[name, *args] for name, args in lifted(graph, sequence)]
            file.write(json.dumps(steps, separators=(",", ":")) + "\n")
    return header


def read_suite(path: Path) -> tuple[SuiteHeader, Iterator[list[Step]]]:
    """The header of a suite, and its sequences one after the other, in the form that scenarios have."""
    with path.open() as file:
        told = json.loads(file.readline())
    told.pop("suite")
    header = SuiteHeader(**{**told, "components": tuple(told["components"])})

    def told_sequences() -> Iterator[list[Step]]:
        with path.open() as lines:
            next(lines)
            for line in lines:
                yield [
                    {"action": name, "args": dict(zip(header.parameters[name], args, strict=True))}
                    for name, *args in json.loads(line)
                ]

    return header, told_sequences()


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
