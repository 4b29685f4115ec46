"""What all transfer engines have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Literal, Protocol

import torch

from ..errors import BadArgument
from ..happens_before import COMPUTE, READ, WRITE, Clock, HappensBefore
from ..pools import Pool
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

    @property
    def clock(self) -> Clock | None:
        """What is known to have happened then, in builds that check the order of accesses."""


class Ticket:
    """One transfer. It is a fence itself.

    Slots are in transfer from `submit` until `release`, which the cache calls, on its own thread, where it
    takes notice of the end.

    Attributes:
        error: why it did not copy everything; valid once ended.
        over: what `ended` says.
        finished: what `end` says: the engine has called it.
        begun: when it was submitted, in seconds of `perf_counter`.
        order: where its accesses were declared, as those of `timeline`; None in ordinary builds.
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
        self.finished = False
        self.order: HappensBefore | None = None
        self.timeline = 0
        self.begun = perf_counter()
        self._arrivals: list[tuple[int, Clock]] = []
        self._held = False

    @property
    def ended(self) -> bool:
        """No byte will be touched any more."""
        return self.over

    @property
    def layers(self) -> int:
        """Layers of the largest copy."""
        return max((c.source.layers for c in self.copies), default=0)

    @property
    def clock(self) -> Clock | None:
        """What is known to have happened when it has ended."""
        return self._arrivals[-1][1] if self._arrivals else None

    def clock_at(self, layer: int) -> Clock | None:
        """What is known to have happened when a layer has arrived."""
        return next((clock for high, clock in self._arrivals if layer < high), self.clock)

    def end(self) -> None:
        """The engine will not touch a byte any more."""
        self.over = self.finished = True

    def declare(self, order: HappensBefore, name: str) -> None:
        """All that the transfer is going to touch, at moments of its own choosing. Raises UnorderedAccess."""
        self.timeline = order.open(name, [fence.clock for fence in self.after if fence.clock is not None])
        reads = [(copy.source, copy.sources) for copy in self.copies if isinstance(copy.source, Pool)]
        writes = [(copy.target, copy.targets) for copy in self.copies if isinstance(copy.target, Pool)]
        for layers in self.layer_groups():
            order.access(self.timeline, reads, READ, layers)
            order.access(self.timeline, writes, WRITE, layers)
            self._arrivals.append((layers[1], order.clock(self.timeline)))
        self.order = order

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
        if self.order is not None and self.finished:
            self.order.close(self.timeline)
            self.order = None
        if self._held:
            self._held = False
            for copy in self.copies:
                copy.source.release(copy.sources)
                copy.target.release(copy.targets)

    def layer_groups(self) -> list[tuple[int, int]]:
        """Ranges of layers, in the order in which they are copied."""
        step = self.group or self.layers or 1
        return [(low, min(low + step, self.layers)) for low in range(0, self.layers, step)]


class LayerFence:
    """One layer of a transfer has arrived, and all before it; or the transfer is over, arrived or not."""

    def __init__(self, ticket: Ticket, layer: int) -> None:
        self.ticket = ticket
        self.layer = layer

    @property
    def ended(self) -> bool:
        """It has."""
        return self.ticket.layers_done > self.layer or self.ticket.ended

    @property
    def clock(self) -> Clock | None:
        """What is known to have happened then."""
        return self.ticket.clock_at(self.layer)


class Engine:
    """Base of the engines: faults and bookkeeping. `submit` never blocks; ends are seen by asking tickets.

    Attributes:
        asynchronous: what requests compute goes on while the host does.
        order: told of every transfer's accesses; None in ordinary builds.
        unwritten: how many writes of a page of a pool are still to be computed.
    """

    asynchronous = False

    def __init__(self) -> None:
        self.order: HappensBefore | None = None
        self.unwritten: Counter[tuple[Pool, int]] = Counter()
        self._submitted: Counter[Direction] = Counter()
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
        if self.order is not None:
            self._submitted[direction] += 1
            ticket.declare(self.order, f"{direction} {self._submitted[direction]}")
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

    def compute(
        self,
        work: Callable[[], None],
        after: Sequence[Fence] = (),
        writes: Sequence[tuple[Pool, Slots]] = (),
    ) -> None:
        """A request computes, after all that was given to compute before and after these layers have arrived.

        Here the host waits for them and does it at once; asynchronous engines return and do it later.
        """
        for fence in after:
            if isinstance(fence, LayerFence):
                self.wait_layer(fence)
        work()

    def finish_computing(self) -> None:
        """Return when all that was given to compute has been computed."""

    def wait_layer(self, fence: LayerFence) -> None:
        """Return when a layer has arrived."""
        self.wait(fence.ticket)

    def compute_clock(self) -> Clock | None:
        """For fences: what is known to have happened when all that was given to compute has been."""
        return None if self.order is None else self.order.clock(COMPUTE)

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
