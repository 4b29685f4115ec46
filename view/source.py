"""Something that can be told, and states of the model as an observer sees them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..conformance.events import Event, NodeState
from ..model.errors import BadArgument
from ..model.state import State, project
from ..model.vocabulary import COMPONENT_SETS, POLICIES, Component, Policy
from .judge import Replay, Violation
from .story import Story
from .teller import Teller
from .tree import Tree, flatten


@dataclass(slots=True)
class Source:
    """Something that can be told: what it runs under, and its events, which are read once.

    Attributes:
        judge: holds the events to the protocol, or follows them.
        reported: what was found already, by position.
        names: what its author calls nodes.
        start: the tree before the first event; None for an empty cache.
    """

    title: str
    components: tuple[Component, ...]
    events: Iterable[Event]
    judge: Replay | None = None
    header: dict[str, object] = field(default_factory=dict)
    reported: dict[int, Violation] = field(default_factory=dict)
    start: Tree | None = None
    names: dict[int, str] = field(default_factory=dict)
    reproduce: str = ""
    note: str = ""


def tell(source: Source, *, budget: int = 8_000_000) -> Story:
    """The story of a source, in `budget` bytes of steps."""
    teller = Teller(source.components, source.judge, budget, source.reported)
    if source.start is not None:
        teller.start(source.start)
    told = teller.tell(source.events, title=source.title, header=source.header, reproduce=source.reproduce)
    told.note, told.names = source.note, source.names
    return told


def setting(data: Mapping[str, Any], where: str) -> tuple[Policy, tuple[Component, ...]]:
    """Policy and components of a header.

    Raises:
        BadArgument: there is no such policy or component set.
    """
    policy = next((p for p in POLICIES if p == data.get("policy")), None)
    if policy is None:
        raise BadArgument(f"{where}: policy is {data.get('policy')!r}, not one of {', '.join(POLICIES)}")
    given = data.get("components", ["full"])
    wanted = set(given.split("+") if isinstance(given, str) else given)
    components = next((c for c in COMPONENT_SETS if set(c) == wanted), None)
    if components is None:
        raise BadArgument(f"{where}: components are {given!r}, not one of the component sets")
    return policy, components


def seen(state: State, node: int, components: tuple[Component, ...]) -> NodeState | None:
    """What an observer sees of a node of the model."""
    projection = project(state, node, components)
    return None if projection is None else msgspec.convert(projection, NodeState, strict=False)


def tree_of(state: State, components: tuple[Component, ...]) -> Tree:
    """The visible tree of a state."""
    nodes = sorted(state.marks["live"])
    return {n: flatten(seen(state, n, components), state.parent.get(n)) for n in nodes}
