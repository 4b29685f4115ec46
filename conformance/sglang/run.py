"""Runs a script in a release's environment, on a CPU: ``python -m pinproof.conformance.sglang.run 0.5.23 SCRIPT …``.

The script may ``import sglang.srt.mem_cache…`` as far as the tree cores need it (see `loader.py`), and the parts of
pinproof that are made for a server's environment: `pinproof.conformance.shadow`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .environment import EnvironmentProblem, find

ROOT = Path(__file__).resolve().parents[2]
_OPEN = (
    "import runpy, sys; from pinproof.conformance.sglang import loader; loader.open_release(sys.argv[1]); "
    "del sys.argv[:2]; runpy.run_path(sys.argv[0], run_name='__main__')"
)


def run(version: str, script: str, arguments: Sequence[str] = ()) -> int:
    """Run `script` with `arguments` in the environment of `version`; its exit code.

    Raises:
        EnvironmentProblem: the release is unknown or not installed.
    """
    found = find(version)
    with tempfile.TemporaryDirectory() as folder:
        # The package by itself: what is installed beside it here must not get into that environment.
        (Path(folder) / "pinproof").symlink_to(ROOT)
        command = [str(found.python), "-c", _OPEN, str(found.source), script, *arguments]
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": folder}, check=False)
    return done.returncode


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m pinproof.conformance.sglang.run", description=run.__doc__)
    parser.add_argument("version", help="a release that `pinproof targets install` has installed")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    try:
        sys.exit(run(given.version, given.script, given.arguments))
    except EnvironmentProblem as problem:
        parser.error(str(problem))


if __name__ == "__main__":
    main()
