"""Who goes first, and what goes with him."""

from __future__ import annotations

import pytest
from pinproof.impl import TieredCache
from pinproof.impl.device_room import drop_subtree


@pytest.mark.parametrize(
    ("eviction", "gone"),
    [("lru", [2, 3]), ("fifo", [1, 2]), ("lfu", [2, 3]), ("priority", [3, 2])],
)
def test_the_strategy_says_who_goes_first(eviction: str, gone: list[int]) -> None:
    cache = TieredCache(policy="write_through_selective", threshold=99, eviction=eviction)
    nodes = [cache.insert([n, n]) for n in (10, 20, 30)]
    cache.nodes[nodes[0]].priority = cache.nodes[nodes[1]].priority = 1
    cache.insert([10, 10])
    cache.match([10, 10])
    order = []
    for _ in range(2):
        cache.evict("full", 1)
        order += [n for n in nodes if n not in cache.nodes and n not in order]
    assert order == gone


def test_a_parent_goes_after_its_children() -> None:
    cache = TieredCache(policy="write_through_selective", threshold=99)
    upper, leaf = cache.insert([1]), cache.insert([1, 2])
    cache.evict("full", 1)
    assert upper in cache.nodes
    assert leaf not in cache.nodes
    cache.evict("full", 1)
    assert list(cache.nodes) == [0]


def test_without_host_room_a_leaf_goes_with_what_is_below_it() -> None:
    events: list[dict[str, object]] = []
    cache = TieredCache(host_pages=2, recorder=events.append)
    upper, leaf = cache.insert([1, 2, 3]), cache.insert([1, 2, 3, 4, 5])
    assert cache.evict("full", 2) == 2
    assert cache.observe(leaf) == {"full": "H"}
    assert cache.evict("full", 1) == 3
    assert events[-1]["action"] == "drop_subtree"
    assert events[-1]["post"] == {str(upper): None, str(leaf): None}
    assert cache.audit() == []


def test_what_somebody_is_loading_is_not_dropped_with_its_parent() -> None:
    cache = TieredCache(host_pages=2)
    cache.insert([1, 2, 3])
    leaf = cache.insert([1, 2, 3, 4, 5])
    cache.evict("full", 2)
    receipt = cache.begin_load_back(leaf)
    assert cache.evict("full", 1) == 0
    cache.commit_load_back(receipt)
    cache.wait(receipt)
    assert cache.audit() == []


def test_duplicates_make_room_on_the_host_before_anything_is_lost() -> None:
    cache = TieredCache(host_pages=4)
    first = cache.insert([1, 2])
    cache.evict("full", 2)
    second = cache.insert([3, 4])
    cache.wait(cache.backup(second))
    third = cache.insert([5, 6])
    cache.wait(cache.backup(third))
    assert cache.observe(first) == {"full": "H"}
    assert cache.observe(second) == {"full": "D"}
    assert cache.observe(third) == {"full": "DH", "duplicate": True}


@pytest.mark.parametrize("policy", ["write_back", "write_through"])
@pytest.mark.parametrize("component", ["swa", "mamba"])
def test_auxiliary_copies_go_alone(policy: str, component: str) -> None:
    cache = TieredCache(policy=policy, components=("full", "swa", "mamba"))
    node = cache.insert([1, 2])
    for holder in list(cache.holders):
        cache.wait(holder)
    cache.wait(cache.backup(node)) if policy == "write_back" else None
    pages = 2 if component == "swa" else 1
    assert cache.evict(component, 1) == pages
    assert (cache.observe(node) or {})[component] == "H"
    assert cache.evict_host(component, 1) == pages
    assert component not in (cache.observe(node) or {})
    assert (cache.observe(node) or {})["full"] == "DH"
    assert cache.audit() == []


def test_write_back_saves_an_auxiliary_copy_before_it_goes() -> None:
    cache = TieredCache(components=("full", "mamba"))
    upper = cache.insert([1])
    cache.wait(cache.backup(upper))
    cache.evict_host("mamba", 1)
    cache.lock(cache.insert([1, 2], mamba=False))
    assert cache.evict("mamba", 1) == 1
    assert (cache.observe(upper) or {})["mamba"] == "H"


@pytest.mark.parametrize("component", ["full", "mamba"])
def test_what_is_being_copied_is_waited_for(component: str) -> None:
    cache = TieredCache(components=("full", "mamba"))
    node = cache.insert([1, 2])
    receipt = cache.backup(node)
    cache.step(0)
    assert cache.evict(component, 1) == (2 if component == "full" else 1)
    assert receipt.over
    assert (cache.observe(node) or {})[component] == "H"
    assert cache.audit() == []


def test_what_storage_is_reading_is_not_dropped_with_its_parent() -> None:
    cache = TieredCache(host_pages=2, storage=True, storage_writes="asked")
    upper, leaf = cache.insert([1, 2, 3]), cache.insert([1, 2, 3, 4, 5])
    cache.evict("full", 2)
    receipt = cache.storage_backup(leaf)
    assert drop_subtree(cache.core, cache.nodes[upper]) == 0
    assert {upper, leaf} <= cache.nodes.keys()
    # An eviction waits for it before it drops anything.
    assert cache.evict("full", 1) == 3
    assert receipt.over
    assert cache.core.store is not None
    assert not cache.stats.storage_errors
    assert cache.audit() == []


def test_an_insert_does_not_make_room_of_its_own_path() -> None:
    cache = TieredCache(policy="write_through_selective", threshold=99, device_pages=4)
    own, other = cache.insert([1, 2]), cache.insert([9])
    cache.insert([1, 2, 3, 4])
    assert own in cache.nodes
    assert other not in cache.nodes
    assert cache.audit() == []
