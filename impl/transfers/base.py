"""What all transfer engines have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch

from ..errors import BadArgument
from ..slots import Slots

Direction = Literal["backup", "load_back", "prefetch", "storage_backup"]
"""Device to host, host to device, storage to host, host to storage."""
DIRECTIONS: tuple[Direction, ...] = ("backup", "load_back", "prefetch", "storage_backup")
Fault = Literal["failed", "partial"]
"""Nothing is copied, or about half; either way the ticket ends with an error."""


class EndPoint(Protocol):
    """Pages that can be read or written by number: a pool, or the storage tier."""

    layers: int

    def read(self, slot: int, low: int, high: int) -> torch.Tensor:
        """A copy of layers low … high-1 of one page."""

    def write(self, slot: int, low: int, high: int, bytes_: torch.Tensor) -> None:
        """Overwrite layers low … high-1 of one page."""

    def hold(self, slots: Slots) -> None:
        """A transfer starts to touch these slots."""

    def release(self, slots: Slots) -> None:
        """The transfer has ended."""


@dataclass(frozen=True, slots=True)
class Copy:
    """Page `sources[i]` of one end point goes to page `targets[i]` of another, for every i."""

    source: EndPoint
    sources: Slots
    target: EndPoint
    targets: Slots


def runs(sources: Slots, targets: Slots) -> Iterator[tuple[int, int, int]]:
    """(first source, first target, length) of the runs in which both count up by one."""
    if isinstance(sources, range) and isinstance(targets, range) and sources.step == targets.step == 1:
        if sources:
            yield sources[0], targets[0], len(sources)
        return
    start = 0
    for at in range(1, len(sources) + 1):
        if at == len(sources) or sources[at] != sources[at - 1] + 1 or targets[at] != targets[at - 1] + 1:
            yield sources[start], targets[start], at - start
            start = at


class Fence(Protocol):
    """Something that a transfer can wait for before it touches a byte."""

    @property
    def ended(self) -> bool:
        """It has happened."""


class Ticket:
    """One transfer. It is a fence itself.

    Slots are in transfer from `submit` until `release`, which the cache calls, on its own thread, where it
    takes notice of the end.

    Attributes:
        error: why it did not copy everything; valid once ended.
        over: what `ended` says, set by the engine.
        layers_done: layers below this one have arrived whole.
        pages_done: for each copy, how many leading pages have been copied whole; valid once ended.
    """

    def __init__(self, direction: Direction, copies: Sequence[Copy], after: Sequence[Fence], group: int) -> None:
        self.direction = direction
        self.copies = list(copies)
        self.after = list(after)
        self.group = group
        self.fault: Fault | None = None
        self.error: str | None = None
        self.cancelled = False
        self.layers_done = 0
        self.pages_done = [0] * len(self.copies)
        self.over = False
        self._held = False

    @property
    def ended(self) -> bool:
        """No byte will be touched any more."""
        return self.over

    @property
    def layers(self) -> int:
        """Layers of the largest copy."""
        return max((c.source.layers for c in self.copies), default=0)

    def cancel(self) -> None:
        """Stop as soon as the engine can; it ends partial."""
        self.cancelled = True

    def hold(self) -> None:
        """Put all slots in transfer."""
        for copy in self.copies:
            copy.source.hold(copy.sources)
            copy.target.hold(copy.targets)
        self._held = True

    def release(self) -> None:
        """The end was taken notice of: the slots are free to be freed. Again does no harm."""
        assert self.ended, "released while copying"
        if self._held:
            self._held = False
            for copy in self.copies:
                copy.source.release(copy.sources)
                copy.target.release(copy.targets)

    def layer_groups(self) -> list[tuple[int, int]]:
        """Ranges of layers, in the order in which they are copied."""
        step = self.group or self.layers or 1
        return [(low, min(low + step, self.layers)) for low in range(0, self.layers, step)]


class Engine:
    """Base of the engines: faults and bookkeeping. `submit` never blocks; ends are seen by asking tickets."""

    def __init__(self) -> None:
        self._faults: dict[Direction, list[Fault]] = {d: [] for d in DIRECTIONS}

    def fail_next(self, direction: Direction, fault: Fault) -> None:
        """The next transfer of that direction that has no fault yet will fail so."""
        if direction not in DIRECTIONS:
            raise BadArgument("direction", f"{direction!r} is none of {', '.join(DIRECTIONS)}")
        if fault not in ("failed", "partial"):
            raise BadArgument("fault", f"{fault!r} is neither 'failed' nor 'partial'")
        self._faults[direction].append(fault)

    def submit(
        self, direction: Direction, copies: Sequence[Copy], after: Sequence[Fence] = (), group: int = 0
    ) -> Ticket:
        """Start a transfer that touches nothing before all of `after` have happened; `group` layers at a
        time, 0 for all.
        """
        ticket = self._ticket(direction, copies, after, group)
        if self._faults[direction]:
            ticket.fault = self._faults[direction].pop(0)
        ticket.hold()
        self._start(ticket)
        return ticket

    def _ticket(self, direction: Direction, copies: Sequence[Copy], after: Sequence[Fence], group: int) -> Ticket:
        return Ticket(direction, copies, after, group)

    def _start(self, ticket: Ticket) -> None:
        raise NotImplementedError

    def fence(self) -> tuple[Fence, ...]:
        """What has been computed on the device up to now, for `after`; nothing where computing is
        synchronous.
        """
        return ()

    def wait(self, ticket: Ticket) -> None:
        """Return when `ticket` has ended."""
        raise NotImplementedError

    def step(self, choice: int) -> bool:
        """Do one micro-step, the `choice`-th modulo how many could be done; False if there is none."""
        raise BadArgument("engine", f"{type(self).__name__} has no steps")

    @property
    def steps(self) -> int:
        """How many micro-steps could be done now; 0 where there are none."""
        return 0

    def close(self) -> None:
        """Finish what is under way and stop."""
