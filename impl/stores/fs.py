"""Pages as files, on whatever fsspec can open: a local directory, memory, an object store.

A page is written under a temporary name and moved: under its own name it is whole.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..errors import ForeignStorage, StorageError, StorageUnavailable
from .base import Item, Layout, Store
from .problems import told

_INCOMING, _LAYOUTS, _PAGES = "incoming", "layouts", "pages"


class FsspecStore(Store):
    """One folder of a file system.

    What a process that was killed has left in `incoming` is swept away when the folder is opened; of another process
    that is writing there just then, the pages in flight are lost.

    Args:
        url: `file:///somewhere`, `memory://somewhere`, …

    Raises:
        ForeignStorage: something else is in the folder, or pages of another layout.
        StorageReadOnly, StorageUnavailable: it cannot be used, or fsspec is not installed.
    """

    def __init__(self, url: str, layouts: Sequence[Layout]) -> None:
        super().__init__(layouts)
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise StorageUnavailable("storage", "fsspec is not installed: pip install 'pinproof[storage]'") from None
        self.url = url
        with self._told("cannot be opened"):
            self._fs: Any
            self._fs, root = url_to_fs(url)
            self._root = root.rstrip("/")
            self._fs.makedirs(self._root, exist_ok=True)
            found = {entry.rstrip("/").rpartition("/")[2] for entry in self._fs.ls(self._root, detail=False)}
            if others := found - {_INCOMING, _LAYOUTS, _PAGES}:
                raise ForeignStorage("storage", f"{url} holds other things: {', '.join(sorted(others)[:5])}")
            if _INCOMING in found:
                self._fs.rm(f"{self._root}/{_INCOMING}", recursive=True)
            for folder in (_INCOMING, _LAYOUTS, _PAGES):
                self._fs.makedirs(f"{self._root}/{folder}", exist_ok=True)
        self.check_layouts(url)

    def close(self) -> None:
        """Nothing is kept open."""

    @contextmanager
    def _told(self, words: str) -> Iterator[None]:
        try:
            yield
        except StorageError:
            raise
        except (OSError, ValueError, ImportError) as problem:
            raise told(problem, f"{self.url} {words}") from None

    def _place(self, name: bytes) -> str:
        component, _, page_hash = name.partition(b":")
        digits = page_hash.hex()
        return f"{self._root}/{_PAGES}/{component.decode()}/{digits[:2]}/{digits}"

    def _keep(self, place: str, bytes_: bytes) -> None:
        with self._told("cannot be written"):
            incoming = f"{self._root}/{_INCOMING}/{uuid.uuid4().hex}"
            with self._fs.open(incoming, "wb") as file:
                file.write(bytes_)
            self._fs.makedirs(place.rpartition("/")[0], exist_ok=True)
            self._fs.mv(incoming, place)

    def _bytes(self, place: str) -> bytes | None:
        with self._told("cannot be read"):
            try:
                found: bytes = self._fs.cat_file(place)
            except FileNotFoundError:
                return None
            return found

    def _write(self, items: Sequence[Item]) -> None:
        for name, page in items:
            self._keep(self._place(name), page)

    def _read(self, name: bytes) -> bytes | None:
        return self._bytes(self._place(name))

    def _has(self, name: bytes) -> bool:
        with self._told("cannot be read"):
            return bool(self._fs.exists(self._place(name)))

    def _drop(self, name: bytes) -> None:
        with self._told("cannot be written"):
            self._fs.rm_file(self._place(name))

    def _clear(self) -> None:
        with self._told("cannot be written"):
            self._fs.rm(f"{self._root}/{_PAGES}", recursive=True)
            self._fs.makedirs(f"{self._root}/{_PAGES}", exist_ok=True)

    def _mark(self, component: str) -> bytes | None:
        return self._bytes(f"{self._root}/{_LAYOUTS}/{component}.json")

    def _set_mark(self, component: str, fingerprint: bytes) -> None:
        self._keep(f"{self._root}/{_LAYOUTS}/{component}.json", fingerprint)
