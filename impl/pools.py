"""KV memory: one byte pool for each tier and component, page first, with its free list."""

from __future__ import annotations

import torch

from .config import NAMES, WORD, CacheConfig
from .pinned import pinned_pages
from .slots import SlotPool, Slots, as_array


class Pool:
    """`[pages, layers, words]` int64 on one tier. A slot is a page; a slot of the MAMBA pools is a whole
    state.

    SWA pages are owned on their own, not found through a map from FULL slots: a node that has lost its window
    keeps FULL, and no map can go stale.

    It is an end point of transfers: `read`, `write`, `hold`, `release`.

    Attributes:
        chunk: no copy reaches from one chunk of so many pages into the next.
    """

    __slots__ = ("chunk", "component", "data", "layer_bytes", "layers", "slots", "tier")

    def __init__(self, config: CacheConfig, tier: str, component: int) -> None:
        pages = config.pool_pages(tier, component)
        self.tier = tier
        self.component = component
        self.layers = config.layers
        self.slots = SlotPool(f"{tier}.{NAMES[component]}", pages)
        self.layer_bytes = config.layer_bytes
        self.chunk = max(1, pages)
        words = config.layer_bytes // WORD
        if tier == "host" and config.device == "cuda":
            self.data, self.chunk = pinned_pages(pages, config.layers, words)
        else:
            place = config.device if tier == "device" else "cpu"
            self.data = torch.zeros((pages, config.layers, words), dtype=torch.int64, device=place)

    def read(self, slot: int, low: int, high: int) -> torch.Tensor:
        """A copy of layers low … high-1 of one page."""
        return self.data[slot, low:high].clone()

    def write(self, slot: int, low: int, high: int, bytes_: torch.Tensor) -> None:
        """Overwrite layers low … high-1 of one page."""
        self.data[slot, low:high] = bytes_

    def hold(self, slots: Slots) -> None:
        """A transfer starts to touch these slots."""
        self.slots.hold(slots)

    def release(self, slots: Slots) -> None:
        """The transfer has ended."""
        self.slots.release(slots)

    def fill(self, slots: Slots, pages: torch.Tensor) -> None:
        """Write whole pages `[len(slots), layers, words]`."""
        self.data[self._index(slots)] = pages.to(self.data.device)

    def poison(self, slots: Slots, word: int) -> None:
        """Overwrite whole pages with one word."""
        if slots:
            self.data[self._index(slots)] = word

    def pages(self, slots: Slots) -> torch.Tensor:
        """Whole pages `[len(slots), layers, words]`, in CPU memory: to be looked at now, not kept."""
        return self.data[self._index(slots)].cpu()

    def _index(self, slots: Slots) -> slice | torch.Tensor:
        if isinstance(slots, range) and slots.step == 1:
            return slice(slots.start, slots.stop)
        return torch.frombuffer(as_array(slots), dtype=torch.int32).to(self.data.device)


class Pools:
    """All pools of a cache: `device[component]` and `host[component]`."""

    __slots__ = ("device", "host")

    def __init__(self, config: CacheConfig) -> None:
        self.device = {c: Pool(config, "device", c) for c in config.numbers}
        self.host = {c: Pool(config, "host", c) for c in config.numbers}

    def of(self, tier: str) -> dict[int, Pool]:
        """The pools of a tier, by component."""
        return self.device if tier == "device" else self.host

    def all(self) -> list[Pool]:
        """Every pool."""
        return [*self.device.values(), *self.host.values()]
