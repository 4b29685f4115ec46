"""Equal tokens under different namespaces share nothing, on any tier."""

from __future__ import annotations

import pytest
from pinproof.impl import BadArgument, CacheConfig, NothingToDo, Refused, StaleReceipt, TieredCache
from pinproof.impl.stores import MemoryStore, layouts

TOKENS = [1, 2, 3, 4]
POLICIES = pytest.mark.parametrize("policy", ["write_back", "write_through"])
SETS = pytest.mark.parametrize("components", [("full",), ("full", "swa", "mamba")], ids="+".join)


def drained(cache: TieredCache) -> None:
    while cache.holders:
        cache.wait(max(cache.holders))


@POLICIES
@SETS
def test_they_meet_on_no_tier(policy: str, components: tuple[str, ...]) -> None:
    config = CacheConfig(policy=policy, components=components, storage=True, verify=True)
    store = MemoryStore(layouts(config))
    cache = TieredCache(config, store=store)
    ours, theirs = cache.insert(TOKENS, namespace="us"), cache.insert(TOKENS)
    assert ours != theirs
    assert cache.match(TOKENS, namespace="them").tokens == 0
    assert cache.match(TOKENS, namespace="us").node == ours
    assert cache.match(TOKENS).node == theirs
    assert cache.match([*TOKENS, 5], namespace=b"us").tokens == 4
    reader = cache.lock(ours, namespace="us")
    cache.forward(reader)
    first, second = (cache.core.hashes(cache.nodes[n]) for n in (ours, theirs))
    assert not {first[k : k + 16] for k in range(0, 64, 16)} & {second[k : k + 16] for k in range(0, 64, 16)}
    pages = [cache.read_page("device", "full", cache.nodes[n].device[0].slots[0]).tolist() for n in (ours, theirs)]  # type: ignore[index]
    assert pages[0] != pages[1]
    cache.unlock(reader)
    for node in cache.nodes[ours].path()[:-1] if policy == "write_back" else ():
        cache.backup(node.id)
    drained(cache)
    # Only ours is in storage now, and only for us.
    other = TieredCache(config, store=store)
    if policy == "write_back":
        with pytest.raises(NothingToDo, match="has none"):
            other.prefetch(TOKENS)
    with pytest.raises(NothingToDo, match="has none"):
        other.prefetch(TOKENS, namespace="them")
    receipt = other.prefetch(TOKENS, namespace="us")
    other.wait(receipt)
    leaf = other.finish_prefetch(receipt)
    assert leaf is not None
    assert other.match(TOKENS).tokens == 0
    assert other.match(TOKENS, namespace="us").tokens == 4
    assert cache.audit() == other.audit() == []
    other.wait(other.load_back(leaf))
    other.forward(other.lock(leaf, namespace="us"))
    cache.reset()
    assert cache.match(TOKENS, namespace="us").tokens == 0
    assert cache.audit() == []


def test_a_request_goes_on_in_its_own_namespace() -> None:
    cache = TieredCache()
    node = cache.insert([1, 2], namespace="us")
    reader = cache.lock(node)
    longer = cache.insert([1, 2, 3], after=reader, namespace="us")
    assert cache.nodes[longer].parent is cache.nodes[node]
    for wrong in ("", "them"):
        with pytest.raises(StaleReceipt, match="of another namespace"):
            cache.insert([1, 2, 3], after=reader, namespace=wrong)
    with pytest.raises(Refused, match="of another namespace"):
        cache.lock(node, namespace="them")
    with pytest.raises(Refused, match="of another namespace"):
        cache.lock(node, namespace="")
    # Who has matched nothing holds the root, which is everybody's.
    nothing = cache.lock(cache.match([7], namespace="them").node)
    first = cache.insert([7, 8], after=nothing, namespace="them")
    assert cache.match([7, 8], namespace="them").node == first
    assert cache.match([7, 8]).tokens == 0
    assert cache.audit() == []


def test_events_say_whose_they_are() -> None:
    told: list[dict[str, object]] = []
    cache = TieredCache(recorder=told.append)
    cache.insert(TOKENS)
    cache.insert(TOKENS, namespace="us")
    cache.match(TOKENS[:2], namespace="us")
    cache.lock(cache.match(TOKENS, namespace="us").node)
    cache.lock(cache.match(TOKENS).node)
    names = [(event["action"], event.get("namespace")) for event in told]
    own = names[1][1]
    assert own
    assert names == [("insert_leaf", None), ("insert_leaf", own), ("split", own), ("lock", own), ("lock", None)]
    assert told[-1]["post"]["0"]["lock_ref"] == {"full": 2}  # type: ignore[index]


def test_namespaces_that_hold_nothing_are_forgotten() -> None:
    cache = TieredCache()
    kept = cache.insert(TOKENS, namespace="kept")
    held = cache.lock(0, namespace="held")
    for number in range(1000):
        cache.match(TOKENS, namespace=f"visitor {number}")
    assert len(cache.core.roots) < 100
    assert cache.match(TOKENS, namespace="kept").node == kept
    assert held.node in cache.core.roots.values()
    assert cache.audit() == []
    with pytest.raises(BadArgument, match="neither text nor bytes"):
        cache.match(TOKENS, namespace=5)  # type: ignore[arg-type]
