"""What requests compute on device pages, in the order of one stream: writes, reads, and the end of a page's use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch

from .happens_before import COMPUTE, HOST, READ, WRITE, HappensBefore
from .pools import Pool
from .slots import Slots
from .transfers.base import Engine, Fence

POISON = 0x5BADC0DE_DEADF00D
"""Each word of a freed page, in builds that poison."""

Part = tuple[Pool, Slots]


class Computing:
    """Tells the engine what is computed, and `order`, if there is one, what that touches.

    Args:
        order: checks that every access is ordered; None in ordinary builds.
        poison: overwrite what is freed.
    """

    def __init__(self, engine: Engine, order: HappensBefore | None, poison: bool) -> None:
        self.engine = engine
        self.order = order
        self.poison = poison
        self.watched = poison or order is not None
        """Somebody wants to be told of freed pages."""
        self._readers: dict[int, int] = {}

    def write(self, pool: Pool, slots: Slots, pages: torch.Tensor) -> None:
        """A request computes these pages."""
        self._touch([(pool, slots)], WRITE)
        self.engine.compute(lambda: pool.fill(slots, pages), writes=[(pool, slots)])

    def read(
        self, parts: Sequence[Part], layers: tuple[int, int] | None, after: Iterable[Fence], look: Callable[[], None]
    ) -> None:
        """A request reads pages, of all layers or of some, when all of `after` has happened. `look` is what it does."""
        fences = tuple(after)
        self._touch(parts, READ, layers, fences)
        self.engine.compute(look, after=fences)

    def read_now(self, parts: Sequence[Part]) -> None:
        """The host is about to read these pages; those on the device after all that was to be computed."""
        on_device = any(pool.tier == "device" for pool, _ in parts)
        if on_device:
            self.engine.finish_computing()
        if self.order is not None:
            if on_device:
                self.order.host_knows(self.order.clock(COMPUTE))
            self.order.access(HOST, parts, READ)

    def free(self, pool: Pool, slots: Slots) -> None:
        """Nobody is to use these pages any more: a write, since somebody else may write them from now on. On the device
        it comes after what has been computed, on the host now.
        """
        on_device = pool.tier == "device"
        if on_device:
            self._touch([(pool, slots)], WRITE)
        elif self.order is not None:
            self.order.access(HOST, [(pool, slots)], WRITE)
        if not self.poison:
            return
        if on_device:
            self.engine.compute(lambda: pool.poison(slots, POISON), writes=[(pool, slots)])
        else:
            pool.poison(slots, POISON)

    def written(self, pool: Pool, slots: Slots) -> bool:
        """No write of these pages is still to be computed."""
        unwritten = self.engine.unwritten
        return not unwritten or not any((pool, slot) in unwritten for slot in slots)

    # Requests go on reading what they have read once, until they let go of it.
    def reads_on(self, reader: int, parts: Sequence[Part]) -> None:
        """From now on a request may read these pages at any moment."""
        if self.order is not None:
            self.stops_reading(reader)
            number = self.order.open(f"request {reader}", (self.order.clock(COMPUTE),))
            self._readers[reader] = number
            self.order.access(number, parts, READ)

    def stops_reading(self, reader: int) -> bool:
        """A request has let go. False if it was not reading."""
        number = self._readers.pop(reader, None)
        if number is None:
            return False
        assert self.order is not None
        self.order.close(number)
        return True

    def _touch(
        self, parts: Sequence[Part], kind: int, layers: tuple[int, int] | None = None, after: Sequence[Fence] = ()
    ) -> None:
        if self.order is not None:
            self.order.enqueue(fence.clock for fence in after if fence.clock is not None)
            self.order.access(COMPUTE, parts, kind, layers)
            self.order.computed()
