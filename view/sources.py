"""Where stories come from: traces (NDJSON), scenarios (TOML), counterexamples, explorations and reports (JSON), ITF."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ..model.errors import BadArgument
from ..model.state import Projection, State, project
from ..model.vocabulary import COMPONENT_SETS, FULL, POLICIES, Component, Policy, relations
from .judge import Judge, Violation
from .story import Event, Story, Teller, Tree, flatten
from .why import Fact


@dataclass(slots=True)
class Source:
    """Something that can be told: where it comes from, what it runs under, and its events, which are read once."""

    title: str
    policy: Policy
    components: tuple[Component, ...]
    events: Iterator[Event]
    header: dict[str, object] = field(default_factory=dict)
    start: State | None = None
    """The state before the first event; None for an empty cache."""
    reproduce: str = ""
    note: str = ""


def open_source(path: Path) -> Source:
    """Whatever `path` holds.

    Raises:
        BadArgument: it cannot be read, or is nothing that can be shown; says which line or field is wrong.
    """
    try:
        with path.open("rb") as file:
            first = file.readline(1 << 20)
        if path.suffix == ".toml":
            return from_steps(tomllib.loads(path.read_text("utf-8")), path.stem, f"pinproof replay {path.name}")
        head = _json(first)
        if isinstance(head, dict) and "trace" in head and "states" not in head:
            return from_trace(path, head)
        if isinstance(head, dict) and {"seq", "action"} <= head.keys():
            raise BadArgument(f'{path.name}: a trace begins with a header line, {{"trace": "pinproof/1", …}}')
        return from_json(json.loads(path.read_text("utf-8")), path.name)
    except OSError as error:
        raise BadArgument(f"{path}: {error.strerror or error}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        raise BadArgument(f"{path.name} is neither a trace nor a scenario nor a report: {error}") from error


def tell(source: Source, *, judged: bool = True, budget: int = 8_000_000, judge: Judge | None = None) -> Story:
    """The story of a source. `judged` holds its events to the protocol; `judge` to another text of it."""
    known = judge or (Judge(source.policy, source.components) if judged else None)
    teller = Teller(source.components, known, budget)
    if source.start is not None:
        teller.start(tree_of(source.start, source.components))
        if known is not None:
            known.machine.state = source.start
    told = teller.tell(
        source.events, title=source.title, header=source.header, reproduce=source.reproduce, note=source.note
    )
    told.note = source.note
    return told


# Traces -------------------------------------------------------------------------------------------------------------
def from_trace(path: Path, header: Mapping[str, Any]) -> Source:
    """An NDJSON trace; a last line that was cut off (the target crashed) ends it and is said in the note."""
    policy, components = setting(header, path.name)
    source = Source(_title(header, path.name), policy, components, iter(()), _about(header))
    source.reproduce = str(header.get("reproduce") or f"pinproof diff {path.name}")
    source.events = _events(path, source)
    return source


def _events(path: Path, source: Source) -> Iterator[Event]:
    decode = msgspec.json.Decoder().decode
    with path.open("rb") as file:
        file.readline()
        for number, line in enumerate(file, 2):
            if not line.strip():
                continue
            try:
                row = decode(line)
            except msgspec.DecodeError as error:
                if line.endswith(b"\n"):
                    raise BadArgument(f"{path.name}, line {number}: {error}") from error
                source.note = "The last line of the trace is cut off: its writer did not get to finish it."
                return
            yield event_of(row, number - 2, f"{path.name}, line {number}")


def event_of(row: Any, seq: int, where: str) -> Event:
    """One event from its JSON object.

    Raises:
        BadArgument: it is no event.
    """
    if not isinstance(row, dict) or not isinstance(row.get("action"), str):
        raise BadArgument(f"{where}: not an event, there is no action")
    args = row.get("args") or {}
    if not isinstance(args, dict):
        raise BadArgument(f"{where}: args are {type(args).__name__}, not an object")
    numbers = {str(k): v for k, v in args.items() if isinstance(v, int)}
    component = args.get("component")
    post = row.get("post")
    seen: dict[int, Projection | None] | None = None
    if post is not None:
        try:
            seen = {int(node): state for node, state in post.items()}
        except (AttributeError, ValueError) as error:
            raise BadArgument(f"{where}: post does not map node ids to states") from error
    return Event(
        int(row.get("seq", seq)), row["action"], numbers, component if isinstance(component, str) else None,
        row.get("outcome") == "refused", str(row.get("reason") or ""), str(row.get("tag") or ""), seen,
    )  # fmt: skip


# Scenarios, counterexamples, reports --------------------------------------------------------------------------------
def from_steps(data: Mapping[str, Any], name: str, reproduce: str = "") -> Source:
    """A scenario: policy, components, and a list of actions called `step`, `steps`, `event`, `events` or `trace`.

    Raises:
        BadArgument: there is no such list.
    """
    rows = next((data[k] for k in ("step", "steps", "event", "events", "trace") if isinstance(data.get(k), list)), None)
    if rows is None:
        raise BadArgument(f"{name}: no list of steps")
    policy, components = setting(data, name)
    events = (event_of(row, i, f"{name}, step {i}") for i, row in enumerate(rows))
    title = str(data.get("title") or data.get("name") or name)
    about = {k: v for k, v in _about(data).items() if k not in ("title", "name")}
    return Source(title, policy, components, events, about, reproduce=reproduce)


def from_json(data: Any, name: str) -> Source:
    """A counterexample, an exploration, an ITF trace, a scenario, or a report that has one of these in it.

    Raises:
        BadArgument: there is nothing in it that can be shown.
    """
    for found in _objects(data):
        if "before" in found and "obligation" in found:
            return from_counterexample(found)
        if "states" in found and "vars" in found:
            return from_itf(found, name)
        if isinstance(found.get("violation"), dict) and "trace" in found["violation"] and "name" in found:
            return from_exploration(found)
        if any(isinstance(found.get(k), list) for k in ("step", "steps", "event", "events")) and "policy" in found:
            return from_steps(found, name)
    raise BadArgument(f"{name}: no trace, scenario or counterexample in it")


def from_counterexample(data: Mapping[str, Any]) -> Source:
    """A counterexample to induction: one step, from a state that need not be reachable."""
    policy, components = setting(data, str(data.get("obligation")))
    start = state_of(data["before"], components)
    facts = tuple(Fact(str(part)) for part in data.get("false", ()))
    subject = str(data.get("subject", ""))
    violation = Violation("broken", subject, str(data.get("words", "")), "", facts, source=str(data.get("obligation")))
    post: dict[int, Projection | None] | None = None
    if data.get("after"):
        after = state_of(data["after"], components)
        nodes = {*start.marks["live"], *after.marks["live"]}
        post = {n: project(after, n, components) for n in sorted(nodes)}
    action = str(data.get("action") or "start")
    event = Event(0, action, dict(data.get("args", {})), post=post or {}, reported=violation)
    obligation = str(data.get("obligation", ""))
    note = "A counterexample to induction: the state before the step has every property, but may not be reachable."
    return Source(
        f"{action} breaks {subject}", policy, components, iter([event]), {"obligation": obligation},
        start, f"pinproof prove --policy {policy} --components {'+'.join(components)}", note,
    )  # fmt: skip


def from_exploration(data: Mapping[str, Any]) -> Source:
    """A shortest counterexample from the explorer."""
    found = data["violation"]
    policy, _, parts = str(data["name"]).partition("/")
    policy_, components = setting({"policy": policy, "components": parts.split("+")}, str(data["name"]))
    facts = (Fact(f"it fails for {', '.join(f'{k} {v}' for k, v in found['args'].items())}"),) if found["args"] else ()
    violation = Violation("broken", str(found["rule"]), str(found["words"]), "", facts)
    rows = list(found["trace"])
    events = [event_of(row, i, f"step {i}") for i, row in enumerate(rows)]
    if events:
        last = events[-1]
        events[-1] = Event(last.seq, last.action, last.args, last.component, reported=violation)
    about = {k: data[k] for k in ("nodes", "holders", "states") if k in data}
    return Source(f"A shortest way to break {found['rule']}", policy_, components, iter(events), about)


def from_itf(data: Mapping[str, Any], name: str) -> Source:
    """A trace in the Informal Trace Format, as `pinproof explore --itf` writes it."""
    meta = data.get("#meta", {})
    label = str(meta.get("source", "")).rpartition(" ")[2]
    policy, _, parts = label.partition("/")
    policy_, components = setting({"policy": policy, "components": parts.split("+")}, name)
    events: list[Event] = []
    before: set[int] = set()
    for state in data["states"]:
        seen = _itf_state(state, components)
        live = set(seen.marks["live"])
        if state.get("action"):
            post = {n: project(seen, n, components) for n in sorted(live | before)}
            refused = state.get("outcome") not in (None, "done")
            args = {k: v for k, v in state.get("args", {}).items() if isinstance(v, int)}
            events.append(Event(len(events), str(state["action"]), args, refused=False, post={} if refused else post))
        before = live
    return Source(str(meta.get("description") or name), policy_, components, iter(events), {"from": name})


# Pieces -------------------------------------------------------------------------------------------------------------
def setting(data: Mapping[str, Any], where: str) -> tuple[Policy, tuple[Component, ...]]:
    """Policy and components of a header.

    Raises:
        BadArgument: there is no such policy or component set.
    """
    policy = next((p for p in POLICIES if p == data.get("policy")), None)
    if policy is None:
        raise BadArgument(f"{where}: policy is {data.get('policy')!r}, not one of {', '.join(POLICIES)}")
    given = data.get("components", [FULL])
    wanted = set(given.split("+") if isinstance(given, str) else given)
    components = next((c for c in COMPONENT_SETS if set(c) == wanted), None)
    if components is None:
        raise BadArgument(f"{where}: components are {given!r}, not one of the component sets")
    return policy, components


def state_of(picture: Mapping[str, Any], components: tuple[Component, ...]) -> State:
    """A state from `{"parents": {node: parent}, "facts": {relation: rows}}`."""
    state = State(relations(components))
    parents = {int(n): int(p) for n, p in picture["parents"].items()}
    for node in sorted(parents, key=lambda n: _depth(parents, n)):
        state.grow(node, parents[node])
    for relation in state.relations:
        rows = picture["facts"].get(relation.name, [])
        if relation.name in state.pairs:
            for node, holder in rows:
                state.pairs[relation.name].add(node, holder)
        else:
            state.marks[relation.name] = {row[0] for row in rows}
    return state


def tree_of(state: State, components: tuple[Component, ...]) -> Tree:
    """The visible tree of a state."""
    nodes = sorted(state.marks["live"])
    return {n: flatten(project(state, n, components), state.parent.get(n)) for n in nodes}


def _itf_state(data: Mapping[str, Any], components: tuple[Component, ...]) -> State:
    facts: dict[str, list[list[int]]] = {}
    for relation in relations(components):
        members = data.get(relation.name, {}).get("#set", [])
        facts[relation.name] = [m["#tup"] if isinstance(m, dict) else [m] for m in members]
    parents = {str(n): p for n, p in data.get("parent", {}).get("#map", [])}
    return state_of({"parents": parents, "facts": facts}, components)


def _depth(parents: Mapping[int, int], node: int) -> int:
    depth = 0
    while node in parents and depth <= len(parents):
        node, depth = parents[node], depth + 1
    return depth


def _objects(data: Any) -> Iterator[dict[str, Any]]:
    """Every object in a JSON value, outermost first."""
    todo = [data]
    while todo:
        found = todo.pop(0)
        if isinstance(found, dict):
            yield found
            todo.extend(found.values())
        elif isinstance(found, list):
            todo.extend(found)


def _title(header: Mapping[str, Any], name: str) -> str:
    return next((str(header[k]) for k in ("title", "name") if header.get(k)), name)


def _about(header: Mapping[str, Any]) -> dict[str, object]:
    first = ("policy", "components", "target", "version", "page_size", "seed")
    hidden = {"trace", "title", "reproduce", "step", "steps", "event", "events"}
    order = [*(k for k in first if k in header), *(k for k in header if k not in first and k not in hidden)]
    found = {k: "+".join(header[k]) if k == "components" and isinstance(header[k], list) else header[k] for k in order}
    return {k: v for k, v in found.items() if isinstance(v, str | int | float) and v != ""}


def _json(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
