"""Host to device: overlapping load-backs, pins, failures, room made on the way."""

from __future__ import annotations

import pytest
from pinproof.impl import NothingToDo, NotReady, OutOfDeviceSlots, TieredCache


def finish(cache: TieredCache) -> list[tuple[int, str]]:
    """Let every transfer end and take notice."""
    while cache.step():
        pass
    return cache.poll()


def evicted_chain(cache: TieredCache, *ends: int) -> list[int]:
    """Nodes that end at these pages of one prompt, all on the host only."""
    nodes = [cache.insert(range(end)) for end in ends]
    finish(cache)
    cache.evict("full", max(ends))
    assert all(not cache.nodes[node].on_device for node in nodes)
    return nodes


def test_pins_are_on_full_sources_from_commit_to_ack() -> None:
    cache = TieredCache()
    upper, leaf = evicted_chain(cache, 2, 4)
    receipt = cache.begin_load_back(leaf)
    assert cache.observe(leaf) == {"full": "H", "host_lock_ref": {"full": 1}}
    cache.commit_load_back(receipt)
    assert cache.observe(upper) == {"full": "dH", "lock_ref": {"full": 1}, "load_back_pending_id": receipt.id}
    assert cache.reclaim(9) == 0
    finish(cache)
    assert cache.full_host_duplicates == [upper, leaf]
    assert cache.reclaim(9) == 4


def test_write_through_pins_nothing_and_tracks_what_came_from_storage() -> None:
    cache = TieredCache(policy="write_through")
    upper, leaf = evicted_chain(cache, 2, 4)
    cache.load_back(leaf)
    assert cache.observe(upper) == {"full": "dH", "lock_ref": {"full": 1}}
    finish(cache)
    assert cache.full_host_duplicates == [upper, leaf]


def test_a_window_under_a_foreign_pin_is_loaded() -> None:
    """SGLang #35931 refused it, earlier releases crashed on it; it is safe: SWA has its own host lock."""
    cache = TieredCache(components=("full", "swa"), window=2)
    one, two, three = evicted_chain(cache, 2, 4, 6)
    first = cache.load_back(three)
    assert (cache.observe(two) or {}) == {
        "full": "dH",
        "swa": "H",
        "lock_ref": {"full": 1},
        "load_back_pending_id": first.id,
    }
    second = cache.load_back(two)
    assert cache.observe(two) == {
        "full": "dH",
        "swa": "dH",
        "lock_ref": {"full": 2, "swa": 1},
        "host_lock_ref": {"swa": 1},
        "load_back_pending_id": first.id,
    }
    assert finish(cache) == [(first.id, "acked"), (second.id, "acked")]
    assert cache.observe(two) == {"full": "DH", "swa": "DH", "duplicate": True}
    assert (cache.observe(one) or {})["swa"] == "H"
    assert cache.audit() == []


def test_a_state_under_a_foreign_pin_is_loaded() -> None:
    """SGLang #34975: one anchor's FULL source, another one's state (SGLang #36317)."""
    cache = TieredCache(components=("full", "mamba"))
    upper, leaf = evicted_chain(cache, 2, 4)
    first, second = cache.load_back(leaf), cache.load_back(upper)
    assert cache.observe(upper) == {
        "full": "dH",
        "mamba": "dH",
        "lock_ref": {"full": 2, "mamba": 1},
        "host_lock_ref": {"mamba": 1},
        "load_back_pending_id": first.id,
    }
    assert finish(cache) == [(first.id, "acked"), (second.id, "acked")]
    assert cache.audit() == []


def test_room_is_made_without_taking_what_will_be_used() -> None:
    cache = TieredCache(device_pages=4, host_pages=6)
    leaf = cache.insert([1, 2, 3])
    cache.evict("full", 3)
    cache.insert([7, 8, 9, 10])
    receipt = cache.load_back(leaf)
    finish(cache)
    assert receipt.over
    assert cache.observe(leaf) == {"full": "DH", "duplicate": True}
    assert cache.audit() == []


def test_no_room_gives_the_locks_back() -> None:
    cache = TieredCache(device_pages=3)
    (leaf,) = evicted_chain(cache, 2)
    cache.lock(cache.insert([7, 8]))
    with pytest.raises(OutOfDeviceSlots, match="node"):
        cache.load_back(leaf)
    assert cache.observe(leaf) == {"full": "H"}
    assert len(cache.holders) == 1


def test_an_aborted_load_back_gives_the_locks_back() -> None:
    cache = TieredCache()
    (leaf,) = evicted_chain(cache, 2)
    cache.abort(cache.begin_load_back(leaf))
    assert cache.observe(leaf) == {"full": "H"}
    assert cache.holders == {}


def test_nothing_to_load_is_told() -> None:
    cache = TieredCache()
    node = cache.insert([1])
    with pytest.raises(NothingToDo, match="on the device"):
        cache.load_back(node)


def test_what_was_loaded_by_others_in_between_may_be_evicted_for_it() -> None:
    """Only what was on the device at the beginning is locked; need is looked at again after making room."""
    cache = TieredCache(device_pages=4)
    upper, leaf = evicted_chain(cache, 2, 4)
    receipt = cache.begin_load_back(leaf)
    cache.wait(cache.load_back(upper))
    cache.insert([9])
    cache.commit_load_back(receipt)
    cache.wait(receipt)
    assert cache.observe(leaf) == {"full": "DH", "duplicate": True}
    assert cache.audit() == []


@pytest.mark.parametrize("fault", ["failed", "partial"])
@pytest.mark.parametrize("policy", ["write_back", "write_through"])
def test_a_failed_load_back_waits_for_who_relies_on_it(policy: str, fault: str) -> None:
    cache = TieredCache(policy=policy)
    upper, leaf = evicted_chain(cache, 2, 4)
    cache.fail("load_back", fault)  # type: ignore[arg-type]
    receipt = cache.load_back(leaf)
    reader = cache.lock(upper)
    below = cache.insert([0, 1, 2, 3, 9])
    assert finish(cache)[-1] == (receipt.id, "doomed")
    with pytest.raises(NotReady, match="the load of node"):
        cache.forward(reader, wait=True)
    cache.unlock(reader)
    assert (receipt.id, "failed") in finish(cache)
    assert cache.observe(upper) == cache.observe(leaf) == {"full": "H"}
    assert cache.observe(below) == (None if policy == "write_back" else {"full": "H"})
    assert cache.holders == {}
    assert cache.audit() == []


def test_a_load_back_in_flight_follows_a_split() -> None:
    cache = TieredCache()
    (leaf,) = evicted_chain(cache, 4)
    receipt = cache.load_back(leaf)
    cache.step(3)
    prefix = cache.match(range(2)).node
    assert (cache.observe(prefix) or {})["load_back_pending_id"] == receipt.id
    finish(cache)
    assert cache.full_host_duplicates == [leaf, prefix]
    assert cache.audit() == []


@pytest.mark.parametrize("policy", ["write_back", "write_through"])
def test_a_failed_load_back_is_not_cleared_away_under_what_hangs_below(policy: str) -> None:
    cache = TieredCache(policy=policy)
    (upper,) = evicted_chain(cache, 2)
    cache.fail("load_back")
    receipt = cache.load_back(upper)
    cache.insert([0, 1, 9])
    assert [what for id_, what in finish(cache) if id_ == receipt.id] == ["doomed", "failed"]
    assert cache.audit() == []
    assert cache.observe(upper) == {"full": "H"}
