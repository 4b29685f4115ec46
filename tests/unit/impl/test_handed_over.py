"""A request hands over the bytes that it has computed, and reads what it has locked."""

from __future__ import annotations

import pytest
import torch
from pinproof.impl import NotReady, StaleReceipt, TieredCache


def make(policy: str = "write_back") -> TieredCache:
    return TieredCache(
        policy=policy,
        components=("full", "swa", "mamba"),
        page_size=2,
        window=4,
        device_pages=8,
        host_pages=8,
        content=False,
    )


class Computed:
    """Pages whose first word tells the component and the page, and what was asked for."""

    def __init__(self, salt: int = 0) -> None:
        self.asked: list[tuple[str, int, int]] = []
        self.salt = salt

    def __call__(self, component: str, first: int, pages: int) -> torch.Tensor:
        self.asked.append((component, first, pages))
        return torch.stack([torch.full((2, 2), number(component, first + n, self.salt)) for n in range(pages)])


def number(component: str, page: int, salt: int = 0) -> int:
    return 1000 * ("full", "swa", "mamba").index(component) + page + 100 * salt


def firsts(pages: torch.Tensor) -> list[int]:
    return [int(page[0, 0]) for page in pages]


def test_what_was_handed_over_is_what_is_read_after_it_was_on_the_host() -> None:
    cache, computed = make(), Computed()
    node = cache.insert(range(12), content=computed)
    assert computed.asked == [("full", 0, 4), ("full", 4, 2), ("swa", 4, 2), ("mamba", 5, 1)]
    cache.evict("full", 8)
    assert (cache.observe(node) or {})["full"] == "H"
    cache.load_back(cache.match(range(12)).host_node)
    receipt = cache.lock(node)
    with pytest.raises(NotReady):
        cache.gather(receipt, "full")
    cache.forward(receipt, wait=True)
    assert firsts(cache.gather(receipt, "full")) == [number("full", page) for page in range(6)]
    assert firsts(cache.gather(receipt, "swa")) == [number("swa", page) for page in (4, 5)]
    assert firsts(cache.gather(receipt, "mamba")) == [number("mamba", 5)]
    cache.unlock(receipt)
    with pytest.raises(StaleReceipt):
        cache.gather(receipt, "full")


def test_only_what_the_tree_takes_over_is_asked_for() -> None:
    cache = make()
    cache.insert(range(12), content=Computed())
    again, longer = Computed(1), Computed(1)
    cache.insert(range(12), content=again)
    assert again.asked == []
    receipt = cache.lock(cache.match(range(12)).device_node)
    cache.insert(range(16), after=receipt, content=longer)
    assert longer.asked == [("full", 6, 2), ("swa", 6, 2), ("mamba", 7, 1)]
    cache.unlock(receipt)


def test_a_request_that_recomputed_an_evicted_node_hands_over_its_pages() -> None:
    cache = make()
    cache.insert(range(8), content=Computed())
    cache.evict("full", 8)
    own = Computed(1)
    node = cache.insert(range(8), content=own)
    receipt = cache.lock(node)
    assert firsts(cache.gather(receipt, "full")) == [number("full", page, 1) for page in range(4)]
    cache.unlock(receipt)


def test_a_root_has_nothing_to_gather() -> None:
    cache = make()
    receipt = cache.lock(0)
    assert cache.gather(receipt, "full").shape == (0, 2, 2)
    cache.unlock(receipt)
