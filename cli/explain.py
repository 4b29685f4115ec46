"""`pinproof explain`: what a name means."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from ..view.catalogue import Entry, known
from ..view.catalogue import explain as find
from .options import Json
from .report import finish, out


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(rich_help_panel="Look at what happened")(explain)


def explain(
    name: Annotated[str | None, typer.Argument(metavar="ID", help="As reports name it; all ids if left out.")] = None,
    json: Json = False,
) -> None:
    """Say what a property, action, guard, mutant, violation or exit code means, and where it comes from.

    Example: pinproof explain safety.full-source-is-pinned
    """
    if name is None:
        names = known()
        finish({"verdict": "holds", "ids": names}, as_json=json, show=lambda: list_all(names))
    entry = find(name)
    finish({"verdict": "holds", "entry": entry.as_json()}, as_json=json, show=lambda: show(entry))


def list_all(names: dict[str, list[str]]) -> None:
    """Every id there is."""
    for kind, ids in names.items():
        out.print(f"[bold]{kind}[/]")
        for identifier in ids:
            out.print(f"  {identifier}", markup=False)


def show(entry: Entry) -> None:
    """The screen."""
    out.print(Text(entry.id, style="bold").append(f"  {entry.kind}", style="dim"))
    out.print(Text(entry.words))
    for label, lines in entry.rows:
        for number, line in enumerate(lines):
            out.print(Text(f"  {label if not number else '':10}", style="dim").append(line, style="not dim"))
