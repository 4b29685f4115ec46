"""Scripts that run in the environment of a release."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from pinproof.conformance.sglang.run import run

from .conftest import release

SCRIPT = """
import importlib.util, json, sys
from pinproof.conformance import shadow
from sglang.srt.mem_cache.radix_cache import RadixKey
there = [name for name in ("msgspec", "z3", "hypothesis", "typer") if importlib.util.find_spec(name)]
open(sys.argv[1], "w").write(json.dumps([__name__, sys.argv[2:], RadixKey.__name__, shadow.register(), there]))
sys.exit(7)
"""


def test_a_script_runs_in_the_environment_and_sees_nothing_of_ours(tmp_path: Path) -> None:
    release("0.5.23")
    script, told = tmp_path / "script.py", tmp_path / "told.json"
    script.write_text(SCRIPT)
    assert run("0.5.23", str(script), [str(told), "a", "--b"]) == 7
    # msgspec is SGLang's own; of what is installed beside pinproof nothing is there.
    assert json.loads(told.read_text()) == [
        "__main__", ["a", "--b"], "RadixKey", ["shadow-python", "shadow-rust"], ["msgspec"],
    ]  # fmt: skip


def test_a_release_that_is_not_there_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pinproof.conformance.sglang.run", "0.5.1", str(tmp_path / "script.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "'0.5.1' is not a release this target knows" in done.stderr
