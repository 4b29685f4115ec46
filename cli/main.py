"""The entry point: verbs, and what becomes of errors."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import metadata
from typing import Annotated

import typer

from ..conformance.errors import ConformanceError
from ..conformance.sglang.environment import EnvironmentProblem
from ..model.errors import ModelError
from ..proofs.checkpoint import CheckpointMismatch
from ..proofs.spill import DiskFull
from . import conform, diff, doctor, explain, explore, mutants, prove, replay, show, targets, verify
from .report import INTERNAL, USAGE, err, out

USER_ERRORS = (ModelError, ConformanceError, EnvironmentProblem, DiskFull, CheckpointMismatch)
"""What was asked, or where, was wrong; the message says how."""

app = typer.Typer(
    name="pinproof",
    epilog="Exit codes: 0 holds, 1 violated, 2 usage, 3 vacuous or witness missed, 4 unknown or budget spent, "
    "70 internal.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(wanted: bool) -> None:
    """Print the version and leave."""
    if wanted:
        try:
            out.print(metadata.version("pinproof"))
        except metadata.PackageNotFoundError:
            out.print("not installed: run from a checkout")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """Check, prove and run the ownership protocol of a tiered KV cache."""


for verb in (verify, prove, mutants, explore, conform, replay, diff, targets, show, explain, doctor):
    verb.register(app)


def main() -> None:
    """Run the command line; every error ends in an exit code, and only our own mistakes in a traceback."""
    try:
        app()
    except KeyboardInterrupt:
        err.print("interrupted")
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except USER_ERRORS as wrong:
        err.print(f"pinproof: {wrong}", markup=False)
        sys.exit(USAGE)
    except Exception:
        err.print("pinproof: internal error; please report it with what follows", markup=False)
        traceback.print_exc()
        sys.exit(INTERNAL)
