"""What every store has in common: names of pages, seals that are checked at each read, and the layout that a store is
of.

A store keeps pages by name. Equal names have equal pages, so that keeping one again does no harm, and a page that a
store has is whole. What it was given comes back or an error does, never other bytes.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import ClassVar

from ..config import NAMES, WORD, CacheConfig
from ..errors import CorruptPage, ForeignStorage, StorageError

FORMAT = 1
"""Counts up when names, seals or layouts are written in another way."""
SEAL = 16
"""Bytes before each page that say whose it is and that it is whole."""

Item = tuple[bytes, bytes]
"""A page's name and its bytes."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How the pages of one component are made. Pages of another layout mean something else, byte by byte.

    Attributes:
        component: "full", "swa" or "mamba".
        tokens: tokens a page, of which its name is made.
        layers, layer_bytes: a page is `layers` times `layer_bytes` bytes.
        words: type of the words that it was written as, with their byte order.
        model: what computed the bytes, `CacheConfig.model`.
    """

    component: str
    tokens: int
    layers: int
    layer_bytes: int
    words: str = f"<i{WORD}"
    model: str = ""
    format: int = FORMAT

    @property
    def page_bytes(self) -> int:
        """Bytes a page."""
        return self.layers * self.layer_bytes

    def fingerprint(self) -> bytes:
        """The layout as it is kept beside the pages."""
        return json.dumps(asdict(self), sort_keys=True).encode()


def layouts(config: CacheConfig) -> tuple[Layout, ...]:
    """The layout of each component of a cache."""
    return tuple(
        Layout(c, config.page_size, config.layers, config.layer_bytes, model=config.model) for c in config.components
    )


class Store(ABC):
    """Keeps pages, from several threads at a time.

    Attributes:
        batch: pages that are best kept in one go.
        errors: what it could not do, by type of error; `CorruptPage` counts pages that were dropped.
    """

    batch: ClassVar[int] = 1

    def __init__(self, layouts: Sequence[Layout]) -> None:
        self.layouts = {layout.component: layout for layout in layouts}
        self.errors: Counter[str] = Counter()
        self._page_bytes = {layout.component.encode(): layout.page_bytes for layout in layouts}

    # What callers use
    def put(self, name: bytes, page: bytes) -> None:
        """Keep a page. Raises StorageError if it cannot; then it is not kept."""
        self.put_all([(name, page)])

    def put_all(self, items: Sequence[Item]) -> None:
        """Keep pages. Raises StorageError; each is kept or not then, none in part."""
        for name, page in items:
            wanted = self._wanted(name)
            if wanted is not None and len(page) != wanted:
                raise CorruptPage("page", f"{len(page)} bytes, where pages have {wanted}")
        with self._counted():
            self._write([(name, seal(name, page) + page) for name, page in items])

    def get(self, name: bytes) -> bytes | None:
        """The page, or None. Raises CorruptPage, and drops it, if it is not as it was kept; StorageError if it cannot
        be read.
        """
        with self._counted():
            found = self._read(name)
            if found is None:
                return None
            page = found[SEAL:]
            wanted = self._wanted(name)
            if found[:SEAL] != seal(name, page) or (wanted is not None and len(page) != wanted):
                self._drop(name)
                raise CorruptPage("storage", f"page {name.hex()} is not as it was kept")
            return page

    def has(self, name: bytes) -> bool:
        """The page is there now. StorageError if nobody can say."""
        with self._counted():
            return self._has(name)

    def clear(self) -> None:
        """Forget every page."""
        self._clear()

    @abstractmethod
    def close(self) -> None:
        """Let go of files. Nothing else may be called afterwards."""

    @contextmanager
    def _counted(self) -> Iterator[None]:
        try:
            yield
        except StorageError as problem:
            self.errors[type(problem).__name__] += 1
            raise

    def _wanted(self, name: bytes) -> int | None:
        return self._page_bytes.get(name.partition(b":")[0])

    def check_layouts(self, place: str) -> None:
        """Compare the fingerprints beside the pages with this cache's; write those that are not there yet.

        Raises ForeignStorage, StorageError.
        """
        for layout in self.layouts.values():
            own, found = layout.fingerprint(), self._mark(layout.component)
            if found is None:
                self._set_mark(layout.component, own)
            elif found != own:
                raise ForeignStorage(
                    "storage",
                    f"{place} keeps pages of another layout: {found.decode(errors='replace')}, not {own.decode()}",
                )

    # What each kind of store does
    @abstractmethod
    def _write(self, items: Sequence[Item]) -> None:
        """Keep sealed pages; when it returns, they outlive the process."""

    @abstractmethod
    def _read(self, name: bytes) -> bytes | None:
        """A sealed page, or what is left of it."""

    @abstractmethod
    def _has(self, name: bytes) -> bool: ...

    @abstractmethod
    def _drop(self, name: bytes) -> None: ...

    @abstractmethod
    def _clear(self) -> None: ...

    @abstractmethod
    def _mark(self, component: str) -> bytes | None:
        """The fingerprint that is kept for a component."""

    @abstractmethod
    def _set_mark(self, component: str, fingerprint: bytes) -> None: ...


def seal(name: bytes, page: bytes) -> bytes:
    """What says that these are the bytes of this very page."""
    return blake2b(page, digest_size=SEAL, key=name[:64]).digest()


def store_key(component: int, page_hash: bytes) -> bytes:
    """The name of one page of one component. The hash is chained from the page's namespace on: see `content`."""
    return NAMES[component].encode() + b":" + page_hash


def leading(store: Store, component: int, hashes: Sequence[bytes]) -> int:
    """How many of these pages, from the first on, the store has."""
    for found, page_hash in enumerate(hashes):
        if not store.has(store_key(component, page_hash)):
            return found
    return len(hashes)
