"""A prefetch that ends at any point leaves nothing behind, and hands over what was read, in whatever order."""

from __future__ import annotations

from random import Random

import pytest
from pinproof.impl import CacheConfig, TieredCache
from pinproof.impl.storage import end_prefetch, insert_host, page_hashes
from pinproof.impl.stores import MemoryStore, layouts, store_key

TOKENS = [1, 2, 3, 4, 5, 6]
BOTH = pytest.mark.parametrize("policy", ["write_back", "write_through"])
SETS = pytest.mark.parametrize("components", [("full",), ("full", "swa", "mamba")], ids="+".join)


def stored(components: tuple[str, ...], policy: str) -> TieredCache:
    """An empty cache whose storage has the tokens, by itself: written at the ack of their backup."""
    config = CacheConfig(storage=True, components=components, policy=policy, window=2)
    store = MemoryStore(layouts(config))
    first = TieredCache(config, store=store)
    members = first.nodes[first.insert(TOKENS)].path()[:-1]
    if policy == "write_back":
        for member in members:
            first.backup(member.id)
    while first.holders:
        first.wait(max(first.holders))
    assert all((first.observe(m.id) or {})["stored"] for m in members)
    return TieredCache(config, store=store)


def empty_handed(cache: TieredCache) -> bool:
    pools = cache.core.pools.host.values()
    return not cache.holders and cache.audit() == [] and all(p.slots.available == p.slots.size for p in pools)


@BOTH
@SETS
def test_an_abort_at_any_micro_step_gives_everything_back(components: tuple[str, ...], policy: str) -> None:
    ends = set()
    for steps in range(64):
        cache = stored(components, policy)
        receipt = cache.prefetch(TOKENS)
        done = sum(cache.step(7 * k) for k in range(steps))
        reading = not receipt.ticket.ended  # type: ignore[union-attr]
        cache.abort(receipt)
        assert (receipt.id in cache.holders) == receipt.filling
        while cache.step(0):
            pass
        cache.poll()
        assert empty_handed(cache)
        assert list(cache.nodes) == [0]
        ends.add("before" if not steps else "during" if reading else "after")
        if done < steps:
            break
    else:
        raise AssertionError("it never ended")
    assert ends == {"before", "during", "after"}


@BOTH
def test_an_abort_after_the_read_and_after_half_of_the_hand_over(policy: str) -> None:
    cache = stored(("full",), policy)
    receipt = cache.prefetch(TOKENS)
    cache.wait(receipt)
    assert not receipt.filling
    own = receipt.reserved[0]
    leaf = insert_host(cache.core, cache.core.root, receipt.key[: 2 * cache.core.stride], receipt, own[:2])
    receipt.reserved[0] = own[2:]
    cache.abort(receipt)
    assert cache.holders == {}
    assert cache.audit() == []
    assert cache.core.pools.host[0].slots.available == 62
    assert cache.match(TOKENS).tokens == 2
    assert cache.observe(leaf.id) == {"full": "H"}
    again = cache.prefetch(TOKENS)
    cache.wait(again)
    cache.finish_prefetch(again)
    assert cache.match(TOKENS).tokens == 6


@BOTH
@SETS
@pytest.mark.parametrize("lost", range(7))
def test_what_is_read_up_to_the_first_missing_page_is_handed_over(
    components: tuple[str, ...], policy: str, lost: int
) -> None:
    cache = stored(components, policy)
    receipt = cache.prefetch(TOKENS)
    names = [store_key(0, h) for h in page_hashes(_hashes(cache))]
    if lost < 6:
        store = cache.core.store
        assert isinstance(store, MemoryStore)
        del store.pages[names[lost]]
    cache.wait(receipt)
    leaf = cache.finish_prefetch(receipt)
    assert (leaf is None) == (lost == 0)
    assert cache.match(TOKENS).tokens == lost
    if leaf is not None:
        # Windows and states belong to the end of what was asked for: they come with all of it or not at all.
        assert (cache.observe(leaf) or {}) == dict.fromkeys(components if lost == 6 else ("full",), "H")
    assert cache.holders == {}
    assert cache.audit() == []
    assert cache.evict_host("full", 6) == lost
    assert empty_handed(cache)


def _hashes(cache: TieredCache) -> bytes:
    from pinproof.impl.content import chain

    return chain(cache.core.last_hash(cache.core.root), cache.key(TOKENS), cache.core.stride)


@BOTH
@SETS
def test_the_order_of_the_copies_decides_nothing(components: tuple[str, ...], policy: str) -> None:
    seen = set()
    for seed in range(12):
        rng = Random(seed)
        cache = stored(components, policy)
        receipts = [cache.prefetch(TOKENS), cache.prefetch(TOKENS[:4])]
        while cache.step(rng.randrange(99)):
            pass
        cache.poll()
        for receipt in receipts:
            cache.finish_prefetch(receipt)
        seen.add(repr([(n, node.key, cache.observe(n)) for n, node in cache.nodes.items()]))
        assert cache.holders == {}
        assert cache.audit() == []
    assert len(seen) == 1


def test_a_reservation_that_is_being_filled_cannot_be_ended() -> None:
    cache = stored(("full",), "write_back")
    receipt = cache.prefetch(TOKENS)
    with pytest.raises(AssertionError, match="not freed while it is being filled"):
        end_prefetch(cache.core, receipt)
