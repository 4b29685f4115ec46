"""A receipt gives back what it took, whatever has become of the tree."""

from __future__ import annotations

import pytest
from pinproof.impl import Busy, Refused, StaleReceipt, TieredCache, UnknownNode


def test_locks_follow_a_split_and_are_all_given_back() -> None:
    cache = TieredCache(components=("full", "swa", "mamba"), window=9)
    leaf = cache.insert([1, 2, 3, 4])
    one, two = cache.lock(leaf), cache.lock(leaf)
    prefix = cache.match([1, 2]).node
    assert cache.observe(prefix) == {"full": "D", "swa": "D", "lock_ref": {"full": 2, "swa": 2}}
    assert cache.observe(leaf) == {
        "full": "D",
        "swa": "D",
        "mamba": "D",
        "lock_ref": {"full": 2, "swa": 2, "mamba": 2},
    }
    cache.unlock(one)
    cache.unlock(two)
    assert cache.audit() == []
    assert not any("lock_ref" in (cache.observe(n) or {}) for n in cache.nodes)


def test_a_request_locks_no_more_than_its_window() -> None:
    cache = TieredCache(components=("full", "swa"), window=2)
    nodes = [cache.insert(range(n)) for n in (1, 2, 3, 4)]
    receipt = cache.lock(nodes[-1])
    assert [cache.nodes[n].device[1].locks is not None for n in nodes] == [False, False, True, True]
    cache.release_window(receipt)
    assert [bool(cache.nodes[n].device[1].locks) for n in nodes] == [False, False, False, True]
    cache.unlock(receipt)
    assert cache.audit() == []


def test_what_is_locked_stays_and_the_refusal_is_told() -> None:
    events: list[dict[str, object]] = []
    cache = TieredCache(recorder=events.append)
    receipt = cache.lock(cache.insert([1, 2]))
    assert cache.evict("full", 1) == 0
    refused = [e for e in events if e["outcome"] == "refused"]
    assert [(e["action"], e["args"]) for e in refused] == [("delete_leaf", {"node": 1})]
    cache.unlock(receipt)
    assert cache.evict("full", 1) == 2


def test_a_receipt_is_good_once() -> None:
    cache, other = TieredCache(), TieredCache()
    receipt = cache.lock(cache.insert([1]))
    stranger = other.lock(other.insert([1]))
    with pytest.raises(StaleReceipt, match="holder"):
        cache.unlock(stranger)
    cache.unlock(receipt)
    with pytest.raises(StaleReceipt, match="given back already"):
        cache.unlock(receipt)
    with pytest.raises(StaleReceipt, match="is a backup, not a request"):
        cache.unlock(cache.backup(1))


def test_only_a_path_on_the_device_can_be_locked() -> None:
    cache = TieredCache()
    node = cache.insert([1])
    cache.evict("full", 1)
    with pytest.raises(Refused, match="load it back first"):
        cache.lock(node)
    with pytest.raises(UnknownNode, match="'x' is not in the tree"):
        cache.lock("x")  # type: ignore[arg-type]


def test_a_reset_waits_for_everybody() -> None:
    cache = TieredCache()
    node = cache.insert([1, 2])
    receipt = cache.lock(node)
    with pytest.raises(Busy, match="operations \\[1\\] are under way"):
        cache.reset()
    cache.unlock(receipt)
    cache.reset()
    assert list(cache.nodes) == [0]
    assert cache.insert([1, 2]) > node
    assert cache.audit() == []
