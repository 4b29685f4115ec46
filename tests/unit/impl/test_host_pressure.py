"""write_through with a host that is smaller than the device: mirrors of what is on the device starve nobody."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from pinproof.impl import CacheConfig, NothingToDo, OutOfHostMemory, TieredCache
from pinproof.impl.stores import MemoryStore, layouts


def drained(cache: TieredCache) -> None:
    while cache.holders:
        cache.wait(max(cache.holders))


def test_a_prefetch_takes_the_place_of_mirrors() -> None:
    """SGLang #33862."""
    config = CacheConfig(policy="write_through", storage=True, device_pages=16, host_pages=4)
    store = MemoryStore(layouts(config))
    first = TieredCache(config, store=store)
    first.insert([1, 2, 3])
    drained(first)
    cache = TieredCache(config, store=store)
    nodes = [cache.insert([10]), cache.insert([10, 11]), cache.insert([20, 21])]
    drained(cache)
    assert [cache.observe(n) for n in nodes] == [{"full": "DH", "duplicate": True, "stored": True}] * 3
    # The host is full of mirrors: what comes now goes without one.
    late = cache.insert([30, 31])
    assert cache.observe(late) == {"full": "D"}
    assert (cache.stats.backups_declined, cache.stats.mirrors_reclaimed) == (1, 0)
    cache.wait(receipt := cache.prefetch([1, 2, 3]))
    leaf = cache.finish_prefetch(receipt)
    assert leaf is not None
    # From the bottom up, the least used first: 11 and then 10, then 20 and 21.
    assert [cache.observe(n)["full"] for n in nodes] == ["D", "D", "D"]  # type: ignore[index]
    assert cache.stats.mirrors_reclaimed == 3
    assert cache.audit() == []
    cache.wait(cache.load_back(leaf))
    assert cache.match([1, 2, 3]).device_tokens == 3


def test_a_mirror_with_a_backed_up_child_stays() -> None:
    cache = TieredCache(policy="write_through", host_pages=4)
    upper, lower = cache.insert([1, 2]), cache.insert([1, 2, 3, 4])
    drained(cache)
    assert cache.reclaim(1) == 2
    assert [cache.observe(n)["full"] for n in (upper, lower)] == ["DH", "D"]  # type: ignore[index]
    assert cache.reclaim(9) == 2
    assert cache.audit() == []


@pytest.mark.parametrize("policy", ["write_through", "write_through_selective"])
def test_admission_goes_on_whatever_the_host_has(policy: str) -> None:
    """Every request gets in, and every prefetch that has a page to read and nobody in its way."""
    rng = Random(5)
    config = CacheConfig(policy=policy, storage=True, device_pages=24, host_pages=6, threshold=1)
    cache = TieredCache(config)
    prompts = [[n, *rng.choices(range(50), k=rng.randint(1, 4))] for n in range(100, 130)]
    refused = prefetched = 0
    for _ in range(400):
        prompt = rng.choice(prompts)
        with suppress(NothingToDo):
            try:
                receipt = cache.prefetch(prompt)
                cache.wait(receipt)
                prefetched += cache.finish_prefetch(receipt) is not None
            except OutOfHostMemory:
                refused += 1
        cache.insert(prompt)
        drained(cache)
    assert refused == 0
    assert prefetched > 20
    assert cache.stats.mirrors_reclaimed
    assert cache.stats.backups_declined
    assert cache.audit() == []


def test_selective_waits_for_as_many_hits_as_it_was_told() -> None:
    for threshold in (1, 2, 3, 5):
        cache = TieredCache(policy="write_through_selective", threshold=threshold)
        for count in range(1, 7):
            node = cache.insert([1, 2, 3])
            drained(cache)
            assert (cache.observe(node)["full"] == "DH") == (count >= threshold)  # type: ignore[index]
        other = cache.insert([1, 2, 3, 9])
        drained(cache)
        # What is new has hits of its own to gather; a prefix that has enough is backed up without it.
        assert (cache.observe(other)["full"] == "DH") == (threshold == 1)  # type: ignore[index]
