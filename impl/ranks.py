"""Several caches that are one: the ranks of a tensor-parallel group, each with its own shard of every page.

Every rank is asked for the same operations in the same order, and decides for itself. What may differ between ranks
enters a decision only by agreement: a transfer has ended when it has on all ranks, and it has failed if it has on any;
what was read of a prefetch is the least that any has read; storage has a page if all of its shards are there; a pool is
as large as the smallest. So all take the same victims and slots, and the group's events are those of a single cache.

That they do is not left to trust: whenever ranks agree on something they compare what they have done so far, by a
digest. Where it differs, the first event that does is shown from both sides.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import fields, replace
from hashlib import blake2b
from threading import Barrier
from typing import Any

from .cache import TieredCache
from .config import NAMES, CacheConfig
from .core import Event, Recorder
from .errors import BadConfig, RanksDiverged, StorageError
from .pools import Pool
from .slots import Slots
from .stores import Store, StoreSide
from .stores.base import Item
from .transfers import make_engine
from .transfers.base import Copy, Direction, Engine, Fault, Fence, LayerFence, Ticket

OWN = {"device_pages", "host_pages", "engine", "seed", "storage", "storage_limit", "queued_compute"} | {
    f"{name}_{tier}_pages" for name in NAMES[1:] for tier in ("device", "host")
}
"""Choices that ranks may differ in."""


class Agreement:
    """Where all ranks meet, each on a thread of its own, to tell each other something."""

    def __init__(self, ranks: int) -> None:
        self._barrier = Barrier(ranks)
        self._said: list[tuple[str, bytes, Any]] = [("", b"", None)] * ranks
        self.logs: list[list[Event]] = [[] for _ in range(ranks)]
        """What each has done since they last met."""

    def meet(self, rank: int, about: str, value: Any) -> list[Any]:
        """What every rank says, by rank. All are here for the same reason, having done the same.

        Raises RanksDiverged, on all ranks, if they are not.
        """
        digest = blake2b(json.dumps(self.logs[rank], sort_keys=True).encode(), digest_size=16).digest()
        self._said[rank] = about, digest, value
        self._barrier.wait()
        said = list(self._said)
        problem = None
        if any(other[:2] != said[0][:2] for other in said):
            problem = self._difference(said)
        self._barrier.wait()
        if problem is not None:
            raise problem
        self.logs[rank].clear()
        return [value for _, _, value in said]

    def _difference(self, said: list[tuple[str, bytes, Any]]) -> RanksDiverged:
        """The first event that differs between rank 0 and another, or what they are here for, if that does."""
        other = next(rank for rank, each in enumerate(said) if each[:2] != said[0][:2])
        ours, theirs = self.logs[0], self.logs[other]
        for at in range(max(len(ours), len(theirs))):
            first, second = (log[at] if at < len(log) else None for log in (ours, theirs))
            if first != second:
                seq = (first or second or {})["seq"]
                sides = [
                    json.dumps(event) if event is not None else f"nothing; {said[rank][0]}"
                    for rank, event in ((0, first), (other, second))
                ]
                return RanksDiverged(seq, other, *sides)
        return RanksDiverged(None, other, said[0][0], said[other][0])


class RankTicket(Ticket):
    """A transfer that has ended when its counterparts on all ranks have, and failed if one has.

    Attributes:
        inner: this rank's own.
    """

    def __init__(self, inner: Ticket, meet: Callable[[str, Any], list[Any]]) -> None:
        super().__init__(inner.direction, inner.copies, inner.after, inner.group)
        self.inner = inner
        self._meet = meet

    @property
    def ended(self) -> bool:
        """Asked by all ranks at the same point of what they do."""
        return self.over or self._agreed()

    def _agreed(self) -> bool:
        inner = self.inner
        own = (inner.error, inner.pages_done) if inner.ended else None
        told = self._meet(f"has a {self.direction} ended?", own)
        if not all(told):
            return False
        self.over = True
        failed = [f"rank {rank}: {error}" for rank, (error, _) in enumerate(told) if error is not None]
        self.error = "; ".join(failed) or None
        self.pages_done = [min(counts) for counts in zip(*(pages for _, pages in told), strict=True)]
        self.layers_done = inner.layers_done
        return True

    def cancel(self) -> None:
        """Stop as soon as the engines can."""
        self.cancelled = True
        self.inner.cancel()

    def release(self) -> None:
        """The end was taken notice of."""
        self.inner.release()


class RankEngine(Engine):
    """An engine of one rank. What it copies, and when, is its own affair; what is told of it is agreed."""

    def __init__(self, inner: Engine, meet: Callable[[str, Any], list[Any]]) -> None:
        super().__init__()
        self.inner = inner
        self.asynchronous = inner.asynchronous
        self.unwritten = inner.unwritten
        self._meet = meet

    def fail_next(self, direction: Direction, fault: Fault) -> None:
        """The next transfer of that direction will fail so, on this rank."""
        self.inner.fail_next(direction, fault)

    def submit(
        self, direction: Direction, copies: Sequence[Copy], after: Sequence[Fence] = (), group: int = 0
    ) -> Ticket:
        """Start a transfer on this rank, from or to its own store; see `Engine.submit`."""
        for side in (side for copy in copies for side in (copy.source, copy.target)):
            if isinstance(side, StoreSide) and isinstance(side.store, RankStore):
                side.store = side.store.inner
        self.inner.order = self.order
        return RankTicket(self.inner.submit(direction, copies, after, group), self._meet)

    def compute(
        self, work: Callable[[], None], after: Sequence[Fence] = (), writes: Sequence[tuple[Pool, Slots]] = ()
    ) -> None:
        """Compute on this rank, after layers that have arrived on this rank."""
        own = [
            LayerFence(fence.ticket.inner, fence.layer)
            if isinstance(fence, LayerFence) and isinstance(fence.ticket, RankTicket)
            else fence
            for fence in after
        ]
        self.inner.compute(work, own, writes)

    def finish_computing(self) -> None:
        """Return when all that was given to compute has been computed."""
        self.inner.finish_computing()

    def fence(self) -> tuple[Fence, ...]:
        """What has been computed on this rank up to now."""
        self.inner.order = self.order
        return self.inner.fence()

    def wait(self, ticket: Ticket) -> None:
        """Return when this rank's part has ended; the others wait for theirs."""
        assert isinstance(ticket, RankTicket)
        self.inner.wait(ticket.inner)

    def step(self, choice: int) -> bool:
        """One micro-step of this rank."""
        return self.inner.step(choice)

    @property
    def steps(self) -> int:
        """How many micro-steps this rank could do now."""
        return self.inner.steps

    def close(self) -> None:
        """Finish what is under way and stop."""
        self.inner.close()


class RankStore(Store):
    """A rank's part of the storage tier. What is asked of it between transfers is agreed: a page is there if all of its
    shards are, and was kept if all of them were.
    """

    def __init__(self, inner: Store, meet: Callable[[str, Any], list[Any]]) -> None:
        super().__init__(list(inner.layouts.values()))
        self.inner = inner
        self.errors = inner.errors
        self._meet = meet

    def has(self, name: bytes) -> bool:
        """All shards are there. A rank that cannot say has not got it."""
        try:
            own = self.inner.has(name)
        except StorageError:
            own = False
        return all(self._meet("is a page in storage?", own))

    def put(self, name: bytes, page: bytes) -> None:
        """Keep a page, where its operation is taken notice of. Raises StorageError if some rank cannot."""
        problem: str | None = None
        try:
            self.inner.put(name, page)
        except StorageError as error:
            problem = str(error)
        told = [f"rank {r}: {words}" for r, words in enumerate(self._meet("was a page kept?", problem)) if words]
        if told:
            raise StorageError("storage", "; ".join(told))

    def put_all(self, items: Sequence[Item]) -> None:
        """Keep pages, as a transfer of this rank does."""
        self.inner.put_all(items)

    def get(self, name: bytes) -> bytes | None:
        """This rank's shard."""
        return self.inner.get(name)

    def clear(self) -> None:
        """Forget this rank's shards."""
        self.inner.clear()

    def close(self) -> None:
        """Let go of files."""
        self.inner.close()

    def _write(self, items: Sequence[Item]) -> None:
        self.inner._write(items)

    def _read(self, name: bytes) -> bytes | None:
        return self.inner._read(name)

    def _has(self, name: bytes) -> bool:
        return self.inner._has(name)

    def _drop(self, name: bytes) -> None:
        self.inner._drop(name)

    def _clear(self) -> None:
        self.inner._clear()

    def _mark(self, component: str) -> bytes | None:
        return self.inner._mark(component)

    def _set_mark(self, component: str, fingerprint: bytes) -> None:
        self.inner._set_mark(component, fingerprint)


class Ranks:
    """A group of caches that is asked as one.

    Args:
        configs: one a rank; sizes, engines, seeds and places of storage may differ. Every pool gets the least size.
        stores: the storage tier of each rank, if there is one.
        recorder: called with the group's events, once each.

    Raises:
        BadConfig: fewer than two ranks, or they differ in what must not differ.

    Attributes:
        caches: rank by rank; look, but operate through `call` only.
    """

    def __init__(
        self, configs: Sequence[CacheConfig], *, stores: Sequence[Store] = (), recorder: Recorder | None = None
    ) -> None:
        agreed = _least(configs)
        self.agreement = Agreement(len(configs))
        self._recorder = recorder
        self._threads = ThreadPoolExecutor(len(configs), thread_name_prefix="pinproof-rank")
        self.caches: list[TieredCache] = []
        for rank, own in enumerate(configs):
            meet = self._meeting(rank)
            config = replace(agreed, **{name: getattr(own, name) for name in OWN if not name.endswith("_pages")})
            self.caches.append(
                TieredCache(
                    config,
                    recorder=self._hearing(rank),
                    store=RankStore(stores[rank], meet) if stores else None,
                    transfers=RankEngine(make_engine(config), meet),
                )
            )

    def call(self, operation: str, *args: Any, **kwargs: Any) -> Any:
        """Do one operation of `TieredCache` on all ranks; nodes and operations are named by id. Returns rank 0's
        answer, and raises what all of them raise.

        Raises RanksDiverged if ranks did not do the same.
        """
        done: list[Future[Any]] = [
            self._threads.submit(self._one, rank, operation, args, kwargs) for rank in range(len(self.caches))
        ]
        answers = [each.exception() or each.result() for each in done]
        if isinstance(answers[0], BaseException):
            raise answers[0]
        return answers[0]

    def step(self, rank: int, choice: int = 0) -> bool:
        """Let a stepped engine of one rank do one micro-step."""
        return self.caches[rank].step(choice)

    def fail(self, rank: int, kind: Direction, fault: Fault = "failed") -> None:
        """The next transfer of that direction will fail so on one rank."""
        self.caches[rank].fail(kind, fault)

    def close(self) -> None:
        """Stop all ranks."""
        for cache in self.caches:
            cache.close()
        self._threads.shutdown()

    def _one(self, rank: int, operation: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        answer, problem = None, None
        try:
            answer = getattr(self.caches[rank], operation)(*args, **kwargs)
        except RanksDiverged:
            raise
        except Exception as error:
            problem = error
        outcome = "done" if problem is None else f"{type(problem).__name__}: {problem}"
        self.agreement.meet(rank, f"end of {operation}: {outcome}", None)
        if problem is not None:
            raise problem
        return answer

    def _meeting(self, rank: int) -> Callable[[str, Any], list[Any]]:
        return lambda about, value: self.agreement.meet(rank, about, value)

    def _hearing(self, rank: int) -> Recorder:
        log, told = self.agreement.logs[rank], self._recorder if rank == 0 else None

        def hear(event: Event) -> None:
            log.append(event)
            if told is not None:
                told(event)

        return hear


def _least(configs: Sequence[CacheConfig]) -> CacheConfig:
    """What all ranks have: every pool is as large as the smallest."""
    if len(configs) < 2:
        raise BadConfig("configs", f"{len(configs)} ranks are no group")
    first = configs[0]
    for field in fields(CacheConfig):
        if field.name not in OWN and any(getattr(c, field.name) != getattr(first, field.name) for c in configs):
            raise BadConfig(field.name, "ranks differ in it")
    sizes: dict[str, Any] = dict(_sizes(configs))
    return replace(first, **sizes)


def _sizes(configs: Sequence[CacheConfig]) -> Iterable[tuple[str, int]]:
    for tier in ("device", "host"):
        for component in configs[0].numbers:
            name = f"{tier}_pages" if component == 0 else f"{NAMES[component]}_{tier}_pages"
            yield name, min(config.pool_pages(tier, component) for config in configs)
