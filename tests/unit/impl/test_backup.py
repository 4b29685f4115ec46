"""Device to host: what is published, what is held, and what a failure leaves."""

from __future__ import annotations

import pytest
from pinproof.impl import Busy, NothingToDo, OutOfHostMemory, TieredCache


def finish(cache: TieredCache) -> list[tuple[int, str]]:
    """Let every transfer end and take notice."""
    while cache.step():
        pass
    return cache.poll()


def test_write_back_holds_the_destination() -> None:
    cache = TieredCache()
    node = cache.insert([1, 2])
    receipt = cache.backup(node)
    assert cache.observe(node) == {"full": "Dh", "host_lock_ref": {"full": 1}}
    with pytest.raises(Busy, match="it ends at its ack"):
        cache.abort(receipt)
    assert finish(cache) == [(receipt.id, "acked")]
    assert cache.observe(node) == {"full": "DH", "duplicate": True}
    with pytest.raises(NothingToDo, match="on the host already"):
        cache.backup(node)


def test_write_through_holds_the_source_and_backs_up_the_chain() -> None:
    cache = TieredCache(policy="write_through_selective", threshold=3)
    upper, leaf = cache.insert([1]), cache.insert([1, 2])
    assert cache.observe(leaf) == {"full": "D"}
    cache.insert([1, 2])
    assert cache.observe(upper) == {"full": "Dh", "lock_ref": {"full": 1}, "write_through_pending_id": 1}
    cache.insert([1, 2])
    finish(cache)
    assert cache.observe(upper) == cache.observe(leaf) == {"full": "DH", "duplicate": True}


def test_a_backup_in_flight_follows_a_split() -> None:
    cache = TieredCache(policy="write_through", components=("full", "swa"), window=9)
    leaf = cache.insert([1, 2, 3, 4])
    cache.step(5)
    prefix = cache.match([1, 2]).node
    both = {"full": 1, "swa": 1}
    assert cache.observe(prefix) == {
        "full": "Dh",
        "swa": "Dh",
        "lock_ref": both,
        "host_lock_ref": {"swa": 1},
        "write_through_pending_id": 1,
    }
    finish(cache)
    assert cache.observe(prefix) == cache.observe(leaf) == {"full": "DH", "swa": "DH", "duplicate": True}
    assert cache.audit() == []


@pytest.mark.parametrize("fault", ["failed", "partial"])
@pytest.mark.parametrize("policy", ["write_back", "write_through"])
def test_a_failed_backup_loses_nothing(policy: str, fault: str) -> None:
    cache = TieredCache(policy=policy, components=("full", "mamba"))
    cache.fail("backup", fault)  # type: ignore[arg-type]
    node = cache.insert([1, 2])
    receipt = cache.backup(node) if policy == "write_back" else next(iter(cache.holders.values()))
    assert finish(cache) == [(receipt.id, "failed")]
    assert cache.observe(node) == {"full": "D", "mamba": "D"}
    assert cache.audit() == []
    assert cache.core.pools.host[0].slots.available == 64


def test_an_eviction_whose_backup_fails_keeps_the_only_copy() -> None:
    cache = TieredCache()
    node = cache.insert([1, 2])
    cache.fail("backup")
    assert cache.evict("full", 2) == 0
    assert cache.observe(node) == {"full": "D"}
    assert cache.evict("full", 2) == 2
    assert cache.observe(node) == {"full": "H"}


def test_a_failed_parent_takes_its_children_with_it() -> None:
    cache = TieredCache(policy="write_through")
    cache.fail("backup")
    upper = cache.insert([1, 2])
    leaf = cache.insert([1, 2, 3])
    assert finish(cache) == [(1, "doomed"), (2, "failed"), (1, "failed")]
    assert cache.observe(upper) == cache.observe(leaf) == {"full": "D"}
    assert cache.audit() == []


def test_a_failed_backup_waits_for_what_hangs_below_it_and_is_in_use() -> None:
    cache = TieredCache(policy="write_through", storage=True, storage_writes="asked")
    leaf = cache.insert([1, 2, 3])
    finish(cache)
    cache.wait(cache.storage_backup(leaf))
    cache.evict("full", 3)
    cache.evict_host("full", 3)
    cache.fail("backup")
    upper = cache.insert([1])
    (failing,) = cache.holders
    fetched = cache.prefetch([1, 2, 3])
    cache.wait(fetched)
    below = cache.finish_prefetch(fetched)
    assert below is not None
    loading = cache.load_back(below)
    reader = cache.lock(below)
    assert finish(cache) == [(failing, "doomed"), (loading.id, "acked")]
    assert (cache.observe(upper) or {})["full"] == "Dh"
    cache.forward(reader)
    cache.unlock(reader)
    assert cache.poll() == [(failing, "failed")]
    assert cache.observe(upper) == {"full": "D"}
    assert below not in cache.nodes
    assert cache.audit() == []


def test_no_host_room_is_told() -> None:
    cache = TieredCache(host_pages=1)
    node = cache.insert([1, 2])
    with pytest.raises(OutOfHostMemory, match="node"):
        cache.backup(node)
    assert cache.holders == {}
    assert cache.evict("full", 1) == 2
    assert list(cache.nodes) == [0]
