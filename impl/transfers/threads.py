"""The engine with real concurrency on a CPU: worker threads copy while the cache goes on."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from ..pools import Pool
from .base import Copy, Engine, LayerFence, Ticket, runs


class ThreadEngine(Engine):
    """Transfers start in the order of submission and run on `workers` threads.

    `gate` can be closed, so that a test can act while copies are under way without relying on time.
    """

    def __init__(self, workers: int = 2) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self._ends: dict[Ticket, threading.Event] = {}
        self._progress = threading.Condition()
        self._workers = ThreadPoolExecutor(workers, thread_name_prefix="pinproof-copy")

    def _start(self, ticket: Ticket) -> None:
        self._ends[ticket] = threading.Event()
        self._workers.submit(self._run, ticket)

    def _run(self, ticket: Ticket) -> None:
        try:
            # Whatever it waits for was submitted before, so some worker has it or has had it.
            for fence in ticket.after:
                if isinstance(fence, Ticket) and (end := self._ends.get(fence)) is not None:
                    end.wait()
            self.gate.wait()
            if ticket.fault != "failed":
                for low, high in ticket.layer_groups():
                    done = [_copy(ticket, n, copy, low, high) for n, copy in enumerate(ticket.copies)]
                    if not all(done):
                        break
                    with self._progress:
                        ticket.layers_done = high
                        self._progress.notify_all()
            if any(n < len(copy.sources) for n, copy in zip(ticket.pages_done, ticket.copies, strict=True)):
                ticket.error = "cancelled" if ticket.cancelled else f"{ticket.fault or 'failed'} (injected)"
        except Exception as problem:
            ticket.error = f"{type(problem).__name__}: {problem}"
        finally:
            with self._progress:
                ticket.end()
                self._progress.notify_all()
            self._ends.pop(ticket).set()

    def wait_layer(self, fence: LayerFence) -> None:
        """Block until a layer has arrived. The gate must be open."""
        with self._progress:
            self._progress.wait_for(lambda: fence.ended)

    def wait(self, ticket: Ticket) -> None:
        """Block until the ticket has ended. The gate must be open."""
        end = self._ends.get(ticket)
        if end is not None:
            end.wait()

    def close(self) -> None:
        """Finish what is under way and stop the threads."""
        self.gate.set()
        self._workers.shutdown()


def _copy(ticket: Ticket, number: int, copy: Copy, low: int, high: int) -> bool:
    """One layer group of one copy; False if it did not copy every page."""
    pages = len(copy.sources)
    last = high >= copy.source.layers
    if ticket.fault == "partial":
        pages //= 2
    source, target = copy.source, copy.target
    if isinstance(source, Pool) and isinstance(target, Pool):
        # numpy finds a page in a tenth of the time that torch takes.
        there, here = target.data.numpy(), source.data.numpy()
        if (low, high) != (0, source.layers):
            there, here = there[:, low:high], here[:, low:high]
        for at, to, count in runs(copy.sources[:pages], copy.targets[:pages]):
            there[to : to + count] = here[at : at + count]
            if last:
                ticket.pages_done[number] += count
    else:
        for row in range(pages):
            if ticket.cancelled:
                return False
            target.write(copy.targets[row], low, high, source.read(copy.sources[row], low, high))
            if last:
                ticket.pages_done[number] = row + 1
    return pages == len(copy.sources)
