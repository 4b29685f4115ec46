"""`pinproof replay`: a named interleaving, on the model or on a target."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from ..conformance.replay import ReplayResult
from ..conformance.replay import replay as run_replay
from ..conformance.scenario import load, shipped
from ..view.reports import from_scenario
from ..view.sources import open_source
from .options import Json
from .report import finish, out, verdict_line
from .trees import draw


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(rich_help_panel="Check an implementation")(replay)


def replay(
    scenario: Annotated[str | None, typer.Argument(help="A name or a file; the names if left out.")] = None,
    target: Annotated[str, typer.Option("--target", help="model, or a target (see `pinproof targets`).")] = "model",
    trace: Annotated[
        Path | None, typer.Option(help="Write the events of the first run that goes wrong, or of the last.")
    ] = None,
    json: Json = False,
) -> None:
    """Replay a scenario under every policy and component set it names, and compare with what it expects. A target that
    takes no single actions is brought to each by operations, as far as there are any.

    Example: pinproof replay window-under-a-pin --target impl
    """
    if scenario is None:
        names = [file.name.removesuffix(".toml") for file in shipped()]
        finish({"verdict": "holds", "scenarios": names}, as_json=json, show=lambda: out.print("\n".join(names)))
    with tempfile.TemporaryDirectory(prefix="pinproof-") as scratch:
        events = trace or Path(scratch) / "events.ndjson"
        found = run_replay(scenario, target, trace=events)
        finish(as_json(found), as_json=json, show=lambda: show(found, scenario, events))


def as_json(found: ReplayResult) -> dict[str, Any]:
    """The JSON of the verb."""
    return {
        "verdict": found.verdict,
        "scenario": found.scenario,
        "target": found.target,
        "runs": [
            {
                "verdict": run.verdict,
                "policy": run.policy,
                "components": list(run.components),
                "steps": run.steps,
                "violations": [v.as_json() for v in run.violations],
                "reason": run.reason,
            }
            for run in found.runs
        ],
    }


def show(found: ReplayResult, scenario: str, events: Path) -> None:
    """The screen: a line a run, what went otherwise than the scenario says, and the trees around it."""
    for run in found.runs:
        out.print(f"{run.verdict:8} {run.policy}/{'+'.join(run.components)}  {run.steps} steps  {run.reason}".rstrip())
        for v in run.violations:
            out.print(f"  {v}", markup=False, style="red")
    if found.violations:
        draw(open_source(events) if events.exists() else from_scenario(load(scenario)))
    verdict_line(found.verdict, f"{found.scenario} on {found.target}")
