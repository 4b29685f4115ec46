"""The first divergence of two traces, or of one trace and the protocol.

Both are streams: memory does not grow with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from ..model.errors import BadArgument, UnknownName
from .checker import Checker
from .divergence import DiffResult, Divergence, FieldDifference
from .events import Event, Header, action_of
from .explain import false_conjuncts
from .shadow_diff import diff_calls, is_of_calls
from .trace import TraceReader
from .violation import Violation, told

Progress = Callable[[int], None]
"""Called now and then with the number of events read."""


def diff(a: Path, b: Path | None = None, *, progress: Progress | None = None) -> DiffResult:
    """Compare trace `a` with trace `b`, or with the protocol if there is no `b`.

    Traces of calls, as a shadow records them, are compared call by call, or checked by the shadow's own rules.

    Raises:
        BadTrace: a trace cannot be read; says which line.
    """
    if is_of_calls(a) or (b is not None and is_of_calls(b)):
        return diff_calls(a, b, progress)
    one = TraceReader(a)
    if b is None:
        divergence, events = _against_model(one, progress)
        readers = [one]
    else:
        other = TraceReader(b)
        divergence, events = _against_trace(one, other, progress)
        readers = [one, other]
        other.close()
    one.close()
    truncated = tuple(str(r.path) for r in readers if r.truncated)
    return DiffResult("holds" if divergence is None else "violated", events, divergence, truncated)


def _against_model(reader: TraceReader, progress: Progress | None) -> tuple[Divergence | None, int]:
    check = Checker.of(reader.header).check
    events = 0
    for event in reader:
        events += 1
        found = check(event)
        if found:
            return _of_violations(found, event, reader.line), events
        if progress is not None and not events % 5000:
            progress(events)
    return None, events


def _of_violations(found: list[Violation] | Any, event: Event, line: int) -> Divergence:
    first: Violation = found[0]
    fields = tuple(FieldDifference(v.node, v.field, v.observed, v.expected) for v in found if v.field is not None)
    return Divergence(
        event.seq, line, told(event), None, fields, first.rule, first.words, first.conjuncts,
        tuple(told(e) for e in first.recent),
    )  # fmt: skip


def _against_trace(one: TraceReader, other: TraceReader, progress: Progress | None) -> tuple[Divergence | None, int]:
    heads = tuple(_header_fields(one.header, other.header))
    if heads:
        return Divergence(-1, 1, None, None, heads, "header", "the traces were recorded under different settings"), 0
    events = 0
    for left, right in zip_longest(one, other):
        events += left is not None
        if left is None or right is None or left != right:
            fields = tuple(_fields(left, right))
            if fields:
                return _parting(_follow(one, events - (left is not None)), left, right, fields, one.line), events
        if progress is not None and not events % 5000:
            progress(events)
    return None, events


def _follow(reader: TraceReader, events: int) -> Checker:
    """A checker that has seen the first `events` events of a trace, which is read once more for it."""
    checker = Checker.of(reader.header, after="resync")
    again = TraceReader(reader.path)
    for event in islice(again, events):
        checker.check(event)
    again.close()
    return checker


def _parting(
    checker: Checker, left: Event | None, right: Event | None, fields: tuple[FieldDifference, ...], line: int
) -> Divergence:
    """What the protocol says about the two events that differ, in the state before them."""
    rule = words = ""
    conjuncts: tuple[str, ...] = ()
    for side, event in (("a", left), ("b", right)):
        if event is None or rule:
            continue
        told_why = _forbidden(checker, event)
        if told_why is not None:
            rule, words, conjuncts = told_why[0], f"{side}: {told_why[1]}", told_why[2]
    sides = [event for event in (left, right) if event is not None]
    if not rule:  # both are enabled: does the protocol agree with what one of them shows?
        found = checker.check(sides[0])
        shown = [v for v in found if v.field is not None]
        if shown:
            rule, words = (
                shown[0].rule,
                f"the protocol has {shown[0].field} of node {shown[0].node} as {shown[0].expected!r}",
            )
    nodes = [f.node for f in fields if f.node is not None]
    nodes += [v for e in sides for k, v in e.args.items() if isinstance(v, int) and k != "holder"]
    recent = tuple(told(e) for e in checker.history.about(nodes)[-8:] if e not in sides)
    shown_sides = [None if e is None else told(e) for e in (left, right)]
    seq = sides[0].seq
    return Divergence(seq, line, shown_sides[0], shown_sides[1], fields, rule, words, conjuncts, recent)


def _forbidden(checker: Checker, event: Event) -> tuple[str, str, tuple[str, ...]] | None:
    name, args = action_of(event)
    machine = checker.machine
    action = machine.instance.actions.get(name)
    if action is not None and any(q.var.name == "boundary" for q in action.parameters):
        args = {"boundary": args.get("node", 0), **args}
    try:
        outcome = machine.allows(name, args)
    except (UnknownName, BadArgument) as error:
        return f"{name}/protocol", str(error), ()
    if event.outcome == "refused":
        return (f"{name}/refusal", f"{name} was refused, and nothing forbids it", ()) if outcome else None
    guard = outcome.guard
    if guard is None or action is None:
        return None
    return f"{name}/{guard.name}", f"{name} only when: {guard.words}", false_conjuncts(machine, action, guard, args)


def _header_fields(a: Header, b: Header) -> Iterator[FieldDifference]:
    for field in ("policy", "components"):
        if getattr(a, field) != getattr(b, field):
            yield FieldDifference(None, field, getattr(a, field), getattr(b, field))


def _fields(a: Event | None, b: Event | None) -> Iterator[FieldDifference]:
    """Fields in which two events differ; `tag` and `reason` are free text and do not count."""
    if a is None or b is None:
        yield FieldDifference(None, "event", None if a is None else "there", None if b is None else "there")
        return
    for field in ("action", "args", "outcome", "slots"):
        if getattr(a, field) != getattr(b, field):
            yield FieldDifference(None, field, getattr(a, field), getattr(b, field))
    for node in dict.fromkeys((*a.post, *b.post)):
        if (node in a.post) != (node in b.post):
            yield FieldDifference(node, "shown", node in a.post, node in b.post)
            continue
        left, right = a.post[node], b.post[node]
        if left is None or right is None:
            if left is not right:
                yield FieldDifference(node, "node", left and "in the tree", right and "in the tree")
            continue
        for field in left.__struct_fields__:
            if getattr(left, field) != getattr(right, field):
                yield FieldDifference(node, field, getattr(left, field), getattr(right, field))
