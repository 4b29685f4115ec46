"""The reference is written from the code, and is what the code says now."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from pinproof.cli.main import app
from pinproof.cli.manual import commands, described, pages
from pinproof.cli.manual_traces import OPERATIONS
from pinproof.conformance.targets.impl import OPERATIONS as IMPL

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = pages(app)
VERBS = dict(commands(app))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_reference_is_up_to_date(name: str, rewrite_golden: bool) -> None:
    file = DOCS / name
    if rewrite_golden:
        file.parent.mkdir(exist_ok=True)
        file.write_text(PAGES[name])
    assert file.read_text() == PAGES[name], "python -m pytest tests/docs/test_reference.py --rewrite-golden"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_an_example(verb: str) -> None:
    words, example = described(VERBS[verb])
    assert words.endswith(".")
    assert example.startswith(f"pinproof {verb}")


def test_every_operation_of_a_target_is_in_the_reference() -> None:
    assert OPERATIONS.keys() == {*IMPL, "step", "act", "configure"}


def test_the_action_and_the_hook_use_verbs_and_options_that_exist() -> None:
    known = PAGES["reference/verbs.md"]
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    scripts = [step.get("run", "") for step in action["runs"]["steps"]] + [hook["entry"] for hook in hooks]
    for script in scripts:
        words = script.replace("\\\n", " ").split()
        for word, following in pairwise(words):
            if word == "pinproof":
                assert f"## {following}\n" in known, following
            if word.startswith("--") and "pip" not in script:
                assert f"`{word}" in known, word
    assert all(hook["language"] == "python" for hook in hooks)
    for step in action["runs"]["steps"]:
        assert "${{" not in step.get("run", ""), "inputs reach a script as variables, so that nobody can write one"
