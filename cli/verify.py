"""`pinproof verify`: the main job, all of it, on one screen."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from ..conformance.conform import conform as run_conformance
from ..model.vocabulary import COMPONENT_SETS, POLICIES, WRITE_BACK, WRITE_THROUGH
from ..proofs.explore import explore as run_exploration
from ..proofs.prove import prove as run_proof
from . import conform, explore, prove
from .options import Json, Seed, TargetOption
from .report import finish, out, progress, verdict_line, worst

NODES, HOLDERS = 2, 1
"""The universes that are enumerated here; `pinproof explore` takes larger ones."""


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(rich_help_panel="All of it")(verify)


def verify(
    target: TargetOption = "impl",
    steps: Annotated[int, typer.Option(help="Operations for each policy and component set.", min=1)] = 1000,
    seed: Seed = 1,
    json: Json = False,
) -> None:
    """Prove the protocol, explore its small universes, and hold an implementation to it, under every policy.

    Example: pinproof verify
    """
    started = time.perf_counter()
    with progress("proving", quiet=json) as tick:
        proof = run_proof(progress=tick)
    if not json:
        out.print("[bold]Proven[/] for trees of any size")
        prove.show(proof, None, None, 0)
    explored = []
    universes = [(policy, parts) for policy in (WRITE_BACK, WRITE_THROUGH) for parts in COMPONENT_SETS]
    with progress("exploring", quiet=json) as tick:
        for number, (policy, parts) in enumerate(universes):
            explored.append(run_exploration(policy, parts, NODES, HOLDERS))
            tick(number + 1, len(universes), f"{policy}/{'+'.join(parts)}")
    if not json:
        states = sum(e.states for e in explored)
        out.print(f"\n[bold]Explored[/] with {NODES} nodes and {HOLDERS} operation")
        for found in explored:
            if explore.verdict_of(found, None) != "holds":
                explore.show([found], None)
        verdict_line(
            worst([explore.verdict_of(e, None) for e in explored]), f"{states:,} states, every property in each"
        )
    runs = [(policy, parts) for policy in POLICIES for parts in COMPONENT_SETS]
    conformed = []
    with progress("conforming", quiet=json) as tick:
        for number, (chosen, parts) in enumerate(runs):
            conformed.append(run_conformance(target, chosen, parts, steps, seed))
            tick(number + 1, len(runs), f"{chosen}/{'+'.join(parts)}")
    if not json:
        out.print("\n[bold]Compared[/] with an implementation that moves real bytes")
        conform.show(conformed)
    payload: dict[str, Any] = {
        "verdict": worst(
            [
                proof.verdict,
                *(explore.verdict_of(e, None) for e in explored),
                *(c.verdict for c in conformed),
            ]
        ),
        "seconds": round(time.perf_counter() - started, 3),
        "prove": prove.as_json(proof),
        "explore": [explore.as_json(e, None) for e in explored],
        "conform": conform.as_json(conformed, seed),
    }

    def show() -> None:
        out.print()
        verdict_line(payload["verdict"], f"all of it, in {payload['seconds']:.0f} s")

    finish(payload, as_json=json, show=show)
