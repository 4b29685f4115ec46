"""`pinproof targets`: what can be checked here, and how to get more."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..conformance.errors import TargetUnavailable
from ..conformance.registry import KNOWN, open_target
from ..conformance.sglang import environment
from .options import Json
from .report import finish, out, verdict_line


def register(app: typer.Typer) -> None:
    """Add the verb, with its own verb `install`."""
    group = typer.Typer()
    group.callback(invoke_without_command=True)(targets)
    group.command("install")(install)
    app.add_typer(group, name="targets", rich_help_panel="Check an implementation")


def targets(context: typer.Context, json: Json = False) -> None:
    """List what can be checked, and what is missing where something cannot.

    Example: pinproof targets
    """
    if context.invoked_subcommand is not None:
        return
    rows = [*map(row_of, (name for name in KNOWN if name == name.lower())), *map(release_row, environment.RELEASES)]
    finish({"verdict": "holds", "targets": rows}, as_json=json, show=lambda: show(rows))


def row_of(name: str) -> dict[str, Any]:
    """Whether a target of our own can run here."""
    try:
        open_target(name).close()
    except TargetUnavailable as missing:
        return {"target": name, "available": False, "reason": str(missing)}
    return {"target": name, "available": True, "reason": ""}


def release_row(version: str) -> dict[str, Any]:
    """Whether a release of SGLang is installed."""
    try:
        environment.find(version)
    except environment.EnvironmentProblem:
        reason = f"not installed: pinproof targets install sglang=={version}"
        return {"target": f"sglang:{version}", "available": False, "reason": reason}
    return {"target": f"sglang:{version}", "available": True, "reason": ""}


def install(
    package: Annotated[str, typer.Argument(help="sglang==VERSION")],
    json: Json = False,
) -> None:
    """Make an isolated environment for a release of SGLang in the user's cache folder.

    Example: pinproof targets install sglang==0.5.23
    """
    name, _, version = package.partition("==")
    if name != "sglang" or not version:
        raise typer.BadParameter(f"{package!r} is not sglang==VERSION", param_hint="PACKAGE")
    environment.install(version)
    done = {"verdict": "holds", "installed": package}
    finish(done, as_json=json, show=lambda: verdict_line("holds", f"{package} is installed"))


def show(rows: list[dict[str, Any]]) -> None:
    """The screen: a line a target."""
    for row in rows:
        mark = "[green]ready[/]  " if row["available"] else "[dim]missing[/]"
        out.print(f"{mark} {row['target']:22} {row['reason']}".rstrip())
