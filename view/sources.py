"""Opens whatever holds a story: traces (NDJSON), scenarios (TOML), counterexamples and reports (JSON), ITF."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..conformance.checker import Checker
from ..conformance.diff import diff
from ..conformance.errors import BadScenario, BadTrace
from ..conformance.events import Event
from ..conformance.scenario import load
from ..conformance.trace import TraceReader
from ..model.errors import BadArgument
from .judge import Difference, Judge, Replay, Violation
from .reports import from_counterexample, from_exploration, from_itf, from_scenario, from_steps
from .source import Source
from .why import Fact


def open_source(path: Path, *, judged: bool = True) -> Source:
    """Whatever `path` holds. `judged` holds its events to the protocol.

    Raises:
        BadArgument: it cannot be read, or is nothing that can be shown; says which line or field is wrong.
    """
    try:
        with path.open("rb") as file:
            head = _json(file.readline(1 << 20))
        if isinstance(head, dict) and "trace" in head and "violation" not in head:
            return from_trace(path, judged=judged)
        if path.suffix == ".toml":
            return from_scenario(load(path))
        if isinstance(head, dict) and {"seq", "action"} <= head.keys():
            raise BadArgument(f'{path.name}: a trace begins with a header line, {{"trace": "pinproof/1", …}}')
        return from_json(json.loads(path.read_text("utf-8")), path.name)
    except OSError as error:
        raise BadArgument(f"{path}: {error.strerror or error}") from error
    except BadScenario as error:
        raise BadArgument(str(error)) from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise BadArgument(f"{path.name} is neither a trace nor a scenario nor a report: {error}") from error


def from_trace(path: Path, *, judged: bool = True) -> Source:
    """A trace. Where it cannot be read on, the story ends and says so.

    Raises:
        BadArgument: its header is none.
    """
    try:
        reader = TraceReader(path)
    except BadTrace as error:
        raise BadArgument(f"{path.name}: {error}") from error
    header = reader.header
    judge = Judge(Checker.of(header)) if judged else None
    about = {
        "policy": header.policy,
        "components": "+".join(header.components),
        "target": header.target or "not stated",
    }
    if header.page_size > 1:
        about["page_size"] = str(header.page_size)
    if header.seed is not None:
        about["seed"] = str(header.seed)
    source = Source(path.stem, header.components, (), judge, dict(about))
    source.reproduce = header.reproduce or f"pinproof diff {path.name}"
    source.events = _until_it_ends(reader, source)
    return source


def from_two_traces(a: Path, b: Path) -> Source:
    """Trace `a`, with the first event at which `b` parts from it.

    Raises:
        BadArgument: one of them cannot be read.
    """
    try:
        found = diff(a, b).divergence
    except BadTrace as error:
        raise BadArgument(f"{a.name} and {b.name}: {error}") from error
    source = from_trace(a, judged=True)
    source.title = f"{a.stem} and {b.stem}"
    source.reproduce = f"pinproof diff {a.name} {b.name}"
    if source.judge is not None:
        source.judge = Replay(source.judge.machine)
    if found is not None:
        differences = tuple(Difference(f.node, f.field, f.b, f.a) for f in found.fields if f.node is not None)
        sides = [Fact(f"{name} has {told or 'ended'}") for name, told in ((a.name, found.a), (b.name, found.b))]
        own = [Fact(f"{f.field}: {f.a} and {f.b}") for f in found.fields if f.node is None]
        words = found.words or "both traces tell the same"
        rule = found.rule or "divergence"
        source.reported[found.seq] = Violation("divergence", rule, words, "", (*sides, *own), differences)
    return source


def _until_it_ends(reader: TraceReader, source: Source) -> Iterator[Event]:
    try:
        yield from reader
    except BadTrace as error:
        source.note = f"The trace cannot be read on: {error}"
    if reader.truncated:
        source.note = "The last line of the trace is cut off: its writer did not get to finish it."


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


def _json(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
