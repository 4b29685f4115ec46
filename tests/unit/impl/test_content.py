"""Any page can be asked whose bytes it has."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pinproof.impl import TieredCache
from pinproof.impl.content import page_bytes, whose


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 2))
def test_a_page_says_whose_it_is(identity: int, component: int) -> None:
    page = page_bytes(np.array([identity], dtype=np.uint64), component, 3, 2)[0]
    assert whose(page) == (identity, component)
    page[2, 1] += 1
    assert whose(page) is None


def test_the_same_tokens_elsewhere_have_other_bytes() -> None:
    cache = TieredCache(page_size=2)
    cache.insert([1, 2, 1, 2])
    node = cache.insert([3, 4, 1, 2])
    slots = [slot for n in cache.nodes.values() for slot in n.device[0].slots or ()]
    pages = [cache.read_page("device", "full", slot) for slot in slots]
    assert len({page.numpy().tobytes() for page in pages}) == len(pages) == 4
    own = cache.nodes[node].device[0].slots
    assert own is not None
    assert cache.whose_page("device", "full", own[1]) == (node, 1, "full")


def test_a_page_that_nobody_wrote_is_nobodys() -> None:
    cache = TieredCache()
    assert torch.equal(cache.read_page("host", "full", 3), torch.zeros(2, 2, dtype=torch.int64))
    assert cache.whose_page("host", "full", 3) is None
