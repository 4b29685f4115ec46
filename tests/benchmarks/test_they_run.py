"""Each benchmark runs at its smallest size; numbers are nobody's business here."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from pinproof.conformance.sglang.environment import NotInstalled, find

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
ALONE = ["tree", "mooncake", "evict", "load_back", "copies", "events", "shadow"]


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The scripts find their helpers beside them; modules and torch's threads are put back."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    modules, threads = dict(sys.modules), torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    for name in set(sys.modules) - set(modules):
        if getattr(sys.modules[name], "__file__", None) and str(BENCHMARKS) in str(sys.modules[name].__file__):
            del sys.modules[name]


@pytest.mark.parametrize("name", ALONE)
def test_it_runs_without_sglang(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    written = tmp_path / "rows.json"
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--quick", "--json", str(written)])
    runpy.run_path(str(BENCHMARKS / f"{name}.py"), run_name="__main__")
    told = capsys.readouterr().out
    assert name in ("copies", "events") or "not measured" in told
    rows = json.loads(written.read_text())
    assert rows["rows"]
    assert {"command", "date", "machine", "versions"} <= set(rows)


def test_schedules_hold(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["schedules.py", "--policy", "write_back", "--schedules", "3"])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(BENCHMARKS / "schedules.py"), run_name="__main__")
    assert left.value.code == 0
    assert "write_back: 3 schedules, " in capsys.readouterr().out


def test_without_a_trace_it_says_why_it_is_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["mooncake.py"])
    runpy.run_path(str(BENCHMARKS / "mooncake.py"), run_name="__main__")
    assert "skipped: no trace file" in capsys.readouterr().out


def test_a_published_trace_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import _mooncake  # type: ignore[import-not-found]

    trace = tmp_path / "trace.jsonl"
    lines = [
        {"timestamp": 0, "input_length": 900, "output_length": 70, "hash_ids": [0, 1]},
        {"timestamp": 0, "input_length": 30, "output_length": 5, "hash_ids": [0]},
        {"timestamp": 9, "input_length": 1024, "output_length": 1, "hash_ids": [0, 2]},
    ]
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = _mooncake.requests(str(trace), 64)
    assert [(len(prompt), len(whole)) for prompt, whole in found] == [(896, 960), (1024, 1024)]
    assert found[0][0][:512] == found[1][0][:512]
    assert found[0][0][512] != found[1][0][512]
    assert found[0][1][:896] == found[0][0]


@pytest.mark.parametrize("name", ["tree", "load_back"])
def test_the_other_side_finds_the_same(name: str, tmp_path: Path) -> None:
    try:
        find("0.5.23")
    except NotInstalled as problem:
        pytest.skip(str(problem))
    written = tmp_path / "rows.json"
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), "--quick", "--json", str(written)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ})
    rows = json.loads(written.read_text())["rows"]
    assert all(row.get("same answers", True) for row in rows)
    assert all(
        set(row.get("operations a second", row.get("microseconds"))) == {"ours", "python", "rust"} for row in rows
    )


def test_the_shadow_looks_at_the_same_in_any_tree(tmp_path: Path) -> None:
    try:
        find("0.5.23")
    except NotInstalled as problem:
        pytest.skip(str(problem))
    written = tmp_path / "rows.json"
    command = [sys.executable, str(BENCHMARKS / "shadow.py"), "--quick", "--json", str(written)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ})
    rows = json.loads(written.read_text())["rows"]
    assert [(row["core"], row["nodes"]) for row in rows] == [
        ("python", 50), ("python", 200), ("rust", 50), ("rust", 200),
    ]  # fmt: skip
    assert {(row["calls"], row["work"]) for row in rows} == {(23, 58)}
