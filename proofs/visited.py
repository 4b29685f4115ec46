"""The set of states seen so far: a hash table of 64-bit hashes, each checked by a second one, that can move to disk.

Two states count as the same if both hashes agree: 128 bits, so that even among 2**40 states the odds of a mix-up
are below 2**-48. Where a state is one word, the first hash is a bijection of it and the set is exact.

A table that may not grow any more is written out as a sorted run and starts anew. From then on a state that the
table does not know may still be in a run; `older` finds those, a whole level at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import Array, Arrays, signed
from .spill import Disk, Stored

_MULTIPLIERS = [
    (signed(0x9E3779B97F4A7C15), signed(0xD6E8FEB86659FD93)),
    (signed(0xC2B2AE3D27D4EB4F), signed(0xA0761D6478BD642F)),
]
_LOW = 0xFFFFFFFF
BATCH = 1 << 17
"""Candidates that enter the table at a time: few enough for the cache."""


def hashed(columns: list[Array], seed: int, which: int) -> Array:
    """A 64-bit hash of each state, never 0; `which` chooses one of two independent ones.

    Of one word that is never all ones it is a bijection.
    """
    first, second = _MULTIPLIERS[which]
    found = (columns[0] ^ signed(~seed)) * first
    for column in columns[1:]:
        found ^= (found >> 32) & _LOW
        found ^= column
        found *= second
    found ^= (found >> 29) & ((1 << 35) - 1)
    found *= first
    found ^= (found >> 32) & _LOW
    if len(columns) > 1:
        found += found == 0
    return found


@dataclass(slots=True)
class _Table:
    keys: Array
    checks: Array | None
    count: int = 0


class Visited:
    """The set.

    Args:
        exact: states are one word that never has all bits set; no second hash is kept.
        limit: bytes that the table may take; it holds at least `BATCH` states anyway.
    """

    def __init__(self, xp: Arrays, disk: Disk, *, exact: bool, limit: int) -> None:
        self.xp = xp
        self.disk = disk
        self.exact = exact
        self.limit = limit
        self.runs: list[Stored] = []
        self._table = self._made(min(1 << 14, 4 * BATCH))

    def __len__(self) -> int:
        return self._table.count + sum(r.columns for r in self.runs)

    def add(self, keys: Array, checks: Array | None) -> Iterator[Array]:
        """Enter states by their hashes; yield the indices of those that the table did not have, each once.

        What a batch yields is new but for the runs that there are when it is yielded.
        """
        n = int(keys.shape[0])
        for first in range(0, n, BATCH):
            part = slice(first, first + BATCH)
            self._make_room(min(BATCH, n - first))
            new = self._enter(self._table, keys[part], None if checks is None else checks[part])
            if len(new):
                yield new + first

    def older(self, keys: Array, checks: Array | None, runs: int) -> Array:
        """Which of these states are in one of the first `runs` runs, as flags."""
        host_keys, host_checks = self.xp.get(keys), None if checks is None else self.xp.get(checks)
        order = np.argsort(host_keys)
        ordered = host_keys[order]
        seen = np.zeros(len(ordered), np.bool_)
        for run in self.runs[:runs]:
            for first in range(0, run.columns, 8 * BATCH):
                block = run.read(first, min(run.columns, first + 8 * BATCH))
                low, high = np.searchsorted(ordered, (block[0, 0], block[0, -1]), side="left")
                while high < len(ordered) and ordered[high] == block[0, -1]:
                    high += 1
                wanted = ordered[low:high]
                at = np.searchsorted(block[0], wanted)
                seen[low:high] |= _confirmed(
                    block, at, wanted, None if host_checks is None else host_checks[order[low:high]]
                )
        flags = np.zeros(len(ordered), np.bool_)
        flags[order] = seen
        return self.xp.put(flags)

    def _made(self, capacity: int) -> _Table:
        return _Table(self.xp.zeros(capacity), None if self.exact else self.xp.zeros(capacity))

    def _bytes(self, capacity: int) -> int:
        return capacity * (8 if self.exact else 16)

    def _make_room(self, more: int) -> None:
        capacity = int(self._table.keys.shape[0])
        while (self._table.count + more) * 5 > capacity * 3:
            # The old table is still there while the new one fills.
            if self._bytes(3 * capacity) > self.limit and capacity >= 4 * BATCH:
                self._write_run()
                return
            capacity *= 2
            bigger = self._made(capacity)
            for part in self._contents(self._table):
                self._enter(bigger, part[0], None if self.exact else part[1])
            self._table = bigger

    def _contents(self, table: _Table) -> Iterator[list[Array]]:
        for first in range(0, int(table.keys.shape[0]), BATCH):
            keys = table.keys[first : first + BATCH]
            used = self.xp.nonzero(keys != 0)
            part = [self.xp.take(keys, used)]
            if table.checks is not None:
                part.append(self.xp.take(table.checks[first : first + BATCH], used))
            yield part

    def _write_run(self) -> None:
        capacity, count = int(self._table.keys.shape[0]), self._table.count
        columns = [np.empty(count, np.int64) for _ in range(1 if self.exact else 2)]
        first = 0
        for part in self._contents(self._table):
            for column, values in zip(columns, part, strict=True):
                column[first : first + len(values)] = self.xp.get(values)
            first += len(part[0])
        self._table = self._made(0)
        order = np.argsort(columns[0])
        pieces = ((c[order[at : at + BATCH]] for at in range(0, count, BATCH)) for c in columns)
        self.runs.append(self.disk.write_pieces(pieces, len(columns), count))
        del columns, order
        self._table = self._made(capacity)

    def _enter(self, table: _Table, keys: Array, checks: Array | None) -> Array:
        """Linear probing, all candidates at once: who finds an empty place claims it, and the last to claim it has
        it.
        """
        xp, mask = self.xp, int(table.keys.shape[0]) - 1
        slots = keys & mask
        names: Array | None = None
        found: list[Array] = []
        while True:
            there = xp.take(table.keys, slots)
            empty = there == 0
            same = there == keys
            if checks is not None and table.checks is not None:
                same &= xp.take(table.checks, slots) == checks
            claims = xp.nonzero(empty)
            if len(claims):
                wanted = xp.take(slots, claims)
                table.keys[wanted] = claims + 1
                won = xp.nonzero(xp.take(table.keys, wanted) == claims + 1)
                winners = claims if len(won) == len(claims) else xp.take(claims, won)
                wanted = wanted if len(won) == len(claims) else xp.take(wanted, won)
                table.keys[wanted] = xp.take(keys, winners)
                if checks is not None and table.checks is not None:
                    table.checks[wanted] = xp.take(checks, winners)
                table.count += len(winners)
                found.append(winners if names is None else xp.take(names, winners))
                same[winners] = True
            rest = xp.nonzero(~same)
            if not len(rest):
                break
            # Who lost a claim looks again at the same place, the others go on to the next.
            slots = (xp.take(slots, rest) + xp.where(xp.take(empty, rest), 0, 1)) & mask
            keys = xp.take(keys, rest)
            checks = None if checks is None else xp.take(checks, rest)
            names = rest if names is None else xp.take(names, rest)
        return xp.concatenate(found) if found else xp.arange(0)


def _confirmed(
    block: np.ndarray[Any, Any],
    at: np.ndarray[Any, Any],
    keys: np.ndarray[Any, Any],
    checks: np.ndarray[Any, Any] | None,
) -> np.ndarray[Any, Any]:
    """Which keys are in the sorted block; equal keys with other checks (one in 2**64) stand next to each other."""
    found = np.zeros(len(keys), np.bool_)
    for _ in range(4):
        inside = at < block.shape[1]
        place = np.minimum(at, block.shape[1] - 1)
        hit = inside & (block[0, place] == keys)
        found |= hit if checks is None else hit & (block[1, place] == checks)
        if checks is None:
            break
        at = at + 1
    return found
