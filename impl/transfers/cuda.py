"""The engine for a GPU: one stream for each direction, events for ends, layer groups and fences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

import torch

from ..errors import BadConfig
from ..happens_before import Clock
from ..pools import Pool
from ..slots import Slots
from .base import DIRECTIONS, Copy, Direction, Engine, Fault, Fence, LayerFence, Ticket
from .batches import CopyFailed, Piece, addresses, find_batch, pieces_of
from .gather import find_gather
from .threads import ThreadEngine
from .thresholds import COUNTS, SIZES, Thresholds, Way, calibrate

cuda: Any = torch.cuda
"""Untyped in torch."""
MEASURED = 5
"""Times that each way to copy is measured at the start; the best counts."""


class EventFence:
    """A point on a CUDA stream."""

    def __init__(self, event: Any, clock: Clock | None = None) -> None:
        self.event = event
        self.clock = clock

    @property
    def ended(self) -> bool:
        """The stream has passed it."""
        return bool(self.event.query())


class CudaTicket(Ticket):
    """A transfer on a stream; `layer_events[g]` marks that layer group `g` has arrived."""

    def __init__(
        self, direction: Direction, copies: Sequence[Copy], after: Sequence[Fence], group: int, send: Callable[[], None]
    ) -> None:
        super().__init__(direction, copies, after, group)
        self.layer_events: list[tuple[int, Any]] = []
        self._send = send

    def sent(self) -> list[tuple[int, Any]]:
        """Its events, after seeing to it that it is on the stream."""
        if not self.layer_events:
            self._send()
        return self.layer_events

    @property
    def ended(self) -> bool:
        """The stream has passed its last copy."""
        if not self.over and self.sent()[-1][1].query():
            self.end()
        return self.over

    def wait_layer(self, layer: int, stream: Any = None) -> None:
        """Let a compute stream, the current one unless given, go on only when `layer` has arrived.

        Does not block the host.
        """
        for high, event in self.sent():
            if layer < high:
                (stream or cuda.current_stream()).wait_event(event)
                return


class CudaEngine(Engine):
    """Copies between a device pool and a pinned host pool. Storage has no stream: threads serve it.

    A transfer starts after the events of all its fences, on its direction's stream. Whole pages are copied in runs of
    neighbouring slots, layer groups page by page: both are contiguous memory on both sides, so that no copy is staged.
    Transfers of a direction are gathered until somebody asks after one of them, at the latest when ends are polled, and
    are one submission then: one event a layer group, and one call to the driver or one kernel where `thresholds`,
    measured when the engine is made, say that this is quicker than copy after copy.
    """

    asynchronous = True

    def __init__(self, device: str = "cuda") -> None:
        super().__init__()
        if not cuda.is_available():
            raise BadConfig("engine", "there is no CUDA device")
        self.device = torch.device(device)
        self._streams: dict[Direction, Any] = {d: cuda.Stream(self.device) for d in DIRECTIONS[:2]}
        self._gathered: dict[Direction, list[CudaTicket]] = {d: [] for d in DIRECTIONS[:2]}
        self._threads = ThreadEngine()
        self._batch = find_batch()
        self._gather = find_gather(self.device) if self.device.type == "cuda" else None
        self.thresholds = self._measure() if self._batch or self._gather else Thresholds()

    def _measure(self) -> Thresholds:
        """What the ways to copy take on this machine, from the host's first call to the last byte."""
        stream, most = self._streams["load_back"], COUNTS[-1] * SIZES[-1]
        host = torch.empty(most, dtype=torch.uint8, pin_memory=True)
        device = torch.empty(most, dtype=torch.uint8, device=self.device)
        to, at = device.data_ptr(), host.data_ptr()

        def seconds(way: Way, count: int, size: int) -> float:
            pieces = [(to + n * SIZES[-1], at + n * SIZES[-1], size) for n in range(count)]
            spent = []
            for _ in range(MEASURED):
                stream.synchronize()
                begun = perf_counter()
                with cuda.stream(stream):
                    if way == "single":
                        for n in range(count):
                            low = n * SIZES[-1]
                            device[low : low + size].copy_(host[low : low + size], non_blocking=True)
                    else:
                        self._together(way, pieces, stream)
                stream.synchronize()
                spent.append(perf_counter() - begun)
            return min(spent)

        if self._batch is not None:
            try:
                seconds("batch", 1, SIZES[0])
            except CopyFailed:
                self._batch = None
        if self._gather is not None:
            try:
                seconds("gather", 1, SIZES[0])
            except Exception:  # whatever stops Triton from building a kernel here: no compiler, no driver, …
                self._gather = None
        return calibrate(seconds, batch=self._batch is not None, gather=self._gather is not None)

    def _together(self, way: Way, pieces: list[Piece], stream: Any) -> None:
        start = self._batch if way == "batch" else self._gather
        assert start is not None
        start(pieces, stream.cuda_stream)

    def fail_next(self, direction: Direction, fault: Fault) -> None:
        """The next transfer of that direction will fail so."""
        if direction in self._streams:
            super().fail_next(direction, fault)
        else:
            self._threads.fail_next(direction, fault)

    def submit(
        self, direction: Direction, copies: Sequence[Copy], after: Sequence[Fence] = (), group: int = 0
    ) -> Ticket:
        """Start a transfer; see `Engine.submit`."""
        if direction not in self._streams:
            self._threads.order = self.order
            return self._threads.submit(direction, copies, after, group)
        return super().submit(direction, copies, after, group)

    def _ticket(self, direction: Direction, copies: Sequence[Copy], after: Sequence[Fence], group: int) -> Ticket:
        return CudaTicket(direction, copies, after, group, lambda: self._send(direction))

    def _start(self, ticket: Ticket) -> None:
        assert isinstance(ticket, CudaTicket)
        for number, copy in enumerate(ticket.copies):
            pages = len(copy.sources)
            if ticket.fault is not None:
                pages = pages // 2 if ticket.fault == "partial" else 0
            ticket.pages_done[number] = pages
        if ticket.fault is not None:
            ticket.error = f"{ticket.fault} (injected)"
        for fence in ticket.after:
            if isinstance(fence, CudaTicket):
                fence.sent()
        gathered = self._gathered[ticket.direction]
        if gathered and gathered[0].group != ticket.group:
            self._send(ticket.direction)
        gathered.append(ticket)

    def _send(self, direction: Direction) -> None:
        """All that was gathered for a direction goes on its stream, as one submission."""
        tickets = self._gathered[direction][:]
        self._gathered[direction].clear()
        if not tickets:
            return
        stream = self._streams[direction]
        for fence in dict.fromkeys(fence for ticket in tickets for fence in ticket.after):
            if isinstance(fence, EventFence):
                stream.wait_event(fence.event)
            elif isinstance(fence, CudaTicket):
                stream.wait_event(fence.layer_events[-1][1])
        with cuda.stream(stream):
            for low, high in max((ticket.layer_groups() for ticket in tickets), key=len) or [(0, 0)]:
                self._copy_group(tickets, low, high, stream)
                event = cuda.Event()
                event.record(stream)
                for ticket in tickets:
                    ticket.layer_events.append((high, event))

    def _copy_group(self, tickets: Sequence[Ticket], low: int, high: int, stream: Any) -> None:
        """Start to copy one group of layers, in the quickest way; piece by piece if the driver refuses a batch."""
        counts = [pair for t in tickets for pair in zip(t.copies, t.pages_done, strict=True)]
        if self.thresholds.choice:
            pieces: list[Piece] = [piece for copy, pages in counts for piece in addresses(copy, pages, low, high)]
            way = self.thresholds.way(len(pieces), sum(size for _, _, size in pieces))
            if way != "single":
                try:
                    self._together(way, pieces, stream)
                    return
                except CopyFailed:
                    # Whatever of it was started writes the same bytes.
                    self._batch, self.thresholds = None, replace(self.thresholds, batch_from=None)
        for copy, pages in counts:
            _copy(copy, pages, low, high)

    def fence(self) -> tuple[Fence, ...]:
        """What the current stream has been given to compute up to now."""
        event = cuda.Event()
        event.record()
        return (EventFence(event, self.compute_clock()),)

    def compute(
        self,
        work: Callable[[], None],
        after: Sequence[Fence] = (),
        writes: Sequence[tuple[Pool, Slots]] = (),
    ) -> None:
        """`work` puts its kernels on the current stream, which waits for these layers; the host goes on."""
        for fence in after:
            if isinstance(fence, LayerFence):
                assert isinstance(fence.ticket, CudaTicket)
                fence.ticket.wait_layer(fence.layer)
        work()

    def finish_computing(self) -> None:
        """Block the host until the current stream has done what it was given."""
        cuda.current_stream().synchronize()

    def wait(self, ticket: Ticket) -> None:
        """Block the host until the ticket has ended."""
        if isinstance(ticket, CudaTicket):
            ticket.sent()[-1][1].synchronize()
        else:
            self._threads.wait(ticket)

    def close(self) -> None:
        """Finish what is under way and stop the threads."""
        for direction, stream in self._streams.items():
            self._send(direction)
            stream.synchronize()
        self._threads.close()


def _copy(copy: Copy, pages: int, low: int, high: int) -> None:
    """One by one, on the current stream."""
    source, target = copy.source, copy.target
    assert isinstance(source, Pool)
    assert isinstance(target, Pool)
    for to, at, count, _ in pieces_of(copy, pages, low, high):
        target.data[to : to + count, low:high].copy_(source.data[at : at + count, low:high], non_blocking=True)
