"""A search as simple as can be, over the reference machine: the oracle for small universes; and faulty protocols."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from itertools import product

import pytest
from pinproof.model.algebra import HOLDER, Action, Guard
from pinproof.model.instance import Instance
from pinproof.model.machine import ReferenceMachine


@dataclass
class Naive:
    """What it found; `refused` counts only what the machine calls refused."""

    states: int = 0
    transitions: int = 0
    depth: int = 0
    fired: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)


def search(instance: Instance, nodes: int, holders: int) -> Naive:
    """All states over node names 1..nodes and holder names 1..holders, names told apart."""
    machine = ReferenceMachine(instance)
    start = key(machine)
    calls = [
        (action.name, dict(args)) for action in instance.actions.values() for args in choices(action, nodes, holders)
    ]
    found = Naive(states=1)
    seen, level = {start}, [start]
    while level:
        after = []
        for state in level:
            for name, args in calls:
                restore(machine, state)
                outcome = machine.step(name, args)
                assert outcome.verdict != "violated", (name, args, outcome)
                found.refused[name] += outcome.verdict == "refused"
                if not outcome:
                    continue
                found.fired[name] += 1
                reached = key(machine)
                if reached not in seen:
                    seen.add(reached)
                    after.append(reached)
        found.states += len(after)
        found.depth += bool(after)
        level = after
    found.transitions = found.fired.total()
    return found


def choices(action: Action, nodes: int, holders: int) -> list[list[tuple[str, int]]]:
    """All arguments."""
    domains = [range(1, holders + 1) if q.var.sort == HOLDER else range(nodes + 1) for q in action.parameters]
    names = [q.var.name for q in action.parameters]
    return [list(zip(names, values, strict=True)) for values in product(*domains)]


def key(machine: ReferenceMachine) -> Hashable:
    """A state as a value."""
    state = machine.state
    return (
        tuple(sorted(state.parent.items())),
        tuple((name, tuple(sorted(members))) for name, members in state.marks.items()),
        tuple(
            (name, tuple(sorted((n, h) for n, hs in pairs.by_node.items() for h in hs)))
            for name, pairs in state.pairs.items()
        ),
    )


def restore(machine: ReferenceMachine, value: Hashable) -> None:
    """Put the machine into a state."""
    parents, marks, pairs = value  # type: ignore[misc]
    state = machine.state
    state.parent.clear()
    state.children.clear()
    state.children[0] = set()
    for node, parent in parents:
        state.parent[node] = parent
        state.children.setdefault(parent, set()).add(node)
        state.children.setdefault(node, set())
    for name, members in marks:
        state.marks[name].clear()
        state.marks[name].update(members)
    for name, members in pairs:
        state.pairs[name].by_node.clear()
        state.pairs[name].by_holder.clear()
        for node, holder in members:
            state.pairs[name].add(node, holder)


@pytest.fixture(scope="session")
def naive_search() -> Callable[[Instance, int, int], Naive]:
    """The search above."""
    return search


def without(instance: Instance, action: str, *guards: str) -> Instance:
    """The protocol with some guards of an action forgotten."""
    text = instance.actions[action]
    steps = tuple(s for s in text.steps if not (isinstance(s, Guard) and s.name in guards))
    assert len(steps) == len(text.steps) - len(guards)
    return replace(instance, actions={**instance.actions, action: replace(text, steps=steps)})


@pytest.fixture(scope="session")
def forget_guards() -> Callable[..., Instance]:
    """A function that makes a faulty protocol."""
    return without
