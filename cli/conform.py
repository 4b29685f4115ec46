"""`pinproof conform`: drive an implementation and hold everything it does to the protocol."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from ..conformance.conform import ConformResult
from ..conformance.conform import conform as run_conformance
from ..conformance.covering import run_suite
from ..conformance.dialects.checked import WAYS
from ..conformance.registry import open_target
from ..model.errors import BadArgument
from ..proofs.suite import read_suite
from .lockstep import run_lockstep
from .options import ComponentsOption, Json, PolicyOption, Seed, TargetOption, component_sets, policies
from .report import finish, out, progress, verdict_line, worst


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(rich_help_panel="Check an implementation")(conform)


def conform(
    target: TargetOption = "impl",
    policy: PolicyOption = "all",
    components: ComponentsOption = "all",
    steps: Annotated[
        int | None, typer.Option(help="Operations a run; 2000, or all of a request trace, if left out.")
    ] = None,
    seed: Seed = 0,
    workload: Annotated[
        str | None, typer.Option(help="chat, storage, or a trace of requests (Mooncake JSONL).")
    ] = None,
    scale: Annotated[float | None, typer.Option(help="How far a request trace is scaled down.")] = None,
    single_actions: Annotated[
        bool, typer.Option("--single-actions", help="Steer single actions of the model.")
    ] = False,
    trace: Annotated[Path | None, typer.Option(help="Record the events here (one policy and component set).")] = None,
    promote: Annotated[Path | None, typer.Option(help="Write the shortest failing run here as a scenario.")] = None,
    suite: Annotated[Path | None, typer.Option(help="Execute a suite of `pinproof explore --emit` instead.")] = None,
    storage: Annotated[
        Path | None, typer.Option(help="A directory for the storage tier (LMDB), emptied first; in memory if left out.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Operations in one request, checked while the next are under way.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="A second target: the same operations go to both, and the answers are compared.")
    ] = None,
    json: Json = False,
) -> None:
    """Drive a target with random operations, faults included, or a workload, and check every event and every byte.

    Example: pinproof conform --target impl --policy write_back --components full+swa --seed 1 --steps 5000
    """
    if suite is not None:
        execute_suite(suite, target, seed, as_json=json)
    runs = [(chosen, parts) for chosen in policies(policy) for parts in component_sets(components)]
    if trace is not None and len(runs) > 1:
        raise typer.BadParameter("a trace is of one run: name one --policy and one --components", param_hint="--trace")
    endless = workload in (None, "chat", "storage")
    wanted = steps if steps is not None else 2000 if endless else 0
    if endless and not wanted:
        raise typer.BadParameter("there is no end to it: name a number of steps", param_hint="--steps")
    if wanted < 0:
        raise typer.BadParameter(f"{wanted} is not a number of steps", param_hint="--steps")
    if against is not None:
        if workload or single_actions or trace or storage or scale:
            raise typer.BadParameter("only with --steps, --seed, --batch and --promote", param_hint="--against")
        run_lockstep(target, against, runs, wanted, seed, batch or 0, promote, as_json=json)
    found = []
    with closing(open_target(target)) as opened, progress("conforming", quiet=json) as tick:
        for number, (chosen, parts) in enumerate(runs):
            name = f"{chosen}/{'+'.join(parts)}"
            found.append(
                run_conformance(
                    opened, chosen, parts, wanted, seed, workload, batch=batch or 0,
                    scale=scale, single_actions=single_actions, trace=trace, promote=promote, storage=storage,
                    progress=lambda done, total, n=number, w=name: tick(n * wanted + done, len(runs) * wanted, w),  # type: ignore[misc]
                )
            )  # fmt: skip
    finish(as_json(found, seed), as_json=json, show=lambda: show(found))


def execute_suite(file: Path, target: str, seed: int, *, as_json: bool) -> NoReturn:
    """Take every sequence of a suite on the target."""
    try:
        header, sequences = read_suite(file)
    except (OSError, ValueError, KeyError, TypeError) as wrong:
        raise BadArgument(f"{file} is no suite: {wrong}") from wrong
    policy: Any = header.policy
    components: Any = header.components
    with progress("suite", quiet=as_json) as tick:
        found = run_suite(
            target, policy, components, sequences, total=header.sequences, progress=lambda n, all_: tick(n, all_, "")
        )
    told = {
        "verdict": found.verdict,
        "target": found.target,
        "policy": [found.policy],
        "components": ["+".join(found.components)],
        "steps": found.executed,
        "steps_per_second": round(found.steps_per_second),
        "violations": [v.as_json() for v in found.violations],
        "seed": seed,
        "runs": [],
        "suite": {
            "covers": header.covers,
            "targets": header.targets,
            "sequences": found.sequences,
            "planned": found.planned,
            "executed": found.executed,
            "probes": found.probes,
            "unsteered": dict(found.unsteered.most_common()),
            "failed": [{"action": s.action, "args": s.args} for s in found.failed.step] if found.failed else None,
        },
    }

    def shown() -> None:
        for v in found.violations:
            out.print(f"  {v}", markup=False, style="red")
        for step in found.failed.step if found.failed is not None else ():
            out.print(f"  {step.action}({', '.join(f'{k}={v}' for k, v in step.args.items())})", markup=False)
        for reason, count in found.unsteered.most_common():
            out.print(f"  [yellow]not executed[/] {count:6,}x  {reason}")
        words = f"{found.executed:,} of {found.planned:,} steps in {found.sequences:,} sequences"
        words += f", {found.probes:,} forbidden actions asked for"
        verdict_line(found.verdict, f"{words}, {found.steps_per_second:,.0f} a second")

    finish(told, as_json=as_json, show=shown)


def as_json(found: list[ConformResult], seed: int) -> dict[str, Any]:
    """The JSON of the verb: the whole, and each run."""
    seconds = sum(r.seconds for r in found)
    steps = sum(r.steps for r in found)
    return {
        "verdict": worst([r.verdict for r in found]),
        "target": found[0].target,
        "policy": sorted({r.policy for r in found}),
        "components": sorted({"+".join(r.components) for r in found}),
        "steps": steps,
        "steps_per_second": round(steps / seconds) if seconds else 0,
        "violations": [v.as_json() for r in found for v in r.violations],
        "seed": seed,
        "runs": [r.as_json() for r in found],
    }


def show(found: list[ConformResult]) -> None:
    """The screen: a line a run, then what is wrong and how to see it again."""
    for r in found:
        mark = {"holds": "[green]holds[/]   ", "violated": "[red]violated[/]", "vacuous": "[yellow]vacuous[/] "}[
            r.verdict
        ]
        name = f"{r.policy}/{'+'.join(r.components)}"
        out.print(f"{mark} {name:44} {r.steps:7,} steps {r.events:8,} events {r.steps_per_second:8,.0f} steps/s")
        for v in r.violations:
            out.print(f"  {v}", markup=False, style="red")
        for what, times in r.known.items():
            out.print(f"  [dim]known deviation[/] {times:6,}x  {what}")
        if r.checked:
            ways = Counter(r.checked.values())
            out.print(f"  properties: {', '.join(f'{ways[how]} {how}' for how in WAYS if ways[how])}")
        for what in r.missing:
            out.print(f"  [yellow]never happened:[/] {what}")
        if r.violations:
            out.print(f"  again: {r.reproduce}", markup=False)
        if r.promoted is not None:
            out.print(f"  shortest run: {r.promoted}", markup=False)
    steps, seconds = sum(r.steps for r in found), sum(r.seconds for r in found)
    rate = steps / seconds if seconds else 0
    verdict_line(worst([r.verdict for r in found]), f"{found[0].target}: {steps:,} checked steps, {rate:,.0f} a second")
