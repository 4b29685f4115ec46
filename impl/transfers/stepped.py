"""The engine whose time stands still: every read and every write is one step, and whoever drives it chooses
which comes next.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence

import torch

from ..happens_before import Clock
from ..pools import Pool
from ..slots import Slots
from .base import Copy, Engine, Fence, LayerFence, Ticket


class Lane:
    """One page and layer group of one copy: first it is read, later it is written."""

    __slots__ = ("copy", "high", "low", "row", "staged")

    def __init__(self, copy: int, row: int, low: int, high: int) -> None:
        self.copy = copy
        self.row = row
        self.low = low
        self.high = high
        self.staged: torch.Tensor | None = None


class Kernel:
    """What a request computes, in the queue of a stream: one step."""

    __slots__ = ("after", "over", "work", "writes")

    def __init__(self, work: Callable[[], None], after: Sequence[Fence], writes: Sequence[tuple[Pool, Slots]]) -> None:
        self.work = work
        self.after = after
        self.writes = [(pool, slot) for pool, slots in writes for slot in slots]
        self.over = False


class ComputePoint:
    """A point on the stream that requests compute on: after `kernel`, or passed already."""

    def __init__(self, kernel: Kernel | None, clock: Clock | None) -> None:
        self.kernel = kernel
        self.clock = clock

    @property
    def ended(self) -> bool:
        """All before it has been computed."""
        return self.kernel is None or self.kernel.over


class SteppedEngine(Engine):
    """An interleaving is a list of choices, and can be replayed.

    A choice picks among the first kernel of the compute stream, if there is one, and the unfinished lanes of all
    tickets whose fences have passed, in order of submission. The lanes of a ticket may be done in any order; a ticket
    without lanes left takes one step to end.

    Args:
        seed: order of the steps of what is waited for.
        queued: requests compute on a stream of their own, as on a GPU; else at once.
    """

    def __init__(self, seed: int = 0, *, queued: bool = False) -> None:
        super().__init__()
        self.asynchronous = queued
        self._kernels: deque[Kernel] = deque()
        self._random = random.Random(seed)
        self._open: dict[Ticket, list[Lane] | None] = {}
        self._missed: dict[Ticket, list[set[int]]] = {}

    def _start(self, ticket: Ticket) -> None:
        self._open[ticket] = None

    def _lanes(self, ticket: Ticket) -> list[Lane]:
        """The unfinished lanes of a ticket; a fault leaves lanes out from the beginning."""
        lanes = self._open[ticket]
        if lanes is not None:
            return lanes
        every = [
            Lane(n, row, low, min(high, copy.source.layers))
            for low, high in ticket.layer_groups()
            for n, copy in enumerate(ticket.copies)
            for row in range(len(copy.sources))
        ]
        kept = len(every)
        if ticket.fault is not None:
            kept = kept // 2 if ticket.fault == "partial" else 0
        missed: list[set[int]] = [set() for _ in ticket.copies]
        for lane in every[kept:]:
            missed[lane.copy].add(lane.row)
        self._missed[ticket] = missed
        self._open[ticket] = lanes = every[:kept]
        return lanes

    def _ready(self) -> list[tuple[Ticket, int]]:
        ready = [t for t in self._open if all(fence.ended for fence in t.after)]
        return [(t, max(1, len(self._lanes(t)))) for t in ready]

    @property
    def steps(self) -> int:
        """How many micro-steps could be done now."""
        return self._computable() + sum(count for _, count in self._ready())

    def step(self, choice: int) -> bool:
        """Do one micro-step, the `choice`-th modulo how many could be done; False if there is none."""
        ready, first = self._ready(), self._computable()
        total = first + sum(count for _, count in ready)
        if not total:
            return False
        choice %= total
        if choice < first:
            self._compute()
            return True
        choice -= first
        for ticket, count in ready:
            if choice < count:
                self._advance(ticket, choice)
                break
            choice -= count
        return True

    def wait(self, ticket: Ticket) -> None:
        """Do all steps of the ticket, in an order that the seed chooses, after those of what it waits for."""
        if ticket.ended:
            return
        for fence in ticket.after:
            if isinstance(fence, Ticket):
                self.wait(fence)
            while not fence.ended:
                self._compute_next()
        if self._open[ticket] is None and ticket.fault is None and all(_copy(copy) for copy in ticket.copies):
            self._open[ticket] = []
            self._missed[ticket] = [set() for _ in ticket.copies]
        while not ticket.ended:
            self._advance(ticket, self._random.randrange(max(1, len(self._lanes(ticket)))))

    def _advance(self, ticket: Ticket, at: int) -> None:
        lanes = self._lanes(ticket)
        if ticket.cancelled:
            for lane in lanes:
                self._missed[ticket][lane.copy].add(lane.row)
            lanes.clear()
        if not lanes:
            self._end(ticket)
            return
        lane = lanes[at]
        copy = ticket.copies[lane.copy]
        try:
            if lane.staged is None:
                lane.staged = copy.source.read(copy.sources[lane.row], lane.low, lane.high)
                return
            copy.target.write(copy.targets[lane.row], lane.low, lane.high, lane.staged)
        except (OSError, LookupError) as problem:
            self._missed[ticket][lane.copy].add(lane.row)
            ticket.error = ticket.error or f"{type(problem).__name__}: {problem}"
        del lanes[at]
        if lanes:
            ticket.layers_done = min(other.low for other in lanes)
        elif ticket.fault is None:
            self._end(ticket)

    def _end(self, ticket: Ticket) -> None:
        missed = self._missed.pop(ticket)
        del self._open[ticket]
        ticket.pages_done = [min(rows, default=len(c.sources)) for c, rows in zip(ticket.copies, missed, strict=True)]
        if any(missed):
            reason = "cancelled" if ticket.cancelled else f"{ticket.fault or 'failed'} (injected)"
            ticket.error = ticket.error or reason
        else:
            ticket.layers_done = ticket.layers
        ticket.end()

    # Computing
    def compute(
        self,
        work: Callable[[], None],
        after: Sequence[Fence] = (),
        writes: Sequence[tuple[Pool, Slots]] = (),
    ) -> None:
        """A request computes: a step of its own if the stream is queued; see `Engine.compute`."""
        if not self.asynchronous:
            super().compute(work, after)
            return
        kernel = Kernel(work, after, writes)
        self.unwritten.update(kernel.writes)
        self._kernels.append(kernel)

    def fence(self) -> tuple[Fence, ...]:
        """What was given to compute up to now."""
        if not self.asynchronous:
            return ()
        return (ComputePoint(self._kernels[-1] if self._kernels else None, self.compute_clock()),)

    def finish_computing(self) -> None:
        """Do all that was given to compute, and what it waits for."""
        while self._kernels:
            self._compute_next()

    def _computable(self) -> int:
        return int(bool(self._kernels) and all(fence.ended for fence in self._kernels[0].after))

    def _compute_next(self) -> None:
        for fence in self._kernels[0].after:
            if isinstance(fence, LayerFence):
                self.wait(fence.ticket)
        self._compute()

    def _compute(self) -> None:
        kernel = self._kernels.popleft()
        for place in kernel.writes:
            self.unwritten[place] -= 1
            if not self.unwritten[place]:
                del self.unwritten[place]
        kernel.over = True
        kernel.work()


def _copy(copy: Copy) -> bool:
    """A whole copy at once, where nobody could tell the difference; False if it has to go page by page."""
    source, target = copy.source, copy.target
    if not (isinstance(source, Pool) and isinstance(target, Pool)):
        return False
    if source.data.shape[2]:
        target.fill(copy.targets, source.pages(copy.sources))
    return True
