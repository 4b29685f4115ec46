"""A store in memory, for tests and for lack of a better one."""

from __future__ import annotations

from collections.abc import Sequence

from .base import Item, Layout, Store


class MemoryStore(Store):
    """Keeps pages as long as it lives.

    Attributes:
        pages: sealed pages by name.
    """

    def __init__(self, layouts: Sequence[Layout] = ()) -> None:
        super().__init__(layouts)
        self.pages: dict[bytes, bytes] = {}
        self._marks: dict[str, bytes] = {}
        self.check_layouts("memory")

    def close(self) -> None:
        """Nothing to let go of."""

    def _write(self, items: Sequence[Item]) -> None:
        self.pages.update(items)

    def _read(self, name: bytes) -> bytes | None:
        return self.pages.get(name)

    def _has(self, name: bytes) -> bool:
        return name in self.pages

    def _drop(self, name: bytes) -> None:
        self.pages.pop(name, None)

    def _clear(self) -> None:
        self.pages.clear()

    def _mark(self, component: str) -> bytes | None:
        return self._marks.get(component)

    def _set_mark(self, component: str, fingerprint: bytes) -> None:
        self._marks[component] = fingerprint
