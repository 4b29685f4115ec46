"""The static choices of a cache."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Final

from .errors import BadConfig

FULL: Final = 0
SWA: Final = 1
MAMBA: Final = 2
NAMES: Final = ("full", "swa", "mamba")
"""Components by number: attention over everything, over a sliding window, and recurrent state."""

POLICIES: Final = ("write_back", "write_through", "write_through_selective")
ENGINES: Final = ("stepped", "threads", "cuda")
STRATEGIES: Final = ("lru", "lfu", "fifo", "priority")
WRITES: Final = ("ack", "asked")
SMALLEST_STORAGE: Final = 1 << 20
WORD: Final = 8
"""Bytes of the int64 words that pools are made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheConfig:
    """Sizes and policies. Pools are counted in pages; the state of one MAMBA node is one page of its pool.

    Attributes:
        policy: when host copies are made; `write_through_selective` waits for `threshold` hits.
        components: "full", and "swa" or "mamba" or both.
        page_size: tokens a page.
        device_pages, host_pages: size of the FULL pools; the others' are the same unless given.
        window: tokens that sliding-window attention looks back.
        layers, layer_bytes: a page is `layers` times `layer_bytes` bytes; `layer_bytes` is a multiple of 8.
        content: pages are filled on insert with what their tokens determine, so that each can be told from
            all others. Off, slots are only kept books of, as below an engine that writes the pages itself.
        group: layers that are copied together; 0 for all.
        storage: the tier below the host: none, in memory (True), an LMDB directory, or a URL that fsspec opens.
        storage_limit: bytes that an LMDB directory may take up.
        storage_writes: what has arrived on the host is written to storage at the "ack" of its backup, or when "asked".
        model: what computes the bytes, with its revision and type of numbers: storage keeps pages of one model.
        verify: `forward` reads the pages it is about and raises if they are not its tokens'.
        seed: order of the micro-steps of a stepped engine that is waited for.
        queued_compute: the stepped engine lets requests compute in steps of their own, as on a GPU.
        happens_before: raise `UnorderedAccess` where two accesses to a page are ordered by nothing but luck.
        poison: overwrite what is freed, so that whoever still reads it is seen.
    """

    policy: str = "write_back"
    components: tuple[str, ...] = ("full",)
    page_size: int = 1
    device_pages: int = 64
    host_pages: int = 64
    swa_device_pages: int | None = None
    swa_host_pages: int | None = None
    mamba_device_pages: int | None = None
    mamba_host_pages: int | None = None
    window: int = 4
    threshold: int = 2
    layers: int = 2
    layer_bytes: int = 16
    group: int = 0
    content: bool = True
    verify: bool = False
    storage: bool | str | PathLike[str] = False
    storage_limit: int = 1 << 34
    storage_writes: str = "ack"
    model: str = ""
    engine: str = "stepped"
    device: str = "cpu"
    eviction: str = "lru"
    seed: int = 0
    queued_compute: bool = False
    happens_before: bool = False
    poison: bool = False

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise BadConfig("policy", f"{self.policy!r} is none of {', '.join(POLICIES)}")
        order = [c for c in NAMES if c in self.components]
        if tuple(order) != tuple(self.components) or "full" not in order:
            raise BadConfig("components", f"{self.components!r} is not 'full' and some of 'swa', 'mamba' in this order")
        for name, choices in (("engine", ENGINES), ("eviction", STRATEGIES), ("storage_writes", WRITES)):
            if getattr(self, name) not in choices:
                raise BadConfig(name, f"{getattr(self, name)!r} is none of {', '.join(choices)}")
        for name in ("page_size", "device_pages", "host_pages", "window", "threshold", "layers"):
            if not _positive(getattr(self, name)):
                raise BadConfig(name, f"{getattr(self, name)!r} is not a positive integer")
        for name in ("swa_device_pages", "swa_host_pages", "mamba_device_pages", "mamba_host_pages"):
            if getattr(self, name) is not None and not _positive(getattr(self, name)):
                raise BadConfig(name, f"{getattr(self, name)!r} is neither None nor a positive integer")
        if self.layer_bytes < 0 or self.layer_bytes % WORD:
            raise BadConfig("layer_bytes", f"{self.layer_bytes!r} is not a multiple of {WORD}")
        if self.content and not self.layer_bytes:
            raise BadConfig("layer_bytes", "content needs at least one word a layer")
        if not _positive(self.storage_limit) or self.storage_limit < SMALLEST_STORAGE:
            raise BadConfig("storage_limit", f"{self.storage_limit!r} is less than {SMALLEST_STORAGE} bytes")
        if not 0 <= self.group <= self.layers:
            raise BadConfig("group", f"{self.group!r} is not within 0 and layers={self.layers}")
        if self.queued_compute and self.engine != "stepped":
            raise BadConfig("queued_compute", f"{self.engine!r} has no queue of its own")
        if (self.device == "cuda") != (self.engine == "cuda"):
            raise BadConfig("engine", f"{self.engine!r} does not serve device={self.device!r}")

    @property
    def write_back(self) -> bool:
        """Host copies are made when the device needs room, not as soon as there is something to copy."""
        return self.policy == "write_back"

    @property
    def numbers(self) -> tuple[int, ...]:
        """The components by number."""
        return tuple(NAMES.index(c) for c in self.components)

    @property
    def window_pages(self) -> int:
        """Pages that cover the sliding window."""
        return -(-self.window // self.page_size)

    def pool_pages(self, tier: str, component: int) -> int:
        """How many pages the pool of a tier and component has."""
        default: int = getattr(self, f"{tier}_pages")
        if component == FULL:
            return default
        own: int | None = getattr(self, f"{NAMES[component]}_{tier}_pages")
        return default if own is None else own


def _positive(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
