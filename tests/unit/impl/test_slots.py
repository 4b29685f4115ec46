"""A slot that is freed wrongly is noticed there and then, and nothing is freed by the attempt."""

from __future__ import annotations

from array import array

import pytest
from pinproof.impl import SlotError
from pinproof.impl.slots import FEW, SlotPool

SIZES = [3, 3 * FEW]


@pytest.mark.parametrize("count", SIZES)
def test_slots_are_given_out_once(count: int) -> None:
    pool = SlotPool("pool", 2 * count)
    first, second = pool.take(count), pool.take(count)
    assert first is not None
    assert second is not None
    assert set(first).isdisjoint(second)
    assert pool.take(1) is None
    pool.give(first)
    assert pool.available == count
    assert set(pool.take(count) or ()) == set(first)


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("fault", ["free", "foreign", "negative", "twice", "in transfer"])
def test_a_wrong_free_raises_and_frees_nothing(count: int, fault: str) -> None:
    pool = SlotPool("pool", 2 * count)
    slots = pool.take(count)
    assert slots is not None
    wrong = array("i", slots)
    if fault == "free":
        wrong[1] = pool.free[0]
    elif fault == "foreign":
        wrong[1] = 2 * count
    elif fault == "negative":
        wrong[1] = -1
    elif fault == "twice":
        wrong[1] = wrong[0]
    else:
        pool.hold(slots[1:2])
    with pytest.raises(SlotError, match="slots: pool pool"):
        pool.give(wrong)
    assert pool.available == count
    assert all(pool.is_used(slot) for slot in slots)


def test_a_slot_is_in_transfer_until_its_last_transfer_ends() -> None:
    pool = SlotPool("pool", 4)
    slots = pool.take(2)
    assert slots is not None
    pool.hold(slots)
    pool.hold(slots)
    pool.release(slots)
    with pytest.raises(SlotError, match="in 1 transfers"):
        pool.give(slots)
    pool.release(slots)
    pool.give(slots)
    assert pool.in_transfer == 0


def test_only_what_is_used_can_be_in_transfer() -> None:
    pool = SlotPool("pool", 4)
    with pytest.raises(SlotError, match="free"):
        pool.hold(array("i", [1]))
    slots = pool.take(1)
    assert slots is not None
    with pytest.raises(SlotError, match="released without a transfer"):
        pool.release(slots)


def test_slots_come_as_runs_as_long_as_there_are_some() -> None:
    pool = SlotPool("pool", 300)
    parts = [pool.take(100) for _ in range(3)]
    assert [list(part or ()) for part in parts] == [list(range(at, at + 100)) for at in (0, 100, 200)]
    for part in (parts[0], parts[2]):
        assert part is not None
        pool.give(part)
    assert list(pool.take(150) or ()) == [*range(200, 300), *range(50)]


@pytest.mark.parametrize("count", SIZES)
def test_slots_out_of_order_are_free_again_and_only_once(count: int) -> None:
    pool = SlotPool("pool", 2 * count)
    slots = pool.take(2 * count)
    assert slots is not None
    odd, even = slots[1::2], slots[::2]
    pool.hold(odd)
    pool.release(odd)
    for part in (odd, even[::-1]):
        pool.give(part)
    assert pool.available == 2 * count
    assert sorted(pool.free) == list(range(2 * count))
    assert sorted(pool.take(2 * count) or ()) == list(range(2 * count))
