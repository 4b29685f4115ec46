"""The shadow inside each release: what it forwards, in SGLang's own cache, with faults, and what it keeps to itself."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pinproof.conformance.sglang.environment import RELEASES

from .conftest import OURS, release

HERE = Path(__file__).parent
CORES = [("0.5.18", "python"), ("0.5.20", "python"), ("0.5.20", "rust"), ("0.5.23", "python"), ("0.5.23", "rust")]
Inside = Callable[..., Any]

QUESTIONS = frozenset(
    [
        "all_mamba_values_flatten",
        "all_values_flatten",
        "backfill_missing_hash_values",
        "buffer_backup_pool_keys",
        "build_backup_kv_action",
        "build_external_linker_offload_transfers",
        "build_hicache_transfers",
        "collect_full_device_indices",
        "collect_path_info",
        "component_evictable_size",
        "component_has_host_value_only",
        "component_protected_size",
        "dfs_weight_order",
        "evictable_size",
        "full_evictable_size",
        "full_protected_size",
        "get_component_device_value",
        "get_hash_values",
        "get_last_hash_value",
        "get_prefix_hash_values",
        "has_ongoing_insert",
        "is_backuped",
        "is_full_device_evicted",
        "is_root",
        "is_write_through_compatible",
        "mamba_evictable_size",
        "mamba_protected_size",
        "match_full_device_prefix",
        "node_by_id",
        "prefetch_anchor_info",
        "pretty_print",
        "protected_size",
        "root_node_handle",
        "rotation_base_of",
        "rotation_phase_of",
        "sanity_check",
        "snapshot_buffer_backup",
        "supports_fast_match_prefix",
        "swa_evictable_size",
        "swa_protected_size",
        "swa_tombstone_ranges",
        "take_events",
        "total_size",
        "validate_buffer_backup",
        "walk_for_kv_canary",
    ]
)
"""Methods that leave ownership as it is, so that they need not be told."""


@pytest.fixture(scope="module")
def inside(importable: str) -> Inside:
    """`inside(version, what, …)`: what `shadow_inside.py` prints in the environment of that release."""
    interfaces: dict[str, Any] = {}

    def run(version: str, *what: str, **settings: str) -> Any:
        if what == ("interface",) and version in interfaces:
            return interfaces[version]
        found = release(version)
        command = [str(found.python), str(HERE / "shadow_inside.py"), str(found.source), *what]
        environ = {**os.environ, "PYTHONPATH": importable, **settings}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout.splitlines()[-1])
        if what == ("interface",):
            interfaces[version] = told
        return told

    return run


@pytest.mark.parametrize("version", RELEASES)
def test_every_member_of_the_interface_is_forwarded_and_known(inside: Inside, version: str) -> None:
    found = inside(version, "interface")
    kinds = found["forwarded"]
    assert {name for name, kind in kinds.items() if kind == "method"} >= set(found["methods"])
    assert {name for name, kind in kinds.items() if kind != "method"} == set(found["attributes"])
    assert set(found["in the class"]) >= {*found["methods"], *found["attributes"]}
    assert found["abstract"] == []
    assert found["wrong"] == [], "arguments or a result did not pass unchanged"
    unknown = set(found["methods"]) - {*found["told"], *found["remembered"]} - QUESTIONS
    assert unknown == set(), "say in telling whether it changes who owns what"


def test_the_interface_grows(inside: Inside) -> None:
    sizes = {version: len(inside(version, "interface")["methods"]) for version in OURS}
    assert sizes == {"0.5.18": 59, "0.5.23": 86}


@pytest.mark.parametrize(("version", "core"), CORES)
def test_in_sglangs_own_cache(inside: Inside, version: str, core: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace.ndjson"
    found = inside(version, "cache", core, PINPROOF_SHADOW="raise", PINPROOF_SHADOW_TRACE=str(trace))
    assert f"shadow-{core}" in found["names"]
    assert found["core"] == {"python": "UnifiedTreeCore", "rust": "RustUnifiedTreeCore"}[core]
    assert found["counts"]["locks"] == 0
    assert found["counts"]["calls"] > found["counts"]["told"] > 200
    assert found["found"] == [
        ["dec_lock_ref", "accounting.dead-nodes-are-held-by-nobody"],
        ["dec_lock_ref", "release.device-locks-belong-to-somebody"],
    ]
    records = [json.loads(line) for line in trace.read_text().splitlines()]
    assert records[0]["components"] == ["full"]
    assert {"match_prefix", "begin_insert", "inc_lock_ref", "evict_device_leaf", "reset"} <= {
        record.get("call") for record in records
    }


@pytest.mark.parametrize("core", ["python", "rust"])
def test_no_token_and_no_text_gets_into_a_trace(inside: Inside, core: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace.ndjson"
    inside("0.5.23", "cache", core, PINPROOF_SHADOW="raise", PINPROOF_SHADOW_TRACE=str(trace))
    secrets = [1234567891, 1987654321, 1122334455, 1357924680]
    recorded = trace.read_bytes()
    assert len(recorded) > 20_000
    found = [form for form in forms(secrets, "a user's own words") if form in recorded]
    assert found == []
    assert b'"tokens":7' in recorded
    # The same search finds them where they are.
    there = recorded + json.dumps([1, *secrets]).encode()
    assert any(form in there for form in forms(secrets, "nothing"))


def forms(tokens: list[int], text: str) -> list[bytes]:
    """Ways in which token ids or a text could be written down."""
    found = [text.encode(), text.encode("utf-16-le"), json.dumps(text)[1:-1].encode(), text.encode().hex().encode()]
    for token in tokens:
        found += [str(token).encode(), f"{token:x}".encode(), f"{token:X}".encode(), f"{token:o}".encode()]
        for size in (4, 8):
            found += [token.to_bytes(size, "little"), token.to_bytes(size, "big")]
            found += [token.to_bytes(size, order).hex().encode() for order in ("little", "big")]
    whole = array("q", tokens)
    for raw in (whole.tobytes(), json.dumps(tokens).encode(), str(tokens).encode(), text.encode()):
        for name in ("sha256", "md5", "sha1", "blake2b"):
            found.append(hashlib.new(name, raw).hexdigest()[:24].encode())
    return found


FAULTS = {
    "double_free": ("demote", "accounting.arrived-bytes-have-slots", "freed already"),
    "freed_under_a_load_back": ("drive_host_eviction", "safety.load-back-source-stays", "the load-back of node"),
    "unlocked_twice": ("dec_lock_ref", "release.device-locks-belong-to-somebody", "nobody has locked it"),
    "acknowledged_twice": ("finish_load_back", "release.transfers-belong-to-their-operation", "none is in flight"),
    "host_slots_given_twice": ("insert_host", "accounting.arrived-bytes-have-slots", "has had it since call"),
}


@pytest.mark.parametrize("core", ["python", "rust"])
def test_a_fault_is_seen_at_the_faulty_call(inside: Inside, core: str, tmp_path: Path) -> None:
    told = inside("0.5.23", "faults", core, str(tmp_path))
    assert len(told) == 3 * len(FAULTS)
    for fault, (call, broken, words) in FAULTS.items():
        raised, counted, observed = (told[f"{fault} {mode}"] for mode in ("raise", "count", "observe"))
        assert not raised["broken"]
        assert f" {call}: " in raised["stopped"]
        assert f"[{broken}]" in raised["stopped"]
        assert words in raised["stopped"]
        assert raised["log"] == counted["log"] == []
        for seen in (raised, counted, observed):
            assert seen["counts"] == [[broken, call, 1]]
        assert f'{{property="{broken}",call="{call}"}} 1' in counted["metrics"]
        (line,) = observed["log"]
        assert words in line
        # They go on, unless the core itself does not.
        for seen in (counted, observed):
            assert seen["stopped"] is None or "lock_ref=0" in seen["stopped"]
