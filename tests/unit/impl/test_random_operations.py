"""Whatever is done to the cache, in whatever order and with whatever failing: every slot has one owner and
every byte is right.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from pinproof.impl import (
    BadArgument,
    BadTokens,
    NotReady,
    OutOfDeviceSlots,
    OutOfHostMemory,
    Receipt,
    Refused,
    StaleReceipt,
    TieredCache,
    UnknownNode,
)

COMPONENTS = [("full",), ("full", "swa"), ("full", "mamba"), ("full", "swa", "mamba")]
POLICIES = ["write_back", "write_through", "write_through_selective"]


class Driver:
    """Picks operations at random among all that a caller can ask for."""

    def __init__(self, cache: TieredCache, seed: int) -> None:
        self.cache = cache
        self.random = random.Random(seed)
        self.prompts = [self.random.choices([1, 2], k=7) for _ in range(5)]

    def tokens(self) -> list[int]:
        """A prefix of one of a few prompts, so that what was dropped is asked for again."""
        words = self.random.choice(self.prompts)[: self.random.randint(1, 7)]
        return [word * 10 + k for word in words for k in range(self.cache.config.page_size)]

    def node(self) -> int:
        return self.random.choice(list(self.cache.nodes))

    def away(self) -> int:
        """A node that is not on the device, if there is one."""
        found = [id_ for id_, node in self.cache.nodes.items() if not node.on_device]
        return self.random.choice(found) if found and self.random.random() < 0.8 else self.node()

    def holder(self, *kinds: str) -> Receipt | int:
        """A live operation, of some kind if there is one, or none that ever was."""
        holders = list(self.cache.holders.values())
        fitting = [holder for holder in holders if holder.kind in kinds]
        return self.random.choice([*(fitting or holders), 10**6])

    def keep(self) -> None:
        """A whole path goes to storage."""
        for node in reversed(self.cache.nodes[self.node()].path()[:-1]):
            self.cache.wait(self.cache.storage_backup(node.id))

    def fetch(self) -> None:
        """What storage has of a prompt comes to the host."""
        receipt = self.cache.prefetch(self.tokens())
        if self.random.random() < 0.7:
            self.cache.wait(receipt)
            self.cache.finish_prefetch(receipt)

    def leave(self) -> None:
        """All requests end and both tiers are swept, the device at least."""
        for holder in list(self.cache.holders.values()):
            if holder.kind == "request":
                self.cache.unlock(holder)
        self.cache.evict("full", 99)
        if self.random.random() < 0.7:
            self.cache.evict_host("full", 99)
            self.fetch()

    def component(self) -> str:
        return self.random.choice(self.cache.config.components)

    def ask(self) -> None:
        cache, pick = self.cache, self.random
        choices: list[tuple[int, Callable[[], object]]] = [
            (6, lambda: cache.insert(self.tokens())),
            (1, lambda: cache.insert(self.tokens(), swa=False, mamba=False)),
            (4, lambda: cache.match(self.tokens())),
            (3, lambda: cache.lock(self.node())),
            (5, lambda: cache.unlock(self.holder("request"))),
            (2, self.leave),
            (1, lambda: cache.release_window(self.holder("request"))),
            (2, lambda: cache.forward(self.holder("request"), wait=pick.random() < 0.3)),
            (2, lambda: cache.backup(self.node())),
            (5, lambda: cache.load_back(self.away())),
            (1, lambda: cache.begin_load_back(self.away())),
            (2, lambda: cache.commit_load_back(self.holder("loading"))),
            (3, lambda: cache.evict(self.component(), pick.randint(0, 6))),
            (2, lambda: cache.evict_host(self.component(), pick.randint(0, 6))),
            (1, lambda: cache.reclaim(pick.randint(0, 2))),
            (5, lambda: cache.prefetch(self.tokens())),
            (3, lambda: cache.finish_prefetch(self.holder("prefetch"))),
            (4, lambda: cache.storage_backup(self.node())),
            (2, lambda: cache.read_layer(self.holder("request"), pick.randrange(2))),
            (2, self.keep),
            (2, self.fetch),
            (12, lambda: cache.step(pick.randrange(1000))),
            (4, cache.poll),
            (2, lambda: cache.abort(self.holder())),
            (2, lambda: cache.fail(pick.choice(KINDS), pick.choice(["failed", "partial"]))),
            (1, cache.reset),
        ]
        pick.choices([c for _, c in choices], [w for w, _ in choices])[0]()

    def drain(self) -> None:
        """Let go of everything; nothing may stay."""
        cache = self.cache
        for _ in range(40):
            for holder in list(cache.holders.values()):
                if not holder.over and holder.kind in ("request", "loading", "prefetch"):
                    cache.abort(holder)
            while cache.step(self.random.randrange(1000)):
                pass
            cache.poll()
            if not cache.holders:
                return


EXPECTED = (
    BadArgument,
    BadTokens,
    OutOfDeviceSlots,
    OutOfHostMemory,
    Refused,
    StaleReceipt,
    UnknownNode,
)
KINDS = ["backup", "load_back", "prefetch", "storage_backup", "device_slots", "host_memory"]


def run(cache: TieredCache, seed: int, operations: int) -> None:
    driver = Driver(cache, seed)
    for _ in range(operations):
        with suppress(*EXPECTED):
            driver.ask()
        assert cache.audit() == []
        if hasattr(cache.recorder, "owners"):
            assert cache.recorder.owners == cache.recorder.truth(cache)
    driver.drain()
    assert cache.audit() == []
    assert cache.holders == {}
    cache.reset()
    for pool in cache.core.pools.all():
        assert pool.slots.available == pool.slots.size


@pytest.mark.parametrize("components", COMPONENTS, ids="+".join)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_leaked_or_overwritten(
    policy: str, components: tuple[str, ...], seed: int, ledger: Any
) -> None:
    cache = TieredCache(
        policy=policy,
        components=components,
        page_size=1 + seed % 2,
        window=3,
        device_pages=9,
        host_pages=8,
        mamba_device_pages=3,
        mamba_host_pages=3,
        storage=True,
        recorder=ledger if seed else None,
        verify=True,
        group=seed % 2,
        queued_compute=seed == 1,
        happens_before=True,
        poison=True,
    )
    run(cache, seed, 80)
    if seed:
        assert ledger.owners == {}


def test_a_request_is_told_when_its_bytes_have_not_arrived() -> None:
    cache = TieredCache()
    node = cache.insert([1, 2, 3])
    cache.evict("full", 3)
    cache.load_back(node)
    receipt = cache.lock(node)
    with pytest.raises(NotReady, match="holder"):
        cache.forward(receipt)
    cache.forward(receipt, wait=True)
