"""`pinproof doctor`: what is here, what is missing, and the command that fixes it."""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Literal

import typer

from .options import Json
from .report import Verdict, finish, out, verdict_line

INSTALL = "python -m pip install -c constraints.txt ."
BROWSERS = ("chromium", "chromium-browser", "google-chrome")

Health = Literal["ok", "optional", "missing"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. `fix` is the command that makes it right."""

    name: str
    health: Health
    words: str
    fix: str = ""


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(rich_help_panel="Look at what happened")(doctor)


def doctor(json: Json = False) -> None:
    """Say what is installed, what works, what is missing, and how to fix it.

    Example: pinproof doctor
    """
    findings = list(examine())
    payload = {"verdict": verdict_of(findings), "findings": [as_json(f) for f in findings]}
    finish(payload, as_json=json, show=lambda: show(findings))


def examine() -> Iterator[Finding]:
    """Everything that is looked at, in the order in which it is needed."""
    yield from _guarded("python", _python)
    for package in ("z3-solver", "cvc5", "torch", "hypothesis", "msgspec", "typer", "rich", "jinja2", "numpy"):
        yield _package(package)
    yield from _guarded("z3 solves", _z3)
    yield from _guarded("protocol", _protocol)
    yield from _guarded("cuda", _cuda)
    yield from _guarded("targets", _targets)
    yield _tool(
        "browser", ("chromium", "chromium-browser", "google-chrome"), "tests of the viewer", "apt-get install chromium"
    )
    for package, what, extra in (("pytest", "the tests", "test"), ("mkdocs-material", "the guide", "docs")):
        yield _package(package, what, f"python -m pip install -c constraints.txt '.[{extra}]'")


def _guarded(name: str, look: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """What `look` finds; whatever goes wrong while looking is a finding too."""
    try:
        yield from look()
    except Exception as error:
        yield Finding(
            name,
            "missing",
            f"{type(error).__name__}: {error}",
            "python -m pip install --force-reinstall -c constraints.txt .",
        )


def _python() -> Iterator[Finding]:
    words = f"{platform.python_version()} on {platform.machine()}, {os.cpu_count()} cores"
    good = sys.version_info >= (3, 11)
    yield Finding("python", "ok" if good else "missing", words, "" if good else "install Python 3.11 or newer")


def _package(name: str, needed_for: str = "", fix: str = "") -> Finding:
    try:
        return Finding(name, "ok", metadata.version(name))
    except metadata.PackageNotFoundError:
        words = f"not installed; needed for {needed_for}" if needed_for else "not installed"
        return Finding(
            name, "optional" if needed_for else "missing", words, fix or "python -m pip install -c constraints.txt ."
        )


def _z3() -> Iterator[Finding]:
    z3 = importlib.import_module("z3")
    x = z3.Bool("x")
    solver = z3.Solver()
    solver.add(x, z3.Not(x))
    answer = str(solver.check())
    yield Finding("z3 solves", "ok" if answer == "unsat" else "missing", f"x & not x is {answer}")


def _protocol() -> Iterator[Finding]:
    from ..model.instance import instances
    from ..model.protocol import TEXT

    found = list(instances())
    yield Finding(
        "protocol",
        "ok",
        f"{len(TEXT)} actions, {len(found)} instances, {len(found[-1].properties)} properties in the largest",
    )


def _cuda() -> Iterator[Finding]:
    torch = importlib.import_module("torch")
    if torch.cuda.is_available():
        yield Finding("cuda", "ok", f"{torch.cuda.get_device_name(0)}, CUDA {torch.version.cuda}")
    else:
        yield Finding("cuda", "optional", "no device: impl copies on the CPU, explore runs there; nothing is missing")


def _targets() -> Iterator[Finding]:
    from ..conformance.registry import KNOWN
    from ..conformance.sglang.environment import RELEASES
    from .targets import release_row, row_of

    for row in [*map(row_of, (name for name in KNOWN if name == name.lower())), *map(release_row, RELEASES)]:
        words, _, fix = str(row["reason"]).partition(": ")
        health: Health = "ok" if row["available"] else "optional"
        fix = fix if fix.startswith("pinproof") else ""
        yield Finding(row["target"], health, "ready" if row["available"] else words if fix else row["reason"], fix)


def _tool(name: str, programs: tuple[str, ...], needed_for: str, fix: str) -> Finding:
    found = next((path for p in programs if (path := shutil.which(p))), None)
    return (
        Finding(name, "ok", found) if found else Finding(name, "optional", f"not found; needed for {needed_for}", fix)
    )


def verdict_of(findings: list[Finding]) -> Verdict:
    """Violated if something is missing that pinproof cannot do without."""
    return "violated" if any(f.health == "missing" for f in findings) else "holds"


def as_json(finding: Finding) -> dict[str, Any]:
    """Plain data; no fix where none is needed."""
    row = {"name": finding.name, "health": finding.health, "words": finding.words}
    return {**row, "fix": finding.fix} if finding.fix else row


def show(findings: list[Finding]) -> None:
    """The screen."""
    colours = {"ok": "green", "optional": "yellow", "missing": "red"}
    for f in findings:
        out.print(f"[{colours[f.health]}]{f.health:9}[/] {f.name:18} ", end="")
        out.print(f.words, markup=False)
        if f.fix:
            out.print(f"{'':29}{f.fix}", markup=False, style="dim")
    missing = sum(f.health == "missing" for f in findings)
    verdict_line(verdict_of(findings), f"{missing} missing" if missing else "everything that is needed is here")
