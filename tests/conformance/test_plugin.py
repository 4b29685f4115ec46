"""The pytest plugin, from another project's point of view."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TEST = """
def test_ours(pinproof_conform, pinproof_target):
    assert pinproof_target.name == "reference"
    assert pinproof_conform(policy="write_back", components=("full",)).verdict == "holds"
"""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_ours.py").write_text(TEST)
    (folder / "pytest.ini").write_text("[pytest]\n")
    plugin = ["-p", "pinproof.conformance.pytest_plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-v", *plugin, *options]
    # Loaded by name here, whether or not the package is installed with its entry point.
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=alone)


def test_it_adds_a_test_for_each_setting(tmp_path: Path) -> None:
    done = run(tmp_path, "--pinproof-target", "reference", "--pinproof-policy", "write_back", "--pinproof-steps", "60")
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout
    assert "pinproof[reference-write_back-full+swa+mamba]" in done.stdout


def test_a_policy_that_is_none_is_a_usage_error(tmp_path: Path) -> None:
    done = run(tmp_path, "--pinproof-target", "reference", "--pinproof-policy", "often")
    assert done.returncode == 4
    assert "no policy 'often'" in done.stderr
