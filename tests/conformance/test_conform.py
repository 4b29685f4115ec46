"""The cache conforms: driven at random, by single actions, by Hypothesis, by workloads, in and out of process."""

from __future__ import annotations

from pathlib import Path

import pytest
from pinproof.conformance.conform import conform
from pinproof.conformance.diff import diff
from pinproof.conformance.errors import BadWorkload, UnknownTarget
from pinproof.conformance.suites import run_suite
from pinproof.conformance.workload import Mooncake
from pinproof.model.vocabulary import COMPONENT_SETS, POLICIES, Component, Policy

Components = tuple[Component, ...]
sets = pytest.mark.parametrize("components", COMPONENT_SETS, ids="+".join)
policies = pytest.mark.parametrize("policy", POLICIES)


@policies
@sets
def test_the_cache_conforms(policy: Policy, components: Components) -> None:
    result = conform("impl", policy, components, 250, 1)
    assert [str(v) for v in result.violations] == []
    assert result.verdict == "holds"
    assert result.steps >= 250


@policies
@sets
def test_the_cache_can_be_steered(policy: Policy, components: Components) -> None:
    result = conform("impl", policy, components, 120, 2, single_actions=True)
    assert [str(v) for v in result.violations] == []


@policies
@sets
def test_the_reference_conforms(policy: Policy, components: Components) -> None:
    assert conform("reference", policy, components, 150, 1).verdict == "holds"


@pytest.mark.parametrize("policy", ["write_back", "write_through"])
@pytest.mark.parametrize("components", [("full",), ("full", "swa", "mamba")], ids="+".join)
def test_hypothesis_finds_nothing(policy: Policy, components: Components) -> None:
    run_suite("impl", policy, components, examples=5, steps=30)


def test_threads_conform() -> None:
    assert conform("impl:threads", "write_back", ("full", "swa"), 150, 1).verdict == "holds"


def test_the_driver_reaches_every_action() -> None:
    """The sometimes beside the always: what never happens is not checked."""
    seen: set[str] = set()
    for seed in range(1, 4):
        seen |= conform("impl", "write_back", ("full", "swa", "mamba"), 400, seed).coverage.keys()
    never = {
        "insert_leaf", "unevict", "attach_aux", "split", "lock", "unlock", "forward", "release_window", "begin_backup",
        "backup_aux", "ack_backup", "fail_backup", "demote", "delete_leaf", "begin_load_back", "commit_load_back",
        "ack_load_back",
        "fail_load_back", "refuse_load_back", "abort_load_back", "reclaim_duplicate", "evict_host_leaf",
        "evict_device_aux", "evict_host_aux", "begin_prefetch", "complete_prefetch", "insert_host", "attach_host_aux",
        "end_prefetch", "begin_storage_backup", "ack_storage_backup", "fail_storage_backup", "reset", "demote refused",
        "reset refused", "reclaim_duplicate refused", "evict_host_leaf refused",
    } - seen  # fmt: skip
    assert never == set()


def test_the_same_seed_gives_the_same_trace(tmp_path: Path) -> None:
    for name in "ab":
        assert conform("impl", "write_back", ("full", "swa"), 60, 9, trace=tmp_path / name).trace is not None
    assert diff(tmp_path / "a", tmp_path / "b").verdict == "holds"


def test_a_target_out_of_process_tells_the_same(tmp_path: Path) -> None:
    conform("impl", "write_through", ("full", "mamba"), 50, 4, trace=tmp_path / "a")
    result = conform("worker:impl", "write_through", ("full", "mamba"), 50, 4, trace=tmp_path / "b")
    assert result.verdict == "holds"
    assert diff(tmp_path / "a", tmp_path / "b").verdict == "holds"


@policies
def test_what_storage_alone_has_comes_back(policy: Policy) -> None:
    result = conform("impl", policy, ("full", "swa", "mamba"), 600, 3, "storage")
    assert ([str(v) for v in result.violations], result.missing) == ([], ())
    assert min(result.coverage[action] for action in ("insert_host", "attach_host_aux", "end_prefetch")) >= 5


@pytest.mark.parametrize("policy", ["write_back", "write_through"])
def test_chat_forces_what_it_must(policy: Policy) -> None:
    result = conform("impl", policy, ("full", "swa"), 900, 3, "chat")
    assert (result.verdict, result.missing) == ("holds", ())
    assert result.coverage["demote"]
    assert result.coverage["ack_load_back"]
    assert policy != "write_back" or result.coverage["reclaim_duplicate"]


def test_a_workload_that_shows_nothing_is_vacuous() -> None:
    for workload in ("chat", "storage"):
        assert conform("impl", "write_back", ("full",), 5, 1, workload).verdict == "vacuous"


MOONCAKE = '{"timestamp": 0, "input_length": 1500, "output_length": 600, "hash_ids": [0, 1, 2]}\n'


def test_a_mooncake_trace_drives_the_cache(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(MOONCAKE * 3 + MOONCAKE.replace("2]", "9, 10]").replace("1500", "2100"))
    result = conform("impl", "write_back", ("full",), 0, 1, str(path))
    assert result.verdict == "holds"
    assert result.coverage["insert_leaf"] >= 4
    assert Mooncake(path, "write_back", ("full",), 1, 0.5).configuration.device_pages == 64


@pytest.mark.parametrize("line", ["nonsense", '{"timestamp": 0}', ""])
def test_a_malformed_workload_is_told(tmp_path: Path, line: str) -> None:
    (tmp_path / "w").write_text(line + "\n")
    with pytest.raises(BadWorkload, match="line 1" if line else "no requests"):
        conform("impl", workload=str(tmp_path / "w"))
    with pytest.raises(BadWorkload, match="nowhere"):
        conform("impl", workload=str(tmp_path / "nowhere"))


@pytest.mark.parametrize("name", ["imp", "sglang:9.9.9", "worker:", "impl:abacus"])
def test_an_unknown_target_is_told(name: str) -> None:
    with pytest.raises(UnknownTarget, match="unknown target"):
        conform(name)
