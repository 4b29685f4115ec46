"""`pinproof diff`: the first divergence of two traces, or of one from the model."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from ..conformance.diff import diff as run_diff
from ..conformance.divergence import DiffResult, Divergence, FieldDifference
from ..conformance.shadow_diff import is_of_calls
from ..view.sources import from_two_traces, open_source
from .options import Json
from .report import err, finish, out, progress, verdict_line
from .trees import draw


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(rich_help_panel="Check an implementation")(diff)


def diff(
    a: Annotated[Path, typer.Argument(help="A trace (NDJSON).")],
    b: Annotated[Path | None, typer.Argument(help="Another trace; the model if left out.")] = None,
    json: Json = False,
) -> None:
    """Find the first event at which two traces part, or at which a trace breaks the protocol.

    Example: pinproof diff recorded.ndjson
    """
    with progress("comparing", quiet=json) as tick:
        found = run_diff(a, b, progress=lambda events: tick(events, 0, f"{events:,} events"))
    finish(as_json(found), as_json=json, show=lambda: show(found, a, b))


def as_json(found: DiffResult) -> dict[str, Any]:
    """The JSON of the verb."""
    return {
        "verdict": found.verdict,
        "events": found.events,
        "divergence": None if found.divergence is None else found.divergence.as_json(),
        "truncated": list(found.truncated),
    }


def show(found: DiffResult, a: Path, b: Path | None) -> None:
    """The screen: where they part, and the tree before and after."""
    for name in found.truncated:
        err.print(f"[yellow]{name}: the last line is cut off; it was left out[/]")
    calls = is_of_calls(a)
    if found.divergence is not None:
        model = "the ledger's rules" if calls else "the model"
        show_divergence(found.divergence, against=model if b is None else None)
        if not calls:  # calls do not say what the tree looks like
            draw(open_source(a) if b is None else from_two_traces(a, b))
    verdict_line(found.verdict, f"{found.events:,} {'calls' if calls else 'events'} compared")


def show_divergence(at: Divergence, against: str | None = None) -> None:
    """Where two histories part: the event on both sides, the fields, the rule, what happened before."""
    out.print(f"[bold]event {at.seq}[/] (line {at.line})")
    out.print(f"  a  {at.a or 'has ended'}", markup=False)
    out.print(f"  b  {against or at.b or 'has ended'}", markup=False)
    show_fields(at.fields)
    if at.rule:
        out.print(f"  rule [red]{at.rule}[/]: {at.words}")
    for part in at.conjuncts:
        out.print(f"  false: {part}", markup=False)
    for line in at.recent:
        out.print(f"  before: {line}", markup=False, style="dim")


def show_fields(fields: Iterable[FieldDifference]) -> None:
    """What differs, both sides on one line."""
    for field in fields:
        where = "" if field.node is None else f"node {field.node} "
        out.print(f"  [red]{where}{field.field}[/]: {field.a!r} | {field.b!r}")
