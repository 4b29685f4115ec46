"""Whoever replays the events knows what each tier holds, block by block, at every moment."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from pinproof.impl import CacheError, TieredCache
from pinproof.impl.content import DIGEST, chain
from pinproof.impl.kv_events import (
    MEDIA,
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    KVEventBatch,
    KVEvents,
    block,
)
from pinproof.impl.namespaces import label, seed
from pinproof.impl.stores.memory import MemoryStore


class Router:
    """Decodes batches and keeps what it was told; its hashes of the tokens are its own."""

    def __init__(self, stride: int) -> None:
        self.holds: dict[str, set[int]] = {medium: set() for medium in MEDIA}
        self.chains: dict[int | None, bytes] = {None: b""}
        self.stride = stride
        self.cleared = 0

    def hear(self, wire: bytes) -> None:
        for event in msgspec.msgpack.decode(wire, type=KVEventBatch).events:
            if isinstance(event, BlockStored):
                assert event.medium is not None
                self.holds[event.medium].update(event.block_hashes)
                self.check(event)
            elif isinstance(event, BlockRemoved):
                assert event.medium is not None
                assert self.holds[event.medium].issuperset(event.block_hashes)
                self.holds[event.medium].difference_update(event.block_hashes)
            else:
                self.cleared += 1
                self.holds = {medium: set() for medium in MEDIA}

    def check(self, event: BlockStored) -> None:
        """The hashes are those of the tokens after the parent."""
        key = b"".join(token.to_bytes(4, "little") for token in event.token_ids)
        hashes = chain(self.chains[event.parent_block_hash], key, self.stride)
        assert [block(hashes, at) for at in range(0, len(hashes), DIGEST)] == event.block_hashes
        for at, name in enumerate(event.block_hashes):
            self.chains[name] = hashes[at * DIGEST : (at + 1) * DIGEST]


def truth(cache: TieredCache, store: MemoryStore | None) -> dict[str, set[int]]:
    """What each tier holds, from the tree, the store, and the bytes that have arrived."""
    found: dict[str, set[int]] = {medium: set() for medium in MEDIA}
    for node in cache.nodes.values():
        hashes = cache.core.hashes(node)
        for medium, seat in (("GPU", node.device[0]), ("CPU", node.host[0])):
            if node.id and seat.slots is not None and seat.pending is None:
                found[medium].update(block(hashes, at) for at in range(0, len(hashes), DIGEST))
    if store is not None:
        found["DISK"] = {block(name[5:], 0) for name in store.pages if name.startswith(b"full:")}
    return found


def ask(cache: TieredCache, pick: random.Random, prompts: list[list[int]]) -> None:
    size = cache.config.page_size
    words = pick.choice(prompts)[: pick.randint(1, 7)]
    tokens = [10 * word + k for word in words for k in range(size)]
    nodes, holders = list(cache.nodes), [*cache.holders, 10**6]
    choices: list[tuple[int, Callable[[], object]]] = [
        (6, lambda: cache.insert(tokens)),
        (3, lambda: cache.match(tokens)),
        (2, lambda: cache.lock(pick.choice(nodes))),
        (5, lambda: cache.abort(pick.choice(holders))),
        (3, lambda: cache.backup(pick.choice(nodes))),
        (5, lambda: cache.load_back(pick.choice(nodes))),
        (4, lambda: cache.evict("full", pick.randint(1, 6))),
        (3, lambda: cache.evict_host("full", pick.randint(1, 6))),
        (4, lambda: cache.prefetch(tokens)),
        (3, lambda: cache.finish_prefetch(pick.choice(holders))),
        (4, lambda: cache.storage_backup(pick.choice(nodes))),
        (2, lambda: cache.fail(pick.choice(["backup", "load_back", "prefetch"]), pick.choice(["failed", "partial"]))),
        (20, lambda: cache.step(pick.randrange(1000))),
        (5, cache.poll),
        (1, cache.reset),
    ]
    pick.choices([c for _, c in choices], [w for w, _ in choices])[0]()


@pytest.mark.parametrize("components", [("full",), ("full", "swa", "mamba")], ids="+".join)
@pytest.mark.parametrize("policy", ["write_back", "write_through"])
@pytest.mark.parametrize("stored", [False, True])
def test_events_replayed_are_what_each_tier_holds(policy: str, components: tuple[str, ...], stored: bool) -> None:
    store = MemoryStore() if stored else None
    heard: list[dict[str, Any]] = []
    cache = TieredCache(
        policy=policy, components=components, page_size=2, window=4, device_pages=9, host_pages=8,
        storage=stored, store=store, recorder=heard.append,
    )  # fmt: skip
    events, router = KVEvents(cache, data_parallel_rank=3), Router(cache.core.stride)
    pick = random.Random(policy)
    prompts = [pick.choices([1, 2], k=7) for _ in range(5)]
    counts = dict.fromkeys(MEDIA, 0)
    for _ in range(800):
        try:
            ask(cache, pick, prompts)
        except CacheError:
            continue
        batch = events.take()
        if batch is not None:
            assert batch.data_parallel_rank == 3
            for event in batch.events:
                counts[getattr(event, "medium", None) or "GPU"] += 1
            router.hear(msgspec.msgpack.encode(batch))
        unacked = any(holder.kind == "storage_backup" for holder in cache.holders.values())
        wanted = truth(cache, store)
        if unacked:
            assert router.holds["DISK"] <= wanted["DISK"]
            wanted["DISK"] = router.holds["DISK"]
        assert router.holds == wanted
    while cache.holders:
        for holder in [holder for holder in cache.holders.values() if holder.kind in ("request", "prefetch")]:
            cache.abort(holder)
        while cache.step(0):
            pass
        cache.poll()
    cache.reset()
    if (batch := events.take()) is not None:
        router.hear(msgspec.msgpack.encode(batch))
    assert router.holds == truth(cache, store)
    assert min(counts["GPU"], counts["CPU"]) > 20
    assert (counts["DISK"] > 5) == stored
    assert (router.cleared > 0) != stored
    assert [event["seq"] for event in heard] == list(range(len(heard)))


def test_the_shape_on_the_wire() -> None:
    cache = TieredCache(page_size=2)
    events = KVEvents(cache)
    assert events.take() is None
    cache.insert([1, 2, 3, 4])
    cache.insert([1, 2, 3, 4, 5, 6])
    batch = events.take()
    assert batch is not None
    first, second = msgspec.msgpack.decode(msgspec.msgpack.encode(batch))[1]
    hashes = chain(b"", cache.key([1, 2, 3, 4, 5, 6]), cache.core.stride)
    a, b, c = (block(hashes, at) for at in range(0, len(hashes), DIGEST))
    assert first == ["BlockStored", [a, b], None, [1, 2, 3, 4], 2, None, "GPU", None, None]
    assert second == ["BlockStored", [c], b, [5, 6], 2, None, "GPU", None, None]
    cache.evict("full", 3)
    batch = events.take()
    assert batch is not None
    told = [(type(event).__name__, getattr(event, "medium", None)) for event in batch.events]
    assert told == [("BlockStored", "CPU"), ("BlockRemoved", "GPU")] * 2
    cache.reset()
    batch = events.take()
    assert batch is not None
    assert batch.events == [AllBlocksCleared()]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(batch))[1] == [["AllBlocksCleared"]]
    assert events.take() is None


def test_equal_tokens_of_two_namespaces_are_told_apart() -> None:
    cache = TieredCache(page_size=2)
    events = KVEvents(cache)
    for namespace in ("", "tenant", b"adapter"):
        cache.insert([1, 2, 3, 4], namespace=namespace)
    batch = events.take()
    assert batch is not None
    told = msgspec.msgpack.decode(msgspec.msgpack.encode(batch))[1]
    assert [event[8] for event in told] == [None, [[label(seed("tenant"))]] * 2, [[label(seed(b"adapter"))]] * 2]
    assert [event[3] for event in told] == [[1, 2, 3, 4]] * 3
    for event, start in zip(told, (b"", seed("tenant"), seed(b"adapter")), strict=True):
        hashes = chain(start, cache.key([1, 2, 3, 4]), cache.core.stride)
        assert event[1] == [block(hashes, at) for at in range(0, len(hashes), DIGEST)]
        assert event[2] is None


def test_without_it_nothing_is_recorded() -> None:
    assert TieredCache().recorder is None
