"""The reference of properties, faulty protocols and exit codes, as Markdown written from the code."""

from __future__ import annotations

from ..model.mutants import MUTANTS, SHAPES
from ..model.properties import CATALOGUE, KINDS
from ..view.catalogue import EXIT_CODES
from .report import EXIT


def properties() -> str:
    """The catalogue, a section for each class."""
    parts = [
        "# Properties\n",
        "What holds in every state. `pinproof explain ID` has the formula, and where it is proven.\n",
    ]
    for kind in KINDS:
        found = [f for f in CATALOGUE.values() if f.kind == kind]
        under = {f.id: f.policies[0] if len(f.policies) == 1 else "both" for f in found}
        rows = [f"| `{f.id}` | {cell(f.words)} | {under[f.id]} | {f.source} |" for f in found]
        parts.append("\n".join([f"## {kind}\n", "| id | rule | policy | from |", "|---|---|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def mutants() -> str:
    """The faulty protocols, by the shape of the mistake."""
    parts = ["# Faulty protocols\n", "Each must fail the rule that it breaks; `pinproof mutants` checks that all do.\n"]
    for number, shape in SHAPES.items():
        found = [m for m in MUTANTS.values() if m.shape == number]
        rows = [f"| `{m.id}` | {cell(m.words)} | `{cell(m.caught_by)}` | {m.report} |" for m in found]
        if rows:
            parts.append(
                "\n".join([f"## {shape}\n", "| id | mistake | caught by | from |", "|---|---|---|---|", *rows]) + "\n"
            )
    return "\n".join(parts)


def exit_codes() -> str:
    """The exit codes and the verdicts."""
    rows = [f"| {code} | {called} | {words} |" for code, (called, words) in EXIT_CODES.items()]
    verdicts = ", ".join(f"`{v}` is {code}" for v, code in EXIT.items())
    head = ["# Exit codes\n", "| code | | what it says |", "|---|---|---|"]
    return "\n".join([*head, *rows]) + f"\n\nIn JSON the same is called `verdict`: {verdicts}.\n"


def cell(text: str) -> str:
    """Text for a cell of a table."""
    return " ".join(text.replace("-\n", "-").split()).replace("|", "\\|")
