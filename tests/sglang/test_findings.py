"""Defects of released cores that the driver found, each as its smallest sequence, and the releases that have it.

A release is said to have a defect or not to have it, so that a fix is noticed as well as a return.
"""

from __future__ import annotations

from typing import Any

import pytest
from pinproof.conformance.sglang.environment import RELEASES, has_rust

CORES = [
    (version, core) for version in RELEASES for core in ("python", "rust") if core == "python" or has_rust(version)
]


def told(answer: dict[str, Any]) -> set[str]:
    """The kinds of violations in an answer."""
    return {violation["kind"] for violation in answer.get("violations", ())}


def backed_up(client: Any, components: list[str], **sizes: int) -> int:
    """A node with four tokens that the host alone has, and a storage write that reads its host slots."""
    client.ask("configure", policy="write_back", components=components, page_size=1, window=4, **sizes)
    node: int = client.ask("insert", tokens=[1, 2, 3, 4])["result"]["node"]
    client.ask("evict", component="full", pages=4)
    assert client.ask("storage_backup", node=node)["ok"]
    return node


@pytest.mark.parametrize(("version", "core"), CORES)
def test_a_split_drops_the_full_host_lock(workers: Any, version: str, core: str) -> None:
    """The prefix of a node whose storage write is in flight is reclaimed as a duplicate (SGLang #38480)."""
    client = workers(version, core)
    backed_up(client, ["full"])
    client.ask("insert", tokens=[1, 2])  # splits the node; the prefix is on device again: a duplicate
    reclaimed = client.ask("reclaim", pages=2)
    # 0.5.17 reclaims no duplicates yet; 0.5.22 copies the lock.
    assert told(reclaimed) == (
        {"freed during a copy"} if version in ("0.5.18", "0.5.19", "0.5.20", "0.5.21") else set()
    )


@pytest.mark.parametrize(("version", "core"), CORES)
def test_a_split_drops_the_swa_host_lock(workers: Any, version: str, core: str) -> None:
    """The same for the sliding window's host copy, which host eviction takes."""
    client = workers(version, core)
    backed_up(client, ["full", "swa"])
    client.ask("match", tokens=[1, 2])  # splits the node
    evicted = client.ask("evict_host", component="swa", pages=2)
    assert told(evicted) == ({"freed during a copy"} if version in ("0.5.17", "0.5.18", "0.5.19") else set())


@pytest.mark.parametrize(("version", "core"), CORES)
def test_a_released_window_takes_the_mamba_lock_twice(workers: Any, version: str, core: str) -> None:
    """Giving a window back early also gives back the Mamba lock; the later unlock gives back another holder's."""
    client = workers(version, core)
    client.ask("configure", policy="write_back", components=["full", "swa", "mamba"], page_size=1, window=4)
    node = client.ask("insert", tokens=[1, 2, 3, 4])["result"]["node"]
    client.ask("insert", tokens=[1, 2, 3, 4, 5])
    first, second = (client.ask("lock", node=node)["result"]["holder"] for _ in range(2))
    client.ask("release_window", holder=first)
    client.ask("unlock", holder=first)
    evicted = client.ask("evict", component="mamba", pages=2)
    assert told(evicted) == ({"freed under a lock"} if version in ("0.5.17", "0.5.18", "0.5.19") else set())
    assert client.ask("forward", holder=second)["ok"]
