"""`pinproof mutants`: faulty protocols, each of which must fail the rule it breaks."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..model.mutants import mutant
from ..proofs.mutation import MutationReport, run_mutants
from .options import Json
from .report import finish, out, progress, verdict_line


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(rich_help_panel="Check the protocol")(mutants)


def mutants(
    only: Annotated[list[str] | None, typer.Argument(help="Ids of mutants; all of them if none are given.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes; one a core if left out.")] = None,
    json: Json = False,
) -> None:
    """Check that the proof notices known mistakes: each faulty protocol must fail the rule that it breaks.

    Example: pinproof mutants
    """
    with progress("mutants", quiet=json) as tick:
        report = run_mutants(only or None, jobs=jobs, progress=tick)
    finish(as_json(report), as_json=json, show=lambda: show(report))


def as_json(report: MutationReport) -> dict[str, Any]:
    """The JSON of the verb."""
    return {
        "verdict": report.verdict,
        "total": report.total,
        "killed": report.killed,
        "survivors": [
            {"mutant": t.mutant, "instance": t.instance, "unknown": list(t.unknown)} for t in report.survivors
        ],
        "seconds": round(report.seconds, 3),
    }


def show(report: MutationReport) -> None:
    """The screen: a mutant a line, and where it survived."""
    for identifier in dict.fromkeys(t.mutant for t in report.trials):
        trials = [t for t in report.trials if t.mutant == identifier]
        survived = [t.instance for t in trials if not t.killed]
        mark = "[red]SURVIVED[/]" if survived else "[green]killed[/]  "
        made = mutant(identifier)
        where = f" on {', '.join(survived)}" if survived else f"  {len(trials)}x by {made.caught_by}"
        out.print(f"{mark} {identifier:44} {made.report:22}{where}")
    verdict_line(report.verdict, f"{report.killed} of {report.total} mutants killed, {report.seconds:.1f} s")
