"""Pages in an LMDB directory: what was kept is there after a crash, of the process or of the machine.

LMDB commits by copying: a page is in the last complete commit or it is not there. Commits reach the disk before they
count; only the very last one may be lost if the machine goes down (`metasync=False`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from shutil import disk_usage
from typing import Any, ClassVar

from ..errors import ForeignStorage, StorageError, StorageFull, StorageUnavailable
from .base import Item, Layout, Store
from .problems import told

FILES = {"data.mdb", "lock.mdb"}
FIRST_MAP = 1 << 22
"""Bytes of address space that a new directory begins with; doubled whenever they are full."""
NEAR_FULL = 1 << 16
"""Free bytes of a disk below which a failed write is put down to that."""
_MARKS, _PAGES = b"layouts", b"pages"


class LmdbStore(Store):
    """One directory. Several processes may use it at a time.

    Args:
        place: made if it is not there; nothing else may be in it.
        limit: bytes that it may take up, at least 1 MiB.

    Raises:
        ForeignStorage: something else is in the directory, or pages of another layout.
        StorageReadOnly: it cannot be written to.
        StorageUnavailable: it cannot be opened; this process has it open already; `lmdb` is not installed.
    """

    batch: ClassVar[int] = 32

    def __init__(self, place: str | PathLike[str], layouts: Sequence[Layout], *, limit: int = 1 << 34) -> None:
        super().__init__(layouts)
        try:
            import lmdb
        except ImportError:
            raise StorageUnavailable("storage", "lmdb is not installed: pip install 'pinproof[storage]'") from None
        self._lmdb: Any = lmdb
        self.place = Path(place)
        self.limit = limit
        self._lock = threading.RLock()
        with self._told("cannot be opened"):
            new = self._look()
            self._env = lmdb.open(str(self.place), map_size=min(FIRST_MAP, limit), max_dbs=2, metasync=False)
        try:
            with self._told("cannot be opened"):
                self._open(new)
            self.check_layouts(str(self.place))
        except BaseException:
            self._env.close()
            raise

    def _look(self) -> bool:
        """Nobody has used the directory before."""
        self.place.mkdir(parents=True, exist_ok=True)
        others = {entry.name for entry in self.place.iterdir()} - FILES
        if others:
            raise ForeignStorage("storage", f"{self.place} holds other things: {', '.join(sorted(others)[:5])}")
        return not (self.place / "data.mdb").exists()

    def _open(self, new: bool) -> None:
        env = self._env
        self._names = set()
        with env.begin() as transaction:
            self._names = {bytes(name) for name in transaction.cursor().iternext(values=False)}
        if self._names - {_MARKS, _PAGES} or (not new and self._names and _MARKS not in self._names):
            raise ForeignStorage("storage", f"{self.place} is the LMDB directory of something else")
        self._marks = env.open_db(_MARKS)
        self._pages = env.open_db(_PAGES)

    @contextmanager
    def _told(self, words: str) -> Iterator[None]:
        """Errors of the library and the system by our names."""
        try:
            yield
        except StorageError:
            raise
        except self._lmdb.InvalidError as problem:
            raise ForeignStorage("storage", f"{self.place} is no LMDB directory: {problem}") from None
        except self._lmdb.MapFullError:
            raise StorageFull("storage", f"{self.place} has taken up its limit of {self.limit} bytes") from None
        except (OSError, self._lmdb.Error) as problem:
            if self.place.is_dir() and disk_usage(self.place).free < NEAR_FULL:
                # Half a write is all that LMDB may have noticed of it.
                raise StorageFull("storage", f"{self.place} {words}: the disk is full ({problem})") from None
            raise told(problem, f"{self.place} {words}") from None

    @contextmanager
    def _transaction(self, *, write: bool = False) -> Iterator[Any]:
        # One at a time: the map may only grow while nobody is looking.
        with self._lock, self._told("cannot be written" if write else "cannot be read"):
            try:
                transaction = self._env.begin(write=write)
            except self._lmdb.MapResizedError:
                self._env.set_mapsize(0)
                transaction = self._env.begin(write=write)
            with transaction:
                yield transaction

    def _write(self, items: Sequence[Item]) -> None:
        while True:
            try:
                with self._transaction(write=True) as transaction:
                    for name, page in items:
                        transaction.put(name, page, db=self._pages)
                return
            except StorageFull:
                if not self._grow():
                    raise

    def _grow(self) -> bool:
        """Twice the room, up to the limit; False if it was reached."""
        with self._lock:
            now = self._env.info()["map_size"]
            if now >= self.limit:
                return False
            self._env.set_mapsize(min(2 * now, self.limit))
            return True

    def _read(self, name: bytes) -> bytes | None:
        with self._transaction() as transaction:
            found: bytes | None = transaction.get(name, db=self._pages)
            return found

    def _has(self, name: bytes) -> bool:
        with self._transaction() as transaction:
            return bool(transaction.cursor(db=self._pages).set_key(name))

    def _drop(self, name: bytes) -> None:
        with self._transaction(write=True) as transaction:
            transaction.delete(name, db=self._pages)

    def _clear(self) -> None:
        with self._transaction(write=True) as transaction:
            transaction.drop(self._pages, delete=False)

    def _mark(self, component: str) -> bytes | None:
        with self._transaction() as transaction:
            found: bytes | None = transaction.get(component.encode(), db=self._marks)
            return found

    def _set_mark(self, component: str, fingerprint: bytes) -> None:
        with self._transaction(write=True) as transaction:
            transaction.put(component.encode(), fingerprint, db=self._marks)

    def close(self) -> None:
        """Let go of the directory."""
        with self._lock:
            self._env.close()
