"""`pinproof show`: a trace, scenario or report as something people look at."""

from __future__ import annotations

import json as json_module
import time
import webbrowser
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from ..conformance.events import Event
from ..conformance.replay import replay
from ..model.errors import BadArgument
from ..view import markdown, page, perfetto, sarif, terminal
from ..view.source import tell
from ..view.sources import from_two_traces, open_source
from ..view.story import Story
from .options import Json, policies
from .report import Tick, Verdict, finish, out, progress, verdict_line

FORMATS = {"html": ".html", "markdown": ".md", "sarif": ".sarif", "perfetto": ".json"}


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(rich_help_panel="Look at what happened")(show)


def show(
    source: Annotated[str, typer.Argument(help="A trace, scenario, counterexample or report; or a scenario's name.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; its ending chooses the format.")
    ] = None,
    form: Annotated[str | None, typer.Option("--format", help=f"{', '.join(FORMATS)}, whatever the ending.")] = None,
    against: Annotated[Path | None, typer.Option(help="Another trace: show where the two part.")] = None,
    target: Annotated[str | None, typer.Option(help="Replay a scenario on this target and show what it does.")] = None,
    policy: Annotated[str | None, typer.Option(help="Of the policies that a scenario names, this one.")] = None,
    judged: Annotated[bool, typer.Option("--judge/--no-judge", help="Hold the events to the protocol.")] = True,
    megabytes: Annotated[float, typer.Option(help="Room for steps; those around the violation stay.")] = 8.0,
    browse: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    json: Json = False,
) -> None:
    """Make a page of a trace, scenario, counterexample or report: one file, no network.

    Example: pinproof show trace.ndjson -o page.html
    """
    if not 0.01 <= megabytes <= 16:
        raise BadArgument(f"--megabytes is {megabytes}: a page has room for 0.01 to 16")
    path = find(source)
    chosen = format_of(output, form)
    with progress("reading", quiet=json) as tick, trace_of(path, target, policy) as trace:
        opened = from_two_traces(trace, against) if against is not None else open_source(trace, judged=judged)
        opened.events = counted(opened.events, tick)
        told = tell(opened, budget=int(megabytes * 1_000_000))
    written = output or (None if form and form != "html" else Path(path.stem + ".html"))
    text = render(told, chosen, str(path))
    if written is not None:
        try:
            written.write_text(text, "utf-8")
        except OSError as error:
            raise BadArgument(f"{written}: {error.strerror}") from error
        if browse:
            webbrowser.open(written.resolve().as_uri())
    payload = as_json(told, written, len(text))
    finish(payload, as_json=json, show=lambda: report(told, written, text))


@contextmanager
def trace_of(path: Path, target: str | None, policy: str | None) -> Iterator[Path]:
    """The file itself; with a target, the trace of its replay of the scenario.

    Raises:
        BadArgument: nothing was replayed: the scenario is not for that policy.
    """
    if target is None:
        if policy is not None:
            raise BadArgument("--policy goes with --target")
        yield path
        return
    with TemporaryDirectory() as folder:
        trace = Path(folder) / f"{path.stem}.ndjson"
        chosen = None if policy is None else policies(policy)[0]
        found = replay(path, target, trace=trace, policy=chosen)
        if not trace.exists():
            raise BadArgument(f"{path.name}: {'; '.join(r.reason for r in found.runs) or 'it is not for that policy'}")
        yield trace


def find(source: str) -> Path:
    """The file, or the scenario of that name in the catalogue.

    Raises:
        BadArgument: there is neither.
    """
    path = Path(source)
    if path.exists():
        return path
    if path.suffix in ("", ".toml") and len(path.parts) == 1:
        known = Path(str(resources.files("pinproof.specs"))) / "scenarios" / f"{path.stem}.toml"
        if known.exists():
            return known
    raise BadArgument(f"{source}: no such file, and no scenario of that name")


def format_of(output: Path | None, form: str | None) -> str:
    """The format that the option or the ending asks for.

    Raises:
        BadArgument: it is none of ours.
    """
    if form is not None:
        if form not in FORMATS:
            raise BadArgument(f"--format {form}: there is {', '.join(FORMATS)}")
        return form
    if output is None:
        return "html"
    endings = {".html": "html", ".htm": "html", ".md": "markdown", ".sarif": "sarif", ".json": "perfetto"}
    if output.suffix not in endings:
        raise BadArgument(f"{output}: no format for the ending {output.suffix!r}; say --format")
    return endings[output.suffix]


def render(told: Story, form: str, uri: str) -> str:
    """The story in a format."""
    match form:
        case "markdown":
            return markdown.story(told)
        case "sarif":
            found = sarif.finding_of(told, uri, lines=uri.endswith("json"))
            return json_module.dumps(sarif.sarif([found] if found else []), indent=1) + "\n"
        case "perfetto":
            return json_module.dumps(perfetto.perfetto(told)) + "\n"
    return page.render(told)


def as_json(told: Story, written: Path | None, size: int) -> dict[str, Any]:
    """The JSON of the verb."""
    return {
        "verdict": verdict_of(told),
        "file": None if written is None else str(written),
        "characters": size,
        "steps": told.overview.total,
        "kept": len(told.steps),
        "violations": [{"step": position, **page.violation_data(found)} for position, found in told.violations],
    }


def verdict_of(told: Story) -> Verdict:
    """Violated where something is wrong in the story."""
    return "holds" if told.violation is None else "violated"


def report(told: Story, written: Path | None, text: str) -> None:
    """The screen."""
    if written is None:
        out.print(text, markup=False, end="")
        return
    if told.violation is not None:
        inside = told.at is not None and told.first <= told.at < told.first + len(told.steps)
        step = told.steps[told.at - told.first] if inside and told.at is not None else None
        out.print(terminal.breach(told.violation, step))
    kept = "" if len(told.steps) == told.overview.total else f", {len(told.steps):,} of them on the page"
    verdict_line(verdict_of(told), f"{told.overview.total:,} steps{kept}; {written} ({len(text) / 1e6:.1f} MB)")


def counted(events: Iterable[Event], tick: Tick) -> Iterator[Event]:
    """The events, with a count and a rate on the way."""
    begun, number = time.monotonic(), 0
    for number, event in enumerate(events, 1):
        if number % 2000 == 0:
            rate = number / max(1e-6, time.monotonic() - begun)
            tick(number, 0, f"{number:,} events, {rate:,.0f} a second")
        yield event
