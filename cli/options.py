"""Options that several verbs share, and what their values may be."""

from __future__ import annotations

from typing import Annotated

import typer

from ..model.errors import UnknownName
from ..model.vocabulary import COMPONENT_SETS, POLICIES, Component, Policy

Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output instead of text.")]
Seed = Annotated[int, typer.Option("--seed", help="The only source of randomness.")]
PolicyOption = Annotated[str, typer.Option("--policy", help=f"{', '.join(POLICIES)}, or all.")]
ComponentsOption = Annotated[
    str, typer.Option("--components", help="full, full+swa, full+mamba, full+swa+mamba, or all.")
]
TargetOption = Annotated[str, typer.Option("--target", help="What is checked; `pinproof targets` lists them.")]


def policies(value: str) -> list[Policy]:
    """The policies that `value` names.

    Raises:
        UnknownName: it names none.
    """
    found = [p for p in POLICIES if value in (p, "all")]
    if not found:
        raise UnknownName("policy", value, [*POLICIES, "all"])
    return found


def component_sets(value: str) -> list[tuple[Component, ...]]:
    """The component sets that `value` names; case and order do not matter.

    Raises:
        UnknownName: it names none.
    """
    wanted = frozenset(value.lower().replace(",", "+").split("+"))
    found = [c for c in COMPONENT_SETS if value == "all" or frozenset(c) == wanted]
    if not found:
        raise UnknownName("component set", value, [*("+".join(c) for c in COMPONENT_SETS), "all"])
    return found
