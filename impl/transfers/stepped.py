"""The engine whose time stands still: every read and every write is one step, and whoever drives it chooses
which comes next.
"""

from __future__ import annotations

import torch

from .base import Engine, Ticket


class Lane:
    """One page and layer group of one copy: first it is read, later it is written."""

    __slots__ = ("copy", "high", "low", "row", "staged")

    def __init__(self, copy: int, row: int, low: int, high: int) -> None:
        self.copy = copy
        self.row = row
        self.low = low
        self.high = high
        self.staged: torch.Tensor | None = None


class SteppedEngine(Engine):
    """An interleaving is a list of choices, and can be replayed.

    A choice picks among the unfinished lanes of all tickets whose fences have passed, in order of submission.
    The lanes of a ticket may be done in any order.
    """

    def __init__(self) -> None:
        super().__init__()
        self._open: list[Ticket] = []
        self._lanes: dict[Ticket, list[Lane]] = {}
        self._missed: dict[Ticket, list[set[int]]] = {}

    def _start(self, ticket: Ticket) -> None:
        lanes = [
            Lane(n, row, low, min(high, copy.source.layers))
            for low, high in ticket.layer_groups()
            for n, copy in enumerate(ticket.copies)
            for row in range(len(copy.sources))
        ]
        kept = lanes
        if ticket.fault is not None:
            kept = lanes[: len(lanes) // 2] if ticket.fault == "partial" else []
        missed: list[set[int]] = [set() for _ in ticket.copies]
        for lane in lanes[len(kept) :]:
            missed[lane.copy].add(lane.row)
        self._open.append(ticket)
        self._lanes[ticket] = kept
        self._missed[ticket] = missed

    @property
    def steps(self) -> int:
        """How many micro-steps could be done now."""
        return sum(max(1, len(self._lanes[t])) for t in self._ready())

    def _ready(self) -> list[Ticket]:
        return [t for t in self._open if all(fence.ended for fence in t.after)]

    def step(self, choice: int) -> bool:
        """Do one micro-step, the `choice`-th modulo how many could be done; False if there is none.

        A ticket without lanes left takes one step to end.
        """
        ready = self._ready()
        total = sum(max(1, len(self._lanes[t])) for t in ready)
        if not total:
            return False
        choice %= total
        for ticket in ready:
            count = max(1, len(self._lanes[ticket]))
            if choice < count:
                self._advance(ticket, choice)
                return True
            choice -= count
        raise AssertionError("unreachable")

    def wait(self, ticket: Ticket) -> None:
        """Do all steps of the ticket, in order, after all steps of what it waits for."""
        if ticket.ended:
            return
        for fence in ticket.after:
            if isinstance(fence, Ticket):
                self.wait(fence)
        while not ticket.ended:
            self._advance(ticket, 0)

    def _advance(self, ticket: Ticket, at: int) -> None:
        lanes = self._lanes[ticket]
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
        del self._lanes[ticket]
        self._open.remove(ticket)
        ticket.pages_done = [
            min(rows, default=len(c.sources)) for c, rows in zip(ticket.copies, missed, strict=True)
        ]
        if any(missed):
            ticket.error = ticket.error or (
                "cancelled" if ticket.cancelled else f"{ticket.fault or 'failed'} (injected)"
            )
        else:
            ticket.layers_done = ticket.layers
        ticket.over = True
