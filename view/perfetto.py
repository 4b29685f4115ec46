"""A story as Chrome trace events, which ui.perfetto.dev opens: a track for each operation, marks for the tree.

One step is one millisecond: there is no other clock in a trace.
"""

from __future__ import annotations

from typing import Any

from .story import Lane, Story

STEP = 1000
"""Microseconds of a step."""

_KINDS = ("request", "backup", "load-back", "prefetch", "storage backup", "operation")
_TREE = 100


def perfetto(story: Story) -> dict[str, Any]:
    """The JSON object format of Chrome traces."""
    end = (story.first + len(story.steps)) * STEP
    events: list[dict[str, Any]] = [_name("process_name", 1, 0, story.title), _name("thread_name", 1, _TREE, "tree")]
    for number, kind in enumerate(_KINDS):
        if any(lane.kind == kind for lane in story.lanes):
            events.append(_name("process_name", 2 + number, 0, f"{kind}s"))
    for lane in story.lanes:
        events += _lane(lane, end)
    for position, step in enumerate(story.steps, story.first):
        if step.family in ("grow", "split", "evict", "reset") or step.refused:
            name = f"{step.action} refused" if step.refused else step.action
            args = {**step.args, "words": step.words, "seq": step.seq}
            events.append(
                {"ph": "i", "s": "t", "name": name, "ts": position * STEP, "pid": 1, "tid": _TREE, "args": args}
            )
    if story.violation is not None and story.at is not None:
        args = {"rule": story.violation.rule, "words": story.violation.words}
        events.append(
            {"ph": "i", "s": "g", "name": "violation", "ts": story.at * STEP, "pid": 1, "tid": _TREE, "args": args}
        )
    about = {str(k): str(v) for k, v in story.header.items()}
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": about}


def _lane(lane: Lane, end: int) -> list[dict[str, Any]]:
    pid, tid = 2 + _KINDS.index(lane.kind), lane.holder
    begin, stop = lane.begin * STEP, end if lane.end is None else lane.end * STEP
    args = {"holder": lane.holder, "node": lane.node, "ended": lane.how or "not yet"}
    found = [
        _name("thread_name", pid, tid, f"{lane.kind} {lane.holder}"),
        {
            "ph": "X",
            "name": f"{lane.kind} {lane.holder}",
            "ts": begin,
            "dur": max(1, stop - begin),
            "pid": pid,
            "tid": tid,
            "args": args,
        },
    ]
    if lane.commit is not None and lane.kind != "request":
        moving = {"ph": "X", "name": "bytes move", "ts": lane.commit * STEP, "dur": max(1, stop - lane.commit * STEP)}
        found.append({**moving, "pid": pid, "tid": tid, "args": {}})
    return found


def _name(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}
