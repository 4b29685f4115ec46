"""What is there of a request's tokens, and where it could go on from."""

from __future__ import annotations

import pytest
from pinproof.impl import BadTokens, OutOfDeviceSlots, StaleReceipt, TieredCache


def test_a_match_splits_where_it_ends() -> None:
    cache = TieredCache(page_size=2)
    leaf = cache.insert([1, 1, 2, 2, 3, 3])
    found = cache.match([1, 1, 2, 2, 9, 9])
    assert (found.tokens, found.device_tokens, found.host_tokens) == (4, 4, 0)
    assert cache.nodes[leaf].parent is cache.nodes[found.node]
    assert cache.match([1, 1, 2, 2, 3, 3]).node == leaf
    assert cache.match([7, 7]) == (0, 0, 0, 0, 0, 0)
    assert cache.audit() == []


def test_what_is_on_the_host_only_is_told_apart() -> None:
    cache = TieredCache()
    upper = cache.insert([1, 2])
    leaf = cache.insert([1, 2, 3, 4, 5])
    cache.evict("full", 3)
    found = cache.match([1, 2, 3, 4, 5])
    assert (found.node, found.tokens) == (leaf, 5)
    assert (found.device_node, found.device_tokens) == (upper, 2)
    assert (found.host_node, found.host_tokens) == (leaf, 3)


def test_a_window_with_a_hole_cannot_be_gone_on_from() -> None:
    cache = TieredCache(components=("full", "swa"), window=2)
    one = cache.insert([1, 2, 3])
    two = cache.insert([1, 2, 3, 4], swa=False)
    three = cache.insert([1, 2, 3, 4, 5], swa=False)
    assert cache.match([1, 2, 3, 4, 5]).device_node == one
    assert cache.insert([1, 2, 3, 4, 5]) == three
    assert cache.match([1, 2, 3, 4, 5]).device_node == three
    assert cache.observe(two) == {"full": "D", "swa": "D"}


def test_only_the_window_of_a_long_prompt_gets_swa() -> None:
    cache = TieredCache(components=("full", "swa"), window=3, page_size=2)
    leaf = cache.insert([1, 1, 2, 2, 3, 3, 4, 4])
    assert cache.observe(leaf) == {"full": "D", "swa": "D"}
    upper = cache.nodes[leaf].parent
    assert upper is not None
    assert (upper.end, cache.observe(upper.id)) == (2, {"full": "D"})


def test_a_state_belongs_to_its_end() -> None:
    cache = TieredCache(components=("full", "mamba"))
    leaf = cache.insert([1, 2, 3, 4])
    found = cache.match([1, 2, 9])
    assert (found.device_node, found.tokens) == (0, 2)
    assert cache.match([1, 2, 3, 4]).device_node == leaf
    assert cache.insert([1, 2]) == found.node
    assert cache.match([1, 2]).device_node == found.node


def test_an_insert_goes_on_from_the_locked_node() -> None:
    cache = TieredCache()
    node = cache.insert([1, 2])
    receipt = cache.lock(node)
    leaf = cache.insert([1, 2, 3], after=receipt)
    assert cache.nodes[leaf].parent is cache.nodes[node]
    with pytest.raises(StaleReceipt, match="after"):
        cache.insert([1, 3, 3], after=receipt)
    cache.unlock(receipt)
    with pytest.raises(StaleReceipt, match="given back already"):
        cache.insert([1, 2, 4], after=receipt)


def test_an_insert_over_a_host_only_node_makes_it_resident() -> None:
    cache = TieredCache()
    leaf = cache.insert([1, 2, 3, 4])
    cache.evict("full", 4)
    middle = cache.insert([1, 2, 8])
    upper = cache.nodes[middle].parent
    assert upper is not None
    assert cache.observe(upper.id) == {"full": "DH", "duplicate": True}
    assert cache.observe(leaf) == {"full": "H"}
    assert cache.audit() == []


def test_no_tokens_are_no_insert() -> None:
    with pytest.raises(BadTokens, match="there are none"):
        TieredCache().insert([])


@pytest.mark.parametrize("policy", ["write_back", "write_through"])
def test_an_insert_without_room_leaves_nothing(policy: str) -> None:
    cache = TieredCache(policy=policy, device_pages=4, host_pages=4)
    receipt = cache.lock(cache.insert([1, 2, 3]))
    with pytest.raises(OutOfDeviceSlots, match="tokens"):
        cache.insert([1, 2, 3, 4, 5])
    cache.poll()
    assert [h.kind for h in cache.holders.values() if h.kind != "backup"] == ["request"]
    cache.unlock(receipt)
    assert cache.audit() == []
