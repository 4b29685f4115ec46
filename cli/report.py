"""How results leave the program: verdicts, exit codes, JSON or a screen of text, and progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

Verdict = Literal["holds", "violated", "vacuous", "unknown"]
EXIT: Mapping[Verdict, int] = {"holds": 0, "violated": 1, "vacuous": 3, "unknown": 4}
"""Exit codes. 2 is a usage error, 70 an internal one."""
USAGE, INTERNAL = 2, 70

_WORST: tuple[Verdict, ...] = ("holds", "vacuous", "unknown", "violated")

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def worst(verdicts: list[Verdict]) -> Verdict:
    """The verdict of a whole from those of its parts: one violation decides, then one unknown, then one vacuous."""
    return max(verdicts, key=_WORST.index, default="holds")


def finish(payload: Mapping[str, Any], *, as_json: bool, show: Callable[[], None]) -> NoReturn:
    """Print the result, as one JSON object or as `show` prints it, and leave with the exit code of its `verdict`."""
    if as_json:
        sys.stdout.write(json.dumps(payload, indent=2, default=str) + "\n")
    else:
        show()
    sys.stdout.flush()
    raise typer.Exit(EXIT[payload["verdict"]])


def verdict_line(verdict: Verdict, text: str) -> None:
    """The last line of every report."""
    colour = {"holds": "green", "violated": "red", "vacuous": "yellow", "unknown": "yellow"}[verdict]
    out.print(f"[bold {colour}]{verdict}[/]  {text}")


Tick = Callable[[int, int, str], None]
"""Called with (done, total, what is being done)."""


@contextmanager
def progress(title: str, *, quiet: bool = False) -> Iterator[Tick]:
    """A progress bar on standard error; nothing where that is not a terminal."""
    if quiet or not err.is_terminal:
        yield lambda done, total, what: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task(title, total=None)

        def tick(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=f"{title} {what}".rstrip())

        yield tick
