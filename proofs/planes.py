"""Rows of bits turned into columns: 64 states a word for each boolean, and back to the numbers of the states chosen.

A batch that is small is turned into Python integers, one for each boolean, on which the same operators work with less
overhead for each operation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .arrays import Array, Arrays, signed
from .bits import Plane

SMALL = 4096
"""Up to this many states a plane is a Python integer."""

_ROUNDS = [(j, signed(sum(1 << i for i in range(64) if not i & j))) for j in (32, 16, 8, 4, 2, 1)]


def transposed(xp: Arrays, words: Array) -> Array:
    """The 64 planes of one word of a batch: [64 k] words, a state each -> [64, k]; bit s of `[b, i]` is bit b of
    state 64 i + s.
    """
    a = xp.copy(words.reshape(-1, 64).T)
    k = a.shape[1]
    for j, mask in _ROUNDS:
        v = a.reshape(32 // j, 2, j, k)
        x, y = v[:, 0], v[:, 1]
        t = ((x >> j) ^ y) & mask
        y ^= t
        t <<= j
        x ^= t
    return a


class Planes:
    """The planes of one batch of states.

    Args:
        columns: [words, n], the states.
        needed: for each word, the bits whose planes are wanted.
    """

    def __init__(self, xp: Arrays, columns: Array, needed: Sequence[Sequence[int]]) -> None:
        self.xp = xp
        self.n = int(columns.shape[1])
        self.k = -(-self.n // 64)
        self.small = self.n <= SMALL and xp.small_integers
        self.planes: dict[int, Plane] = {}
        padded = self.k * 64
        for word, wanted in enumerate(needed):
            if not wanted:
                continue
            column = columns[word]
            if padded != self.n:
                column = xp.concatenate([column, column[-1:].repeat(padded - self.n)])
            turned = transposed(xp, column)
            for bit in wanted:
                plane = turned[bit]
                self.planes[64 * word + bit] = int.from_bytes(plane.tobytes(), "little") if self.small else plane
        if self.small:
            self.one: Plane = (1 << self.n) - 1
        else:
            self.one = ~xp.zeros(self.k)

    def indices(self, plane: Plane) -> Array | None:
        """The numbers of the states where `plane` is set, ascending; None where there is none."""
        if self.small:
            plane &= self.one
            return self.xp.indices(self._words(plane), self.n) if plane else None
        if not bool(plane.any()):
            return None
        return self.xp.indices(plane, self.n)

    def count(self, plane: Plane) -> int:
        """For how many states it is set."""
        if self.small:
            return int((plane & self.one).bit_count())
        return self.xp.popcount(plane, self.n)

    def holds(self, plane: Plane) -> bool:
        """It is set for some state."""
        return bool(plane & self.one) if self.small else bool(plane.any())

    def bits(self, planes: Sequence[Plane], index: Array) -> list[Array]:
        """For each plane, its value (0 or 1) for the states numbered `index`."""
        word, shift = index >> 6, index & 63
        found = []
        for plane in planes:
            words = self._words(plane & self.one) if self.small else plane
            found.append((self.xp.take(words, word) >> shift) & 1)
        return found

    def _words(self, plane: int) -> Array:
        return np.frombuffer(plane.to_bytes(self.k * 8, "little"), np.int64)
