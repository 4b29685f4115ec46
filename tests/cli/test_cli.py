"""What the command line promises: verdicts, exit codes, JSON, and messages instead of tracebacks."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import pytest
from pinproof.cli.main import main
from pinproof.cli.report import worst
from pinproof.cli.schemas import SCHEMAS, page
from pinproof.conformance.faults import FAULTS, injected

HERE = Path(__file__).parents[2]


class Run:
    """One call of the program, in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *args: object) -> tuple[int, str, str]:
        self.monkeypatch.setattr(sys, "argv", ["pinproof", *map(str, args)])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = self.capsys.readouterr()
        return int(left.value.code or 0), out, err

    def json(self, *args: object) -> tuple[int, dict]:
        code, out, _ = self(*args, "--json")
        told = json.loads(out)
        jsonschema.validate(told, SCHEMAS[str(args[0])])
        return code, told


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(monkeypatch, capsys)


def test_explore(run: Run) -> None:
    code, told = run.json("explore", "--nodes", 1, "--holders", 1)
    assert (code, told["verdict"]) == (0, "holds")
    assert told["explorations"][0]["complete"]


def test_explore_finds_and_misses_witnesses(run: Run) -> None:
    code, told = run.json("explore", "--nodes", 1, "--holders", 1, "--witness", "load_back_pending(n, h)")
    assert (code, told["verdict"]) == (0, "holds")
    assert told["explorations"][0]["witness"][-1]["action"] == "commit_load_back"
    code, told = run.json(
        "explore", "--nodes", 1, "--holders", 1, "--witness", "reads.full(n, h) and stored(n) and ~live(n)"
    )
    assert (code, told["verdict"]) == (3, "vacuous")


def test_a_budget_that_ends_early_is_no_pass(run: Run) -> None:
    code, told = run.json("explore", "--nodes", 2, "--holders", 1, "--depth", 3)
    assert (code, told["verdict"], told["explorations"][0]["stopped"]) == (4, "unknown", "depth")


def test_explore_a_mutant(run: Run, tmp_path: Path) -> None:
    itf = tmp_path / "found.itf.json"
    code, told = run.json("explore", "--nodes", 1, "--holders", 1, "--mutant", "reset-without-drain", "--itf", itf)
    assert (code, told["verdict"]) == (1, "violated")
    assert json.loads(itf.read_text())["states"]


def test_conform_and_diff(run: Run, tmp_path: Path) -> None:
    trace = tmp_path / "run.ndjson"
    code, told = run.json(
        "conform", "--policy", "write_back", "--components", "full+swa", "--steps", 200, "--seed", 3, "--trace", trace
    )
    assert (code, told["verdict"], told["seed"], told["target"]) == (0, "holds", 3, "impl")
    code, told = run.json("diff", trace)
    assert (code, told["verdict"], told["divergence"]) == (0, "holds", None)
    lines = trace.read_text().splitlines()
    where = next(i for i, line in enumerate(lines) if '"insert_leaf"' in line and '"D"' in line)
    lines[where] = lines[where].replace('"full":"D"', '"full":"DH"')
    altered = tmp_path / "altered.ndjson"
    altered.write_text("\n".join(lines) + "\n")
    code, told = run.json("diff", altered)
    assert (code, told["verdict"]) == (1, "violated")
    assert told["divergence"]["line"] == where + 1
    code, shown, _ = run("diff", altered)
    assert code == 1
    assert "before" in shown
    assert "after" in shown
    assert "\x1b" not in shown


def test_the_chat_workload(run: Run) -> None:
    code, told = run.json(
        "conform", "--workload", "chat", "--policy", "write_back", "--components", "full", "--steps", 700
    )
    assert (code, told["verdict"]) == (0, "holds")
    assert told["runs"][0]["coverage"]["reclaim_duplicate"] > 0
    assert run("conform", "--workload", "chat", "--steps", 0)[0] == 2


def test_a_suite_is_executed_or_says_what_was_not(run: Run, tmp_path: Path) -> None:
    suite = tmp_path / "all.suite"
    code, told = run.json("explore", "--nodes", 1, "--holders", 1, "--emit", suite)
    assert (code, told["verdict"]) == (0, "holds")
    assert told["suite"]["transitions"] > 0
    code, told = run.json("conform", "--suite", suite, "--target", "reference")
    assert (code, told["verdict"]) == (0, "holds")
    assert told["suite"]["executed"] == told["suite"]["planned"] == told["steps"]
    suite.write_text("{}")
    assert run("conform", "--suite", suite)[0] == 2


def test_replay(run: Run) -> None:
    for target in ("model", "impl"):
        code, told = run.json("replay", "window-under-a-pin", "--target", target)
        assert (code, told["verdict"]) == (0, "holds")


def test_replay_draws_both_trees_where_it_goes_wrong(run: Run, tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    grow = '[[step]]\naction = "insert_leaf"\nargs = { parent = "root", leaf = "X" }\n'
    lock = '[[step]]\naction = "lock"\nargs = { node = "X", boundary = "X", holder = "r" }\n'
    drop = '[[step]]\naction = "delete_leaf"\nargs = { node = "X" }\n'
    head = 'name = "broken"\nwords = "w"\nsource = "s"\npolicies = ["write_back"]\ncomponents = ["full"]\n'
    broken.write_text(head + grow + lock + drop)
    code, shown, _ = run("replay", broken)
    assert code == 1
    assert "before                      after" in shown
    assert "1  full D  locks D1" in shown
    assert "\x1b" not in shown


def test_targets(run: Run) -> None:
    code, told = run.json("targets")
    assert code == 0
    assert {row["target"] for row in told["targets"]} >= {"impl", "reference", "sglang:0.5.23"}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["explore", "--nodes", "0"], "nodes must be at least 1"),
        (["explore", "--policy", "write_bak"], "unknown policy 'write_bak'; there is write_back"),
        (["explore", "--mutant", "nothing"], "unknown mutant 'nothing'"),
        (["prove", "--components", "swa"], "unknown component set 'swa'"),
        (["conform", "--target", "nowhere"], "nowhere"),
        (
            ["conform", "--workload", "/nowhere.jsonl", "--policy", "write_back", "--components", "full"],
            "/nowhere.jsonl",
        ),
        (["replay", "nothing"], "nothing"),
        (["diff", "/nowhere.ndjson"], "/nowhere.ndjson"),
        (["mutants", "nothing"], "unknown mutant 'nothing'"),
        (["targets", "install", "vllm"], "not sglang==VERSION"),
        (["nonsense"], "nonsense"),
    ],
)
def test_what_cannot_be_done_is_said_and_exits_2(run: Run, args: list[str], message: str) -> None:
    code, out, err = run(*args)
    assert code == 2, err
    assert message in err.replace("\n", " ")
    assert "Traceback" not in err
    assert out == ""


def test_an_internal_error_exits_70(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pinproof.cli.diff.run_diff", lambda *_, **__: 1 / 0)
    code, _, err = run("diff", "any")
    assert code == 70
    assert "internal error" in err


def test_version_and_help(run: Run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    for verb in SCHEMAS:
        assert verb in out
        code, told, _ = run(verb, "--help")
        assert code == 0
        assert "Example: pinproof" in told, f"{verb} --help shows no example"


def test_one_violation_decides() -> None:
    assert worst(["holds", "vacuous", "violated", "unknown"]) == "violated"
    assert worst(["holds", "vacuous", "unknown"]) == "unknown"
    assert worst(["holds", "vacuous"]) == "vacuous"
    assert worst([]) == "holds"


def test_the_json_reference_is_current(rewrite_golden: bool) -> None:
    file = HERE / "docs" / "reference" / "json.md"
    text = "<!-- Written from cli/schemas.py by: python -m pytest tests/cli --rewrite-golden -->\n\n" + page()
    if rewrite_golden:
        file.write_text(text)
    assert file.read_text() == text


def test_two_targets_side_by_side(run: Run) -> None:
    only = ("--target", "impl", "--policy", "write_back", "--components", "full", "--steps", 60)
    code, told = run.json("conform", *only, "--against", "impl", "--batch", 4)
    assert (code, told["verdict"], told["divergence"]) == (0, "holds", None)
    assert (told["target"], told["against"]) == ("impl", "impl")
    assert told["runs"][0]["compared"]["events"] > 20
    code, shown, _ = run("conform", *only, "--against", "impl")
    assert code == 0
    assert "agree" in shown
    with injected(FAULTS["ack-at-submit"]):
        code, told = run.json("conform", *only, "--against", "worker:impl")
        assert (code, told["verdict"]) == (1, "violated")
        assert set(told["divergence"]) == {"number", "asked", "a", "b", "fields", "recent"}
        code, shown, _ = run("conform", *only, "--against", "worker:impl")
    assert code == 1
    assert "  a  " in shown
    assert "  b  " in shown
    assert "shortest: insert(" in shown
    assert run("conform", *only, "--against", "impl", "--workload", "chat")[0] == 2


def test_batches(run: Run) -> None:
    code, told = run.json("conform", "--policy", "write_back", "--components", "full", "--steps", 60, "--batch", 8)
    assert (code, told["verdict"]) == (0, "holds")
    assert told["runs"][0]["reproduce"].endswith("--steps 60 --batch 8")
    assert run("conform", "--workload", "chat", "--batch", 8)[0] == 2
    assert run("conform", "--batch", 0)[0] == 2
