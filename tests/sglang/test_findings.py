"""Defects of released cores that the driver found, each as its smallest sequence, and the releases that have it.

A release is said to have a defect or not to have it, so that a fix is noticed as well as a return.
"""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import CORES


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


@pytest.mark.parametrize(("version", "core"), CORES)
def test_a_released_window_takes_the_mamba_lock_of_a_backup(workers: Any, version: str, core: str) -> None:
    """The same with one request alone: the other lock of the state is that of the backup in flight, which reads it."""
    client = workers(version, core)
    client.ask("configure", policy="write_through", components=["full", "swa", "mamba"], page_size=1, window=4)
    node = client.ask("insert", tokens=[1, 2, 3, 4])["result"]["node"]
    client.ask("insert", tokens=[1, 2, 3, 4, 5])
    holder = client.ask("lock", node=node)["result"]["holder"]
    client.ask("release_window", holder=holder)
    client.ask("unlock", holder=holder)
    evicted = client.ask("evict", component="mamba", pages=1)
    assert told(evicted) == ({"freed during a copy"} if version in ("0.5.17", "0.5.18", "0.5.19") else set())


@pytest.mark.parametrize(("version", "core"), CORES)
def test_an_unlock_takes_a_window_that_was_skipped(workers: Any, version: str, core: str) -> None:
    """A lock passed over a node without a window, and the node was split: the prefix is not in its receipt."""
    client = workers(version, core)
    client.ask("configure", policy="write_back", components=["full", "swa"], page_size=1, window=4)
    client.ask("insert", tokens=[1, 2, 3, 4])
    leaf = client.ask("insert", tokens=[1, 2, 3, 4, 5, 6])["result"]["node"]
    client.ask("evict", component="swa", pages=1)
    first = client.ask("lock", node=leaf)["result"]["holder"]
    client.ask("match", tokens=[1, 2])  # splits the node without a window
    prefix = client.ask("insert", tokens=[1, 2])["result"]["node"]  # gives the prefix one
    second = client.ask("lock", node=prefix)["result"]["holder"]
    client.ask("unlock", holder=first)
    evicted = client.ask("evict", component="swa", pages=9)
    assert told(evicted) == ({"freed under a lock"} if version in ("0.5.17", "0.5.18", "0.5.19") else set())
    assert client.ask("forward", holder=second)["ok"]


@pytest.mark.parametrize(("version", "core"), CORES)
def test_a_release_takes_a_window_that_was_skipped(workers: Any, version: str, core: str) -> None:
    """A lock passed over a node without a window, which has one again when the lock's window is given back early."""
    client = workers(version, core)
    client.ask("configure", policy="write_back", components=["full", "swa"], page_size=1, window=4)
    client.ask("insert", tokens=[1, 2])
    middle = client.ask("insert", tokens=[1, 2, 3, 4])["result"]["node"]
    leaf = client.ask("insert", tokens=[1, 2, 3, 4, 5, 6])["result"]["node"]
    client.ask("evict", component="swa", pages=3)
    client.ask("insert", tokens=[1, 2])
    first = client.ask("lock", node=leaf)["result"]["holder"]
    client.ask("insert", tokens=[1, 2, 3, 4])
    second = client.ask("lock", node=middle)["result"]["holder"]
    client.ask("release_window", holder=first)
    evicted = client.ask("evict", component="swa", pages=9)
    assert told(evicted) == ({"freed under a lock"} if version in ("0.5.17", "0.5.18", "0.5.19") else set())
    assert client.ask("forward", holder=second)["ok"]


@pytest.mark.parametrize(("version", "core"), CORES)
def test_a_backup_loses_the_slots_of_a_second_copy(workers: Any, version: str, core: str) -> None:
    """A prefetch gave a node on device its window on the host; the backup copies it again, and its slots are lost."""
    client = workers(version, core)
    client.ask("configure", policy="write_back", components=["full", "swa"], page_size=1, window=4)
    fetched = client.ask("prefetch", tokens=[1, 2, 3, 4, 5, 6])["result"]["holder"]
    client.ask("insert", tokens=[1, 2, 3, 4])
    client.ask("finish_prefetch", holder=fetched)
    evicted = client.ask("evict", component="full", pages=9)
    assert told(evicted) == ({"leak"} if version == "0.5.17" else set())


@pytest.mark.parametrize(("version", "core"), CORES)
@pytest.mark.parametrize("policy", ["write_back", "write_through"])
def test_an_unlock_leaves_a_leaf_out_of_eviction(workers: Any, policy: str, version: str, core: str) -> None:
    """A load-back finds no room and is called off: the node above it is never evicted, though nobody locks it."""
    client, sizes = workers(version, core), {"device_pages": 8, "host_pages": 20, "window": 8}
    client.ask("configure", policy=policy, components=["full", "swa"], page_size=1, **sizes)
    client.ask("insert", tokens=[1, 2, 3, 4])
    lower = client.ask("insert", tokens=[1, 2, 3, 4, 5, 6, 7, 8])["result"]["node"]
    client.ask("poll")
    client.ask("evict", component="full", pages=4)
    other = client.ask("insert", tokens=[9, 9, 9, 9])["result"]["node"]
    client.ask("poll")
    holder = client.ask("lock", node=other)["result"]["holder"]
    assert client.ask("load_back", node=lower)["error"]["type"] == "RefusedNoRoom"
    client.ask("unlock", holder=holder)
    evicted = client.ask("evict", component="full", pages=8)
    old = version in ("0.5.17", "0.5.18", "0.5.19")
    assert told(evicted) == ({"passed over"} if old else set())
    assert evicted["result"]["freed"]["full"] == (4 if old else 8)


@pytest.mark.parametrize(("version", "core"), CORES)
def test_an_insert_backs_a_window_up_under_write_back(workers: Any, version: str, core: str) -> None:
    """No defect: up to 0.5.22 this backup takes a lock of the path, and lets time pass, unlike that of an eviction."""
    client = workers(version, core)
    client.ask("configure", policy="write_back", components=["full", "swa"], page_size=1, window=2)
    client.ask("insert", tokens=[1, 2])
    leaf = client.ask("insert", tokens=[1, 2, 3, 4])["result"]["node"]
    client.ask("evict", component="full", pages=9)
    client.ask("storage_backup", node=leaf)  # locks the leaf's window, so that the upper node's is evicted
    client.ask("evict_host", component="swa", pages=2)
    again = client.ask("insert", tokens=[1, 2])
    begun = [event["action"] for event in again["events"]]
    late = version in ("0.5.20", "0.5.21", "0.5.22")
    assert ("lock_backup" in begun) is late, begun
    assert client.ask("poll")["result"]["backup"] == (1 if late else 0)
