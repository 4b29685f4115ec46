"""`pinproof conform --against`: two targets side by side."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

from ..conformance.lockstep import lockstep
from ..conformance.parting import LockstepResult, Parting
from ..conformance.registry import open_target
from ..conformance.scenario import write
from ..model.vocabulary import Component, Policy
from .diff import show_fields
from .report import finish, out, progress, verdict_line, worst


def run_lockstep(
    target: str, against: str, runs: list[tuple[Policy, tuple[Component, ...]]], steps: int, seed: int, batch: int,
    promote: Path | None, *, as_json: bool,
) -> NoReturn:  # fmt: skip
    """Give both the same operations under every policy and component set, and show where they part."""
    found = []
    with (
        closing(open_target(target)) as a,
        closing(open_target(against)) as b,
        progress("in lockstep", quiet=as_json) as tick,
    ):
        for number, (policy, components) in enumerate(runs):
            name = f"{policy}/{'+'.join(components)}"
            found.append(
                lockstep(
                    a, b, policy, components, steps, seed, batch=batch,
                    progress=lambda done, _, n=number, w=name: tick(n * steps + done, len(runs) * steps, w),  # type: ignore[misc]
                )
            )  # fmt: skip
    first = next((p.scenario for r in found for p in r.parted.values() if p.scenario is not None), None)
    if promote is not None and first is not None:
        write(first, promote)
    finish(told(found, seed), as_json=as_json, show=lambda: show(found))


def told(found: list[LockstepResult], seed: int) -> dict[str, Any]:
    """The JSON: the whole, and each run."""
    steps, seconds = sum(r.steps for r in found), sum(r.seconds for r in found)
    first = next((r.divergence for r in found if r.divergence is not None), None)
    return {
        "verdict": worst([r.verdict for r in found]),
        "target": found[0].targets[0],
        "against": found[0].targets[1],
        "policy": sorted({r.policy for r in found}),
        "components": sorted({"+".join(r.components) for r in found}),
        "steps": steps,
        "steps_per_second": round(steps / seconds) if seconds else 0,
        "violations": [v.as_json() for r in found for each in r.violations.values() for v in each],
        "divergence": None if first is None else first.as_json(),
        "seed": seed,
        "runs": [r.as_json() for r in found],
    }


def show(found: list[LockstepResult]) -> None:
    """The screen: a line a run, and where the two part."""
    for r in found:
        mark = {"holds": "[green]agree[/] ", "violated": "[red]part[/]  ", "vacuous": "[yellow]vacuous[/]"}[r.verdict]
        counts = ", ".join(f"{count:,} {what}" for what, count in r.compared.items())
        out.print(f"{mark} {r.policy}/{'+'.join(r.components):20} {r.steps:7,} steps  {counts}")
        for parted in r.parted.values():
            show_parting(parted.first)
            out.print(
                f"  {parted.times} times, first in the life of seed {parted.seed}; again: {r.reproduce}", markup=False
            )
            for asked in parted.scenario.operations() if parted.scenario is not None else ():
                out.print(f"  shortest: {asked}", markup=False)
        for name, violations in r.violations.items():
            for v in violations:
                out.print(f"  {name}: {v}", markup=False, style="red")
        for name, known in r.known.items():
            for what, times in known.items():
                out.print(f"  [dim]known deviation[/] {times:6,}x  {what} ({name})")
    if unseen := found[0].unseen:
        out.print(f"not compared, since one of the two does not show it: {', '.join(unseen)}")
    steps, seconds = sum(r.steps for r in found), sum(r.seconds for r in found)
    compared = sum(r.compared["events"] for r in found)
    words = f"{found[0].targets[0]} and {found[0].targets[1]}: {steps:,} steps, {compared:,} events of either compared"
    verdict_line(worst([r.verdict for r in found]), f"{words}, {steps / seconds if seconds else 0:,.0f} a second")


def show_parting(at: Parting) -> None:
    """What was asked, what both said to it, and in what that differs."""
    out.print(f"[bold]operation {at.number}[/]: {at.asked}")
    for side, lines in (("a", at.a), ("b", at.b)):
        for number, line in enumerate(lines):
            out.print(f"  {' ' if number else side}  {line}", markup=False)
    show_fields(at.fields)
    for line in at.recent:
        out.print(f"  before: {line}", markup=False, style="dim")
