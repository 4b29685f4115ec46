"""The pytest plugin, from another project's point of view."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

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


HOSTILE = '<failure a="b">&amp; ]]>\\r\\n\\x00\\x1b[31m☃'


def test_junit_by_pytests_own_writer(tmp_path: Path) -> None:
    """What does not conform is a failed test case; whatever a target says is text in it, and ours is short."""
    worker = tmp_path / 'a <b> & "c".py'
    worker.write_text(f"import sys\nsys.stderr.write({HOSTILE!r} + 'y' * 1_000_000)\nprint({HOSTILE!r})\n")
    command = shlex.join([sys.executable, str(worker)])
    settings = ["--pinproof-policy", "write_back", "--pinproof-components", "full", "--pinproof-steps", "60"]
    report = tmp_path / "junit.xml"
    done = run(tmp_path, "--pinproof-target", f"worker:{command}", *settings, "--junitxml", str(report), "-k", "worker")
    assert done.returncode == 1, done.stdout
    suite = ElementTree.parse(report).getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "1", "0")
    (case,) = suite
    assert case.get("name", "").startswith("pinproof[worker:")
    assert "a <b> &" in case.get("name", "")
    (failure,) = case.findall("failure")
    told = f"{failure.get('message')} {failure.text}"
    assert "does not conform" in told
    assert '<failure a="b">&amp; ]]>' in told
    assert report.stat().st_size < 20_000


def test_junit_of_what_conforms(tmp_path: Path) -> None:
    settings = ["--pinproof-policy", "write_back", "--pinproof-components", "full", "--pinproof-steps", "60"]
    report = tmp_path / "junit.xml"
    done = run(tmp_path, "--pinproof-target", "reference", *settings, "--junitxml", str(report), "-k", "reference")
    assert done.returncode == 0, done.stdout
    (case,) = ElementTree.parse(report).getroot()[0]
    assert [child.tag for child in case] == ["properties"]
    assert case[0][0].get("name") == "steps_per_second"
