"""`pinproof explore`: every reachable state of a small cache."""

from __future__ import annotations

import json as json_module
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_args

import typer

from ..model.instance import Instance, instance
from ..model.mutants import mutant as mutant_of
from ..model.vocabulary import Component, Policy
from ..proofs.emit import emit as write_suite
from ..proofs.explore import MEMORY, Exploration
from ..proofs.explore import explore as run_exploration
from ..proofs.itf import to_itf
from ..proofs.suite import Covers
from .options import ComponentsOption, Json, PolicyOption, component_sets, policies
from .report import Verdict, finish, out, progress, verdict_line, worst


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(rich_help_panel="Check the protocol")(explore)


def explore(
    policy: PolicyOption = "write_back",
    components: ComponentsOption = "full",
    nodes: Annotated[int, typer.Option(help="Nodes besides the root.")] = 2,
    holders: Annotated[int, typer.Option(help="Operations at a time.")] = 2,
    depth: Annotated[int | None, typer.Option(help="Expand no further than this many steps.")] = None,
    budget: Annotated[float | None, typer.Option(help="Seconds.")] = None,
    memory: Annotated[float, typer.Option(help="GiB; what does not fit is spilled to disk.")] = MEMORY / 2**30,
    symmetry: Annotated[bool, typer.Option(help="Count states that differ in names only as one.")] = True,
    checkpoint: Annotated[Path | None, typer.Option(help="A folder to write to, and to resume from.")] = None,
    witness: Annotated[str | None, typer.Option(help="Search for a state for which this holds.")] = None,
    mutant: Annotated[
        str | None, typer.Option(help="Search a faulty protocol instead (see `pinproof mutants`).")
    ] = None,
    emit: Annotated[
        Path | None, typer.Option(help="Write a suite of action sequences that covers the universe.")
    ] = None,
    covers: Annotated[
        str, typer.Option(help="What a suite covers: transitions, or situations of large universes.")
    ] = "transitions",
    itf: Annotated[Path | None, typer.Option(help="Write the counterexample or witness as ITF.")] = None,
    device: Annotated[str, typer.Option(help="cpu, or a torch device.")] = "cpu",
    json: Json = False,
) -> None:
    """Visit every reachable state of a small cache and check every property in each.

    Example: pinproof explore --policy write_back --components full+swa --nodes 2 --holders 2
    """
    if emit is not None:
        emit_suite(emit, policies(policy), component_sets(components), nodes, holders, covers, as_json=json)
    results = []
    with progress("exploring", quiet=json) as tick:
        for chosen in policies(policy):
            for parts in component_sets(components):
                found = run_exploration(
                    chosen,
                    parts,
                    nodes,
                    holders,
                    depth=depth,
                    budget=budget,
                    memory=int(memory * 2**30),
                    symmetry=symmetry,
                    checkpoint=checkpoint,
                    witness=witness,
                    device=device,
                    instance=None if mutant is None else faulty(mutant, chosen, parts),
                    progress=lambda p: tick(p.states, 0, f"{p.states:,} states"),
                )
                results.append(found)
                if itf is not None and (found.violation or found.witness):
                    write_itf(itf, found, chosen, parts, mutant)
    payload = {
        "verdict": worst([verdict_of(r, witness) for r in results]),
        "explorations": [{**as_json(r, witness), **({"mutant": mutant} if mutant else {})} for r in results],
    }
    finish(payload, as_json=json, show=lambda: show(results, witness))


def faulty(identifier: str, policy: Policy, components: tuple[Component, ...]) -> Instance:
    """The mutant under this policy, for these components."""
    return mutant_of(identifier).instance(policy, components)


def write_itf(
    file: Path, found: Exploration, policy: Policy, components: tuple[Component, ...], mutant: str | None
) -> None:
    """The counterexample or witness in the Informal Trace Format."""
    made = instance(policy, components) if mutant is None else faulty(mutant, policy, components)
    trace = found.violation.trace if found.violation is not None else found.witness or ()
    words = found.violation.words if found.violation is not None else "a witness"
    file.write_text(json_module.dumps(to_itf(made, trace, description=words), indent=1) + "\n")


def emit_suite(
    file: Path,
    chosen: list[Policy],
    sets: list[tuple[Component, ...]],
    nodes: int,
    holders: int,
    covers: str,
    *,
    as_json: bool,
) -> NoReturn:
    """Write a suite for `pinproof conform --suite`."""
    if len(chosen) * len(sets) != 1:
        raise typer.BadParameter(
            "a suite is of one universe: name one --policy and one --components", param_hint="--emit"
        )
    if covers not in get_args(Covers):
        raise typer.BadParameter(f"{covers!r} is not one of {', '.join(get_args(Covers))}", param_hint="--covers")
    header = write_suite(file, chosen[0], sets[0], nodes, holders, covers=covers)  # type: ignore[arg-type]
    told = {"verdict": "holds", "explorations": [], "suite": asdict(header)}
    words = f"{header.sequences:,} sequences, {header.steps:,} steps, {header.targets:,} {header.covers} in {file}"
    finish(told, as_json=as_json, show=lambda: verdict_line("holds", words))


def verdict_of(found: Exploration, witness: str | None) -> Verdict:
    """Violated beats all; a witness asked for and not found is vacuous only when the search was complete."""
    if found.violation is not None:
        return "violated"
    if witness is not None:
        return "holds" if found.witness is not None else "vacuous" if found.complete else "unknown"
    return "holds" if found.complete else "unknown"


def as_json(found: Exploration, witness: str | None) -> dict[str, Any]:
    """The JSON of one exploration."""
    row = {key: value for key, value in asdict(found).items() if value is not None or key in ("violation", "witness")}
    return {"verdict": verdict_of(found, witness), **row, "states_per_second": round(found.states_per_second)}


def show(results: list[Exploration], witness: str | None) -> None:
    """The screen."""
    for r in results:
        out.print(
            f"{r.name}  nodes {r.nodes} holders {r.holders}"
            f"  [bold]{r.states:,}[/] states  {r.transitions:,} transitions"
            f"  depth {r.depth}  {r.states_per_second:,.0f} states/s"
            + ("" if r.complete else f"  stopped: {r.stopped}")
        )
        never = sorted(name for name, c in r.coverage.items() if not c.fired)
        if never:
            out.print(f"  never fires here: {', '.join(never)}")
        steps = r.violation.trace if r.violation is not None else r.witness
        if r.violation is not None:
            v = r.violation
            out.print(f"  [red]{v.kind}[/] {v.rule}: {v.words} {v.args}")
        for number, step in enumerate(steps or (), 1):
            out.print(f"  {number:3}  {step['action']} {step['args']}")
        verdict = verdict_of(r, witness)
        verdict_line(verdict, _meaning(verdict, witness))


def _meaning(verdict: Verdict, witness: str | None) -> str:
    if witness is not None:
        return {"holds": "there is such a state", "vacuous": "no such state is reachable"}.get(verdict, "not decided")
    return {"holds": "in every reachable state", "unknown": "as far as it went"}.get(verdict, "")
