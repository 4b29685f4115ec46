"""The tier below: what is stored, what comes back, and what is left when it does not."""

from __future__ import annotations

import pytest
from pinproof.impl import BadConfig, NothingToDo, NotReady, OutOfHostMemory, TieredCache

TOKENS = [1, 2, 3, 4, 5, 6]


def stored(
    components: tuple[str, ...] = ("full",), policy: str = "write_back", place: bool | str = True, **choices: int
) -> TieredCache:
    """A cache that has dropped what it has stored."""
    cache = TieredCache(
        storage=place, storage_writes="asked", components=components, policy=policy, window=2, **choices
    )
    leaf = cache.insert(TOKENS)
    for holder in list(cache.holders):
        cache.wait(holder)
    cache.evict("full", 6)
    for node in reversed(cache.nodes[leaf].path()[:-1]):
        cache.wait(cache.storage_backup(node.id))
        assert (cache.observe(node.id) or {})["stored"]
    cache.evict_host("full", 6)
    assert list(cache.nodes) == [0]
    return cache


@pytest.mark.parametrize("policy", ["write_back", "write_through"])
@pytest.mark.parametrize("components", [("full",), ("full", "swa", "mamba")])
def test_what_was_stored_comes_back(components: tuple[str, ...], policy: str, place: bool | str) -> None:
    cache = stored(components, policy, place)
    receipt = cache.prefetch([*TOKENS, 7])
    with pytest.raises(NotReady, match="still reading"):
        cache.finish_prefetch(receipt)
    cache.wait(receipt)
    leaf = cache.finish_prefetch(receipt)
    assert leaf is not None
    assert cache.observe(leaf) == dict.fromkeys(components, "H")
    cache.wait(cache.load_back(leaf))
    assert cache.match(TOKENS).device_tokens == 6
    assert cache.full_host_duplicates[-1:] == [leaf]
    assert cache.audit() == []
    assert not cache.stats.storage_errors
    cache.close()


def test_a_partial_read_gives_what_was_read() -> None:
    cache = stored()
    cache.fail("prefetch", "partial")
    receipt = cache.prefetch(TOKENS)
    cache.wait(receipt)
    cache.finish_prefetch(receipt)
    assert cache.match(TOKENS).tokens == 3
    assert cache.core.pools.host[0].slots.available == 61
    assert cache.audit() == []


def test_a_page_that_storage_lost_in_between_ends_the_read(place: bool | str) -> None:
    cache = TieredCache(storage=place, storage_writes="asked")
    store = cache.core.store
    assert store is not None
    node = cache.insert(TOKENS)
    cache.wait(cache.backup(node))
    cache.wait(cache.storage_backup(node))
    cache.reset()
    receipt = cache.prefetch(TOKENS)
    store.clear()
    cache.wait(receipt)
    assert cache.finish_prefetch(receipt) is None
    assert cache.audit() == []
    assert cache.holders == {}
    cache.close()


def test_what_somebody_inserted_meanwhile_is_not_inserted_again() -> None:
    cache = stored()
    receipt = cache.prefetch(TOKENS)
    cache.insert(TOKENS[:4])
    cache.wait(receipt)
    leaf = cache.finish_prefetch(receipt)
    assert leaf is not None
    assert cache.core.pages(cache.nodes[leaf]) == 2
    assert cache.audit() == []


def test_an_aborted_prefetch_frees_its_reservation_when_the_read_has_ended() -> None:
    cache = stored()
    receipt = cache.prefetch(TOKENS)
    cache.step(0)
    cache.abort(receipt)
    assert cache.core.pools.host[0].slots.available == 58
    assert receipt.id in cache.holders
    cache.step(0)
    cache.poll()
    assert cache.core.pools.host[0].slots.available == 64
    assert cache.holders == {}


def test_a_storage_write_keeps_its_host_copy_through_a_split() -> None:
    """SGLang #38480."""
    cache = TieredCache(storage=True, storage_writes="asked")
    node = cache.insert(TOKENS)
    cache.wait(cache.backup(node))
    receipt = cache.storage_backup(node)
    prefix = cache.match(TOKENS[:2]).node
    assert (cache.observe(prefix) or {})["host_lock_ref"] == {"full": 1}
    assert cache.reclaim(9) == 0
    cache.wait(receipt)
    assert (cache.observe(prefix) or {})["stored"]
    assert cache.reclaim(9) == 6


@pytest.mark.parametrize("fault", ["failed", "partial"])
def test_a_failed_storage_write_does_not_count(fault: str) -> None:
    cache = TieredCache(storage=True, storage_writes="asked")
    node = cache.insert(TOKENS)
    cache.wait(cache.backup(node))
    cache.fail("storage_backup", fault)  # type: ignore[arg-type]
    receipt = cache.storage_backup(node)
    cache.wait(receipt)
    assert cache.observe(node) == {"full": "DH", "duplicate": True}
    assert receipt.over


def test_what_cannot_be_done_is_told() -> None:
    with pytest.raises(BadConfig, match="no storage tier"):
        TieredCache().prefetch([1])
    cache = stored(host_pages=6)
    with pytest.raises(NothingToDo, match="has none of the 1 pages"):
        cache.prefetch([9])
    for pages in (2, 4):
        cache.lock(cache.insert(range(100, 100 + pages)))
        cache.wait(cache.backup(cache.match(range(100, 100 + pages)).node))
    cache.storage_backup(cache.match([100]).node)
    cache.fail("host_memory")
    with pytest.raises((OutOfHostMemory, NothingToDo)):
        cache.prefetch(TOKENS[:1])


def test_the_anchor_of_a_prefetch_stays() -> None:
    cache = stored()
    first = cache.prefetch(TOKENS[:2])
    cache.wait(first)
    anchor = cache.finish_prefetch(first)
    second = cache.prefetch(TOKENS)
    assert cache.evict_host("full", 2) == 0
    cache.wait(second)
    leaf = cache.finish_prefetch(second)
    assert leaf is not None
    assert cache.nodes[leaf].parent is cache.nodes[anchor or 0]
    assert cache.audit() == []
