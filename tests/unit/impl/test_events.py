"""What is recorded is what happened: gapless, and with a ledger of slots that adds up."""

from __future__ import annotations

from typing import Any

import pytest
from pinproof.impl import TieredCache


@pytest.mark.parametrize("policy", ["write_back", "write_through"])
def test_the_ledger_adds_up(policy: str, ledger: Any) -> None:
    cache = TieredCache(
        policy=policy,
        components=("full", "swa", "mamba"),
        recorder=ledger,
        device_pages=8,
        host_pages=12,
        storage=True,
        storage_writes="asked",
        window=2,
    )
    leaf = cache.insert([1, 2, 3, 4])
    cache.match([1, 2])
    for holder in list(cache.holders):
        cache.wait(holder)
    cache.evict("full", 9)
    for node in reversed(cache.nodes[leaf].path()[:-1]):
        cache.wait(cache.storage_backup(node.id))
    cache.evict_host("full", 9)
    receipt = cache.prefetch([1, 2, 3, 4])
    held = [owner for owner in ledger.owners.values() if owner[0] == "holder"]
    assert set(held) == {("holder", receipt.id)}
    cache.wait(receipt)
    fetched = cache.finish_prefetch(receipt)
    assert fetched is not None
    cache.wait(cache.load_back(fetched))
    cache.insert([1, 2, 3, 9, 9, 9, 9])
    cache.insert([5, 6, 7, 8])
    for holder in list(cache.holders):
        cache.wait(holder)
    assert ledger.owners == ledger.truth(cache)
    cache.reset()
    assert ledger.owners == {}


def test_nobody_listening_changes_nothing() -> None:
    def run(recorder: Any) -> list[Any]:
        cache = TieredCache(recorder=recorder, device_pages=6, host_pages=6)
        seen: list[Any] = []
        for n in range(12):
            node = cache.insert([n % 3, n % 5, n % 7])
            receipt = cache.lock(node)
            cache.forward(receipt)
            cache.unlock(receipt)
            seen.append({str(k): cache.observe(k) for k in cache.nodes})
        return seen

    assert run(None) == run([].append)


def test_the_header_says_what_is_traced() -> None:
    cache = TieredCache(components=("full", "swa"), window=8, page_size=4)
    header = cache.header()
    assert header["trace"] == "pinproof/1"
    assert (header["policy"], header["components"], header["page_size"]) == ("write_back", ["full", "swa"], 4)


def test_an_observed_node_is_what_its_event_said() -> None:
    events: list[dict[str, Any]] = []
    cache = TieredCache(recorder=events.append)
    node = cache.insert([1])
    assert events[-1]["action"] == "insert_leaf"
    assert events[-1]["post"] == {"0": cache.observe(0), str(node): cache.observe(node)}
    assert cache.observe(0) == {"full": "DH"}
    assert cache.observe(99) is None
