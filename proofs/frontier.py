"""The states of one level of the search, and how each state ever found was reached, in memory or on disk.

States are numbered in the order in which they are found, from 0. A block holds consecutive states of one shape: its
rows are the words of the states, and last their links. A link packs the number of the state that it was reached
from and the number of the call.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .shape import Shape
from .spill import Disk, Stored

CALL_BITS = 20
"""Bits of a link for the call; the others are for the state."""


@dataclass(slots=True)
class Block:
    """States `start..start+n-1`, all of one shape."""

    shape: Shape
    start: int
    n: int
    rows: np.ndarray[Any, Any] | Stored | None
    """[words + 1, n], links last; None once nobody needs the states themselves."""
    kept: Stored | None = None
    """Where the checkpoint has the rows."""

    def read(self, first: int, last: int) -> np.ndarray[Any, Any]:
        """The words of states `first..last-1` of this block: [words, last - first]."""
        assert self.rows is not None
        if isinstance(self.rows, Stored):
            return self.rows.read(first, last)[:-1]
        return self.rows[:-1, first:last]

    @property
    def bytes(self) -> int:
        """What it takes in memory."""
        return self.rows.nbytes if isinstance(self.rows, np.ndarray) else 0


class Links:
    """How each state was reached."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._parts: list[np.ndarray[Any, Any] | Stored] = []

    def append(self, start: int, part: np.ndarray[Any, Any] | Stored) -> None:
        """The links of states from `start`: an array, or the block in whose last row they stand."""
        self._starts.append(start)
        self._parts.append(part)

    def __getitem__(self, state: int) -> tuple[int, int]:
        """(the state before, the call) of a state other than the first."""
        i = bisect_right(self._starts, state) - 1
        part, at = self._parts[i], state - self._starts[i]
        link = int(part.read(at, at + 1)[-1, 0] if isinstance(part, Stored) else part[at])
        return link >> CALL_BITS, link & ((1 << CALL_BITS) - 1)

    def calls_to(self, state: int) -> list[int]:
        """The calls that lead from the initial state to this one."""
        found = []
        while state:
            state, call = self[state]
            found.append(call)
        return found[::-1]

    @property
    def bytes(self) -> int:
        """What it takes in memory."""
        return sum(p.nbytes for p in self._parts if isinstance(p, np.ndarray))

    def move(self, disk: Disk) -> None:
        """Write what is in memory to disk."""
        for i, part in enumerate(self._parts):
            if isinstance(part, np.ndarray) and len(part):
                self._parts[i] = disk.write([part])


@dataclass(slots=True)
class Found:
    """States of one shape found in the level under way: `rows` as in `Block`, and the runs on disk they have not
    been looked up in.
    """

    rows: np.ndarray[Any, Any] | Stored
    runs: int


class Here(NamedTuple):
    """States found, in memory."""

    rows: np.ndarray[Any, Any]
    runs: int


class Pending:
    """What has been found of the next level so far, by shape."""

    def __init__(self, disk: Disk, limit: int) -> None:
        self.disk = disk
        self.limit = limit
        self.found: dict[Shape, list[Found]] = {}
        self.count = 0
        self._held = 0

    def add(self, shape: Shape, rows: np.ndarray[Any, Any], runs: int) -> None:
        """States that are new as far as is known."""
        self.found.setdefault(shape, []).append(Found(rows, runs))
        self.count += rows.shape[1]
        self._held += rows.nbytes
        if self._held > self.limit:
            for mine in self.found.values():
                self._move(mine)
            self._held = 0

    def groups(self) -> Iterator[tuple[Shape, Sequence[Found]]]:
        """All that was found, shape by shape, in an order that does not depend on when."""
        for shape in sorted(self.found):
            yield shape, self.found[shape]

    def _move(self, mine: list[Found]) -> None:
        here = [Here(f.rows, f.runs) for f in mine if isinstance(f.rows, np.ndarray)]
        for runs in sorted({f.runs for f in here}):
            parts = [f.rows for f in here if f.runs == runs]
            words, columns = parts[0].shape[0], sum(p.shape[1] for p in parts)
            pieces = ((p[word] for p in parts) for word in range(words))
            stored = self.disk.write_pieces(pieces, words, columns)
            mine.append(Found(stored, runs))
        mine[:] = [f for f in mine if isinstance(f.rows, Stored)]
