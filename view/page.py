"""One self-contained HTML page of a story: no network, no dependencies, everything from the trace escaped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..model.state import ROOT_NODE
from ..model.vocabulary import relations
from .judge import Violation
from .story import Lane, Step, Story
from .tree import Tree
from .words import shorten

MAX_NODES = 4_000
"""Nodes of the tree that a page carries at most: those of the kept steps and their ancestors first."""

STYLES = ("page.css", "tree.css")
SCRIPTS = ("core.js", "timeline.js", "tree.js", "panels.js", "main.js")

_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&'\u2028\u2029"}


def render(story: Story) -> str:
    """The page as text."""
    template = _environment().get_template("page.html.j2")
    return template.render(
        story=story,
        styles="\n".join(map(_asset, STYLES)),
        scripts="\n".join(map(_asset, SCRIPTS)),
        data=embed(data_of(story)),
    )


def embed(data: object) -> str:
    """JSON that is safe inside a script element: nothing in it can end the element or be taken for markup."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPES)


def data_of(story: Story) -> dict[str, object]:
    """The story as the page's script reads it (see templates/core.js)."""
    base = _nodes_to_show(story)
    return {
        "title": shorten(story.title, 300),
        "facts": [[shorten(str(k), 60), shorten(_plain(v), 200)] for k, v in story.header.items()],
        "components": list(story.components),
        "first": story.first,
        "total": story.overview.total,
        "hidden": len(story.base) - len(base),
        "base": base,
        "baseHeld": story.base_held,
        "steps": [_step(step) for step in story.steps],
        "lanes": [_lane(lane) for lane in story.lanes],
        "overview": {"width": story.overview.width, "rows": story.overview.rows},
        "violations": [{"at": at, **violation_data(violation)} for at, violation in story.violations],
        "relations": {r.name: r.words for r in relations(story.components)},
        "reproduce": shorten(story.reproduce),
        "note": shorten(story.note),
        "names": {node: shorten(name, 40) for node, name in story.names.items()},
    }


def violation_data(violation: Violation) -> dict[str, object]:
    """A violation as plain data."""
    return {
        "kind": violation.kind,
        "title": violation.title,
        "rule": shorten(violation.rule, 300),
        "words": shorten(violation.words),
        "conjunct": shorten(violation.conjunct),
        "source": shorten(violation.source),
        "facts": [{"words": shorten(f.words), "nodes": f.nodes, "holders": f.holders} for f in violation.facts],
        "differences": [
            {"node": d.node, "field": d.field, "expected": _plain(d.expected), "observed": _plain(d.observed)}
            for d in violation.differences[:200]
        ],
        "nodes": violation.nodes,
        "holders": violation.holders,
    }


def _step(step: Step) -> list[object]:
    extra: dict[str, object] = {}
    if step.refused:
        extra["refused"] = step.reason or "refused"
    if step.tag:
        extra["tag"] = step.tag
    name = f"{step.action}.{step.component}" if step.component else step.action
    return [
        step.seq,
        shorten(name, 120),
        step.args,
        shorten(step.words, 300),
        step.family,
        step.changes,
        step.held,
        extra,
    ]


def _lane(lane: Lane) -> list[object]:
    return [lane.holder, lane.kind, lane.begin, lane.commit, lane.end, lane.how, lane.node]


def _nodes_to_show(story: Story) -> Tree:
    """The base tree, cut to `MAX_NODES`: what the kept steps speak of, and the ancestors of that, come first."""
    if len(story.base) <= MAX_NODES:
        return story.base
    wanted: dict[int, None] = {ROOT_NODE: None}
    for step in story.steps:
        wanted.update(dict.fromkeys(step.nodes))
    for _, violation in story.violations:
        wanted.update(dict.fromkeys(violation.nodes))
    for node in [*wanted, *story.base]:
        if node not in wanted and len(wanted) >= MAX_NODES:
            break
        while node in story.base:
            wanted[node] = None
            node = int(story.base[node].get("parent", -1))
            if node in wanted:
                break
    return {node: flat for node, flat in story.base.items() if node in wanted}


def _plain(value: object) -> str:
    match value:
        case None:
            return "–"
        case str():
            return shorten(value)
        case bool() | int() | float():
            return str(value)
        case Mapping() | list() | tuple():
            return shorten(json.dumps(value, default=str))
    return shorten(str(value))


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("pinproof.view", "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip


@cache
def _asset(name: str) -> str:
    return resources.files("pinproof.view").joinpath("templates", name).read_text("utf-8")
