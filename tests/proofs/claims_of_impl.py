"""What the pure functions of the cache promise (keys, pages, slots), in the form that CrossHair takes apart.

`decode` is not among them: CrossHair's own `array` takes bytes for a list of small numbers.

See `pinproof.proofs.claims` for those of the model.
"""

from __future__ import annotations

import sys
from array import array

from crosshair.core import deep_realize
from crosshair.tracers import NoTracing
from pinproof.impl.errors import SlotError
from pinproof.impl.keys import TOKEN_BYTES, common_pages, encode, pages
from pinproof.impl.slots import SlotPool


def a_key_is_four_bytes_a_token(tokens: list[int]) -> bool:
    """
    pre: len(tokens) <= 3 and all(0 <= t < 2**32 for t in tokens)
    post: _
    """
    key = encode(tokens, 1)
    return key == b"".join(t.to_bytes(TOKEN_BYTES, sys.byteorder) for t in tokens) and pages(key, 4) == len(tokens)


def common_pages_are_the_first_that_agree(key: bytes, other: bytes, stride: int) -> bool:
    """
    pre: 1 <= stride <= 2 and len(key) <= 4 and len(other) <= 4
    pre: len(key) % stride == 0 and len(other) % stride == 0
    post: _
    """
    limit = min(len(key), len(other)) // stride
    same = [key[i * stride : (i + 1) * stride] == other[i * stride : (i + 1) * stride] for i in range(limit)]
    return common_pages(key, 0, other, stride) == (same.index(False) if False in same else limit)


def slots_come_back(size: int, first: int, second: int) -> bool:
    """
    pre: 0 <= size <= 4 and 0 <= first <= 4 and 0 <= second <= 4
    post: _
    """
    numbers = deep_realize((size, first, second))
    with NoTracing():
        return _slots_come_back(*numbers)


def nothing_is_freed_twice(size: int, slot: int, other: int) -> bool:
    """
    pre: 1 <= size <= 3 and -1 <= slot <= 3 and -1 <= other <= 3
    post: _
    """
    numbers = deep_realize((size, slot, other))
    with NoTracing():
        return _nothing_is_freed_twice(*numbers)


# Free lists compare memory, and CrossHair's stand-in for arrays has none: it chooses the numbers, and the pool is real.
def _slots_come_back(size: int, first: int, second: int) -> bool:
    pool = SlotPool("test", size)
    taken = [s for count in (first, second) if (got := pool.take(count)) is not None for s in got]
    unique = len(set(taken)) == len(taken) and all(pool.is_used(s) for s in taken)
    counted = pool.available == size - len(taken)
    pool.give(array("i", taken))
    return unique and counted and pool.available == size and not any(pool.is_used(s) for s in taken)


def _nothing_is_freed_twice(size: int, slot: int, other: int) -> bool:
    pool = SlotPool("test", size)
    taken = pool.take(1)
    assert taken is not None
    before = pool.available
    try:
        pool.give(array("i", [slot, other]))
    except SlotError:
        return pool.available == before and pool.is_used(taken[0])
    return False
