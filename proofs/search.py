"""Breadth-first search over the reachable states, level by level, in bounded memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .arrays import Array, Arrays
from .frontier import CALL_BITS, Block, Found, Links, Pending
from .planes import Planes
from .program import Universe
from .shape import Shape
from .situations import Situations
from .spill import Disk, Stored
from .successors import Batch, successors
from .symmetry import Canon, orbit_sizes
from .visited import Visited, hashed


@dataclass(frozen=True, slots=True)
class Hit:
    """A state worth telling about, by number; for a step, the call that was tried there too."""

    state: int
    call: int | None = None


@dataclass(slots=True)
class Tally:
    """What has been counted so far. `fired` and `refused` are by call number."""

    fired: list[int]
    refused: list[int]
    states: int = 0
    transitions: int = 0
    depth: int = 0
    named_states: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a search is: states found, states of this level still to be expanded, and the level."""

    states: int
    frontier: int
    depth: int


@dataclass(slots=True)
class Limits:
    """When to stop, and what may be used.

    Attributes:
        depth: levels to expand; None for all.
        until: the time (of `time.monotonic`) to stop at; None for never.
        memory: bytes.
    """

    depth: int | None
    until: float | None
    memory: int
    chunk: int = field(init=False)
    """States expanded together."""
    flush: int = field(init=False)
    """Successors that are compared with what is known at a time."""

    def sized(self, words: int, outputs: int) -> Limits:
        """Fit the batches to the width of a state."""
        each = 16 * words + outputs // 4 + 64
        self.chunk = 64 * max(16, min(1 << 12, self.memory // (16 * 64 * each)))
        self.flush = max(1 << 14, min(1 << 19, self.memory // (16 * 64 * (words + 2))))
        return self


class Search:
    """One search. `run` goes on until it is done, or finds what it looks for, or has to stop."""

    def __init__(
        self,
        universe: Universe,
        xp: Arrays,
        limits: Limits,
        disk: Disk,
        *,
        keep: Disk | None = None,
        count_names: bool = False,
    ) -> None:
        self.universe = universe
        self.xp = xp
        self.disk = disk
        self.keep = keep
        words = universe.layout.width
        program = universe.program(universe.start)
        self.limits = limits.sized(words, len(program.outputs))
        exact = universe.nodes == 0 and words == 1 and universe.layout.bits < 64
        self.visited = Visited(xp, disk, exact=exact, limit=limits.memory * 3 // 8)
        self.links = Links()
        self.tally = Tally([0] * len(universe.calls), [0] * len(universe.calls))
        self.count_names = count_names
        self.situations: Situations | None = None
        self.lacking: Hit | None = None
        self.broken: Hit | None = None
        self.witness: Hit | None = None
        self.stopped = False
        self.blocks: list[Block] = []
        self._canons: dict[Shape, Canon] = {}
        self._seeds: dict[Shape, tuple[int, int]] = {}
        self._waiting: dict[Shape, list[Batch]] = {}
        self._many = 0
        self._pending = self._fresh()
        self._worker = ThreadPoolExecutor(1)
        self._absorbing: Future[None] | None = None

    def close(self) -> None:
        """Wait for what is under way, and end."""
        self._worker.shutdown(wait=True, cancel_futures=True)

    def start(self) -> None:
        """The initial state."""
        self._waiting[self.universe.start] = [
            Batch(
                self.universe.start,
                [self.xp.put(np.array([w], np.int64)) for w in self.universe.layout.initial],
                self.xp.zeros(1),
                0,
            )
        ]
        self._flush()
        self.blocks = list(self._commit())

    def run(self, progress: Callable[[Progress], None] | None, level_done: Callable[[], None] | None) -> bool:
        """Search on from `blocks`; True if every reachable state has been expanded."""
        while self.blocks:
            last = self.limits.depth is not None and self.tally.depth >= self.limits.depth
            left = sum(b.n for b in self.blocks)
            for block in self.blocks:
                for first in range(0, block.n, self.limits.chunk):
                    if self.limits.until is not None and time.monotonic() >= self.limits.until:
                        self.stopped = True
                        return False
                    until = min(block.n, first + self.limits.chunk)
                    self._expand(block, first, until, only_look=last or self.broken is not None)
                    left -= until - first
                    if progress is not None:
                        progress(Progress(self.tally.states + self._pending.count, left, self.tally.depth))
                    if self.lacking or self.witness:
                        return False
            if last or self.broken is not None:
                return False
            self._flush()
            self.retire()
            self.blocks = list(self._commit())
            if self.blocks:
                self.tally.depth += 1
            if level_done is not None:
                level_done()
        return True

    # One chunk
    def _expand(self, block: Block, first: int, last: int, *, only_look: bool) -> None:
        xp, program = self.xp, self.universe.program(block.shape)
        columns = xp.put(block.read(first, last))
        planes = Planes(xp, columns, program.needed)
        outputs = program.decide(planes.planes, planes.one)
        n = len(program.firings)
        lacking, broken, witness = outputs[2 * n :]
        base = block.start + first
        if (at := planes.indices(lacking)) is not None:
            self.lacking = Hit(base + int(at[0]))
            return
        if (at := planes.indices(witness)) is not None:
            self.witness = Hit(base + int(at[0]))
            return
        if self.broken is None and (at := planes.indices(broken)) is not None:
            self.broken = Hit(base + int(at[0]), -1)
            return
        if only_look:
            return
        for firing, plane in zip(program.firings, outputs[n : 2 * n], strict=True):
            if firing.ground.refused:
                self.tally.refused[firing.number] += planes.count(plane)
        by_number = {f.number: f for f in program.firings} if self.situations is not None else {}
        for batch in successors(xp, program, planes, outputs[:n], columns):
            if self.situations is not None:
                self.situations.see(program, by_number[batch.number], columns, batch.sources, base)
            many = int(batch.sources.shape[0])
            self.tally.fired[batch.number] += many
            self.tally.transitions += many
            batch.sources = ((batch.sources + base) << CALL_BITS) | batch.number
            self._waiting.setdefault(batch.shape, []).append(batch)
            self._many += many
            if self._many >= self.limits.flush:
                self._hand_over()

    # Successors against what is known: in a second thread, while the first goes on to expand
    def _flush(self) -> None:
        self._hand_over()
        if self._absorbing is not None:
            self._absorbing.result()
            self._absorbing = None

    def _hand_over(self) -> None:
        if self._absorbing is not None:
            self._absorbing.result()
        self._absorbing = self._worker.submit(self._absorb, self._waiting)
        self._waiting = {}
        self._many = 0

    def _absorb(self, waiting: dict[Shape, list[Batch]]) -> None:
        xp = self.xp
        for shape, batches in waiting.items():
            columns = [xp.concatenate([b.columns[w] for b in batches]) for w in range(self.universe.layout.width)]
            links = xp.concatenate([b.sources for b in batches])
            if self.universe.symmetry:
                canon = self._canons.get(shape) or self._canons.setdefault(shape, Canon(self.universe.layout, shape))
                columns = canon(xp, columns)
            keys, checks = self.hashes(shape, columns)
            for new in self.visited.add(keys, checks):
                rows = np.stack([xp.get(xp.take(c, new)) for c in (*columns, links)])
                self._pending.add(shape, rows, len(self.visited.runs))

    def hashes(self, shape: Shape, columns: list[Array]) -> tuple[Array, Array | None]:
        """The two hashes of states of one shape; only the first where it is exact."""
        if self.visited.exact:
            return hashed(columns, 0, 0), None
        seeds = self._seeds.get(shape)
        if seeds is None:
            seeds = self._seeds[shape] = _seed(shape, 1), _seed(shape, 2)
        return hashed(columns, seeds[0], 0), hashed(columns, seeds[1], 1)

    # Levels
    def _commit(self) -> Iterator[Block]:
        """The blocks of the next level, without what earlier levels on disk have."""
        held = 0
        pending, self._pending = self._pending, self._fresh()
        for shape, group in pending.groups():
            here: list[np.ndarray[Any, Any]] = []
            for found in group:
                for rows in self._unseen(shape, found):
                    here.append(rows)
                    held += rows.nbytes
                    if held > self.limits.memory // 16:
                        yield self._block(shape, here, spill=True)
                        here, held = [], held - sum(r.nbytes for r in here)
            if here:
                yield self._block(shape, here, spill=False)

    def _unseen(self, shape: Shape, found: Found) -> Iterator[np.ndarray[Any, Any]]:
        stored = found.rows
        step = self.limits.flush
        total = stored.columns if isinstance(stored, Stored) else stored.shape[1]
        for first in range(0, total, step):
            last = min(total, first + step)
            rows = stored.read(first, last) if isinstance(stored, Stored) else stored[:, first:last]
            if found.runs:
                keys, checks = self.hashes(shape, [self.xp.put(r) for r in rows[:-1]])
                rows = rows[:, ~self.xp.get(self.visited.older(keys, checks, found.runs))]
            if rows.shape[1]:
                yield rows
        if isinstance(stored, Stored):
            self.disk.remove(stored)

    def _block(self, shape: Shape, parts: list[np.ndarray[Any, Any]], *, spill: bool) -> Block:
        rows = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        if self.count_names:
            sizes = orbit_sizes(self.xp, self.universe.layout, shape, [self.xp.put(r) for r in rows[:-1]])
            self.tally.named_states += int(sizes.sum())
        start = self.tally.states
        kept = None if self.keep is None else self.keep.write(list(rows), f"states-{start}.i64")
        where = rows if not spill else kept or self.disk.write(list(rows))
        self.tally.states += rows.shape[1]
        return Block(shape, start, rows.shape[1], where, kept)

    def retire(self) -> None:
        """Keep of this level no more than how its states were reached."""
        for block in self.blocks:
            if block.kept is not None or isinstance(block.rows, Stored):
                self.links.append(block.start, block.kept or block.rows)  # type: ignore[arg-type]
            elif block.rows is not None:
                self.links.append(block.start, block.rows[-1].copy())
            block.rows = None
        if self.links.bytes > self.limits.memory // 16:
            self.links.move(self.disk)

    def recall(self, blocks: list[Block]) -> None:
        """Know the states of a level that an earlier search has found."""
        for block in blocks:
            for first in range(0, block.n, self.limits.flush):
                rows = block.read(first, min(block.n, first + self.limits.flush))
                for _ in self.visited.add(*self.hashes(block.shape, [self.xp.put(r) for r in rows])):
                    pass

    def calls_to(self, hit: Hit) -> list[int]:
        """The calls that lead to a state of this level or an earlier one."""
        for block in self.blocks:
            if block.rows is not None and block.start <= hit.state < block.start + block.n:
                at = hit.state - block.start
                if isinstance(block.rows, Stored):
                    link = int(block.rows.read(at, at + 1)[-1, 0])
                else:
                    link = int(block.rows[-1, at])
                if hit.state == 0:
                    return []
                return [*self.links.calls_to(link >> CALL_BITS), link & ((1 << CALL_BITS) - 1)]
        return self.links.calls_to(hit.state)

    def _fresh(self) -> Pending:
        return Pending(self.disk, self.limits.memory // 16)


def _seed(shape: Shape, which: int) -> int:
    found = which
    for mask in (shape.live, *shape.up):
        found = (found ^ mask) * 0x9E3779B97F4A7C15 & ((1 << 64) - 1)
        found ^= found >> 31
    return found
