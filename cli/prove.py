"""`pinproof prove`: the protocol, for trees of any size."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..model.instance import instance
from ..proofs.counterexample import Counterexample, find
from ..proofs.prove import Report
from ..proofs.prove import prove as run_proof
from ..proofs.recheck import RecheckReport
from ..proofs.recheck import recheck as run_recheck
from ..proofs.smtlib import export as write_smtlib
from ..view.example import counterexample
from .options import ComponentsOption, Json, PolicyOption, component_sets, policies
from .report import Verdict, finish, out, progress, verdict_line, worst

SHOWN = 5
"""Counterexamples that are drawn; the others are listed."""


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(rich_help_panel="Check the protocol")(prove)


def prove(
    policy: PolicyOption = "all",
    components: ComponentsOption = "all",
    export: Annotated[Path | None, typer.Option(help="Write every obligation as SMT-LIB 2 into this folder.")] = None,
    recheck: Annotated[bool, typer.Option("--recheck", help="Prove everything again with cvc5.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Processes; one a core if left out.")] = None,
    json: Json = False,
) -> None:
    """Prove every property, promise and refusal of the protocol, unbounded, with z3.

    Example: pinproof prove --policy write_back --components full+swa
    """
    chosen, sets = policies(policy), component_sets(components)
    with progress("proving", quiet=json) as tick:
        report = run_proof(chosen, sets, jobs=jobs, progress=tick)
    files = len(write_smtlib(export, chosen, sets).files) if export is not None else 0
    again = None
    if recheck:
        with progress("re-checking with cvc5", quiet=json) as tick:
            again = run_recheck(chosen, sets, jobs=jobs, progress=tick)
    finish(as_json(report, again, files), as_json=json, show=lambda: show(report, again, export, files))


def verdict_of(report: Report, again: RecheckReport | None) -> Verdict:
    """The proof's verdict, worsened by a second solver that does not agree."""
    return worst([report.verdict, *([again.verdict] if again is not None else [])])


def as_json(report: Report, again: RecheckReport | None = None, exported: int = 0) -> dict[str, Any]:
    """The JSON of the verb."""
    row: dict[str, Any] = {
        "verdict": verdict_of(report, again),
        "instances": len(report.instances),
        "obligations": len(report.results),
        "failed": [r.id for r in report.with_verdict("failed")],
        "unknown": [r.id for r in report.with_verdict("unknown")],
        "seconds": round(report.seconds, 3),
        "by_instance": {name: dict(counts) for name, counts in report.by_instance().items()},
        "shared": dict(report.shared),
    }
    if again is not None:
        row["recheck"] = {
            "verdict": again.verdict,
            "solver": "cvc5",
            "obligations": len(again.results),
            "disagrees": [r.id for r in again.with_agreement("disagrees")],
            "unknown": [r.id for r in again.with_agreement("unknown")],
            "seconds": round(again.seconds, 3),
        }
    if row["failed"]:
        examples = [example_of(identifier) for identifier in row["failed"][:SHOWN]]
        row["counterexamples"] = [e.to_json() for e in examples if e is not None]
    if exported:
        row["exported"] = exported
    return row


def example_of(obligation: str) -> Counterexample | None:
    """The smallest counterexample to a failed obligation of the protocol."""
    policy, components = obligation.split("/")[:2]
    return find(instance(policy, tuple(components.split("+"))), obligation)  # type: ignore[arg-type]


def show(report: Report, again: RecheckReport | None, export: Path | None, files: int) -> None:
    """The screen."""
    for name, counts in report.by_instance().items():
        wrong = f"  [red]{counts['failed']} failed[/]" if counts["failed"] else ""
        wrong += f"  [yellow]{counts['unknown']} unknown[/]" if counts["unknown"] else ""
        out.print(f"{name:32} {counts['proved']:6,} proved{wrong}")
    for policy, shares in sorted({(s.split("/")[0], t.split("/")[0]) for s, t in report.shared.items()}):
        out.print(f"[dim]{policy} shares the proof of {shares}: it differs only in when it backs up[/]")
    failed = report.with_verdict("failed")
    for result in failed[:SHOWN]:
        example = example_of(result.id)
        out.print()
        out.print(counterexample(example) if example is not None else result.id)
    for result in failed[SHOWN:]:
        out.print(f"[red]{result.id}[/]")
    if export is not None:
        out.print(f"{files:,} SMT-LIB 2 files in {export}")
    if again is not None:
        agreed = len(again.with_agreement("agrees"))
        out.print(f"cvc5 agrees on {agreed:,} of {len(again.results):,}, {again.seconds:.1f} s")
    total = len(report.results)
    verdict_line(
        verdict_of(report, again), f"{total:,} obligations, {len(report.instances)} instances, {report.seconds:.1f} s"
    )
