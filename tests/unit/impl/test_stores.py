"""Stores: what was kept comes back whole or not at all, and what cannot be used says why."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pinproof.impl import (
    BadConfig,
    CacheConfig,
    CorruptPage,
    ForeignStorage,
    NothingToDo,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StorageUnavailable,
    TieredCache,
)
from pinproof.impl.stores import MemoryStore, Store, layouts, open_store, store_key
from pinproof.impl.stores.base import SEAL
from pinproof.impl.stores.fs import FsspecStore
from pinproof.impl.stores.lmdb import LmdbStore

PAGE = bytes(range(32))
NAME, OTHER = store_key(0, b"n" * 16), store_key(0, b"o" * 16)


def config(place: bool | str, **choices: object) -> CacheConfig:
    return CacheConfig(storage=place, **choices)  # type: ignore[arg-type]


@pytest.fixture
def store(place: bool | str) -> Iterator[Store]:
    found = open_store(config(place))
    assert found is not None
    yield found
    found.close()


def test_no_tier_is_no_store() -> None:
    assert open_store(config(False)) is None
    assert open_store(config("")) is None
    assert isinstance(open_store(config(True)), MemoryStore)


def test_a_page_is_kept_and_forgotten(store: Store) -> None:
    assert store.get(NAME) is None
    assert not store.has(NAME)
    store.put_all([(NAME, PAGE), (NAME, PAGE)])
    store.put(OTHER, PAGE[::-1])
    assert (store.get(NAME), store.get(OTHER)) == (PAGE, PAGE[::-1])
    assert store.has(NAME)
    store.clear()
    assert not store.has(NAME)
    assert store.get(OTHER) is None
    store.put(NAME, PAGE)
    assert store.get(NAME) == PAGE


def test_components_do_not_meet(store: Store) -> None:
    store.put(store_key(0, b"n" * 16), PAGE)
    assert store.get(store_key(1, b"n" * 16)) is None


@pytest.mark.parametrize("damage", ["flipped", "cut", "another's", "empty"])
def test_other_bytes_are_never_served(store: Store, damage: str) -> None:
    store.put(NAME, PAGE)
    store.put(OTHER, PAGE[::-1])
    sealed = store._read(NAME)
    assert sealed is not None
    assert sealed[SEAL:] == PAGE
    worse = {
        "flipped": sealed[:-1] + bytes([sealed[-1] ^ 1]),
        "cut": sealed[:-8],
        "another's": store._read(OTHER) or b"",
        "empty": b"",
    }[damage]
    store._write([(NAME, worse)])
    with pytest.raises(CorruptPage, match="not as it was kept"):
        store.get(NAME)
    assert store.errors == {"CorruptPage": 1}
    assert store.get(NAME) is None
    store.put(NAME, PAGE)
    assert store.get(NAME) == PAGE


def test_a_page_of_another_size_is_not_kept(store: Store) -> None:
    with pytest.raises(CorruptPage, match="8 bytes, where pages have 32"):
        store.put(NAME, PAGE[:8])
    assert not store.has(NAME)


def test_it_outlives_the_cache(tmp_path: Path) -> None:
    for place in (str(tmp_path / "pages"), (tmp_path / "files").as_uri()):
        first = TieredCache(storage=place)
        first.wait(first.backup(first.insert([1, 2, 3])))
        (writing,) = first.holders
        first.wait(writing)
        first.close()
        second = TieredCache(storage=place)
        receipt = second.prefetch([1, 2, 3])
        second.wait(receipt)
        assert second.finish_prefetch(receipt) is not None
        assert second.match([1, 2, 3]).tokens == 3
        assert second.audit() == []
        second.close()


@pytest.mark.parametrize(
    "other", [{"layers": 4}, {"layer_bytes": 8}, {"page_size": 2}, {"model": "another"}], ids=lambda c: next(iter(c))
)
def test_pages_of_another_layout_are_refused(tmp_path: Path, other: dict[str, object]) -> None:
    for place in (str(tmp_path / "pages"), (tmp_path / "files").as_uri()):
        for _ in range(2):
            first = open_store(config(place))
            assert first is not None
            first.close()
        with pytest.raises(ForeignStorage, match="pages of another layout"):
            open_store(config(place, **other))


def test_a_component_may_join(tmp_path: Path) -> None:
    for components in (("full",), ("full", "swa")):
        found = open_store(config(str(tmp_path / "pages"), components=components))
        assert found is not None
        found.close()
    with pytest.raises(ForeignStorage):
        open_store(config(str(tmp_path / "pages"), components=("full", "swa"), layers=1))


def test_what_is_something_elses_is_refused(tmp_path: Path) -> None:
    import lmdb

    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    (tmp_path / "noise").mkdir()
    (tmp_path / "noise" / "data.mdb").write_bytes(b"\x01" * 8192)
    with lmdb.open(str(tmp_path / "theirs"), max_dbs=1) as theirs:
        theirs.open_db(b"theirs")
    for name, words in (("home", "letter.txt"), ("noise", "no LMDB directory"), ("theirs", "something else")):
        with pytest.raises(ForeignStorage, match=words):
            open_store(config(str(tmp_path / name)))
    with pytest.raises(ForeignStorage, match=r"letter\.txt"):
        FsspecStore((tmp_path / "home").as_uri(), layouts(config(True)))
    assert (tmp_path / "home" / "letter.txt").read_text() == "dear"


def test_what_cannot_be_opened_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageUnavailable, match="cannot be opened"):
        open_store(config(str(tmp_path / "file")))
    with pytest.raises(StorageUnavailable, match="cannot be opened"):
        open_store(config("nosuch://place"))
    first = open_store(config(str(tmp_path / "pages")))
    assert first is not None
    with pytest.raises(StorageUnavailable, match="already open"):
        open_store(config(str(tmp_path / "pages")))
    first.close()
    with pytest.raises(BadConfig, match="storage_limit: 5 is less than"):
        config(True, storage_limit=5)


@pytest.fixture
def unwritable() -> Iterator[Path]:
    """A directory that this user may only look at."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        place.chmod(0o555)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        try:
            yield place
        finally:
            os.seteuid(user)


@pytest.mark.parametrize("url", [False, True])
def test_a_read_only_directory_leaves_the_cache_without_the_tier(unwritable: Path, url: bool) -> None:
    place = unwritable.as_uri() if url else str(unwritable / "below")
    with pytest.raises(StorageReadOnly):
        open_store(config(place))
    cache = TieredCache(storage=place)
    assert isinstance(cache.storage_error, StorageReadOnly)
    assert cache.stats.storage_errors == {"StorageReadOnly": 1}
    _goes_on(cache)


def _goes_on(cache: TieredCache) -> None:
    node = cache.insert([1, 2, 3])
    cache.wait(cache.backup(node))
    for holder in list(cache.holders):
        cache.wait(holder)
    with pytest.raises(NothingToDo):
        cache.prefetch([9])
    cache.evict("full", 3)
    cache.wait(cache.load_back(node))
    assert cache.match([1, 2, 3]).device_tokens == 3
    assert cache.audit() == []
    assert cache.holders == {}


def test_a_foreign_directory_leaves_the_cache_without_the_tier(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    cache = TieredCache(storage=str(tmp_path))
    assert isinstance(cache.storage_error, ForeignStorage)
    assert cache.stats.storage_errors == {"ForeignStorage": 1}
    _goes_on(cache)
    with pytest.raises(NothingToDo, match="could not be opened"):
        cache.storage_backup(1)


def test_the_map_grows_up_to_its_limit_and_then_says_full(tmp_path: Path) -> None:
    large = config(str(tmp_path / "pages"), layers=1, layer_bytes=1 << 18, storage_limit=1 << 24, device_pages=99)
    cache = TieredCache(large)
    store = cache.core.store
    assert isinstance(store, LmdbStore)
    kept, problem = _fill(store)
    assert "limit of 16777216 bytes" in problem
    assert 40 < kept < 64
    assert store.errors == {"StorageFull": 1}
    for number in range(kept):
        assert store.get(store_key(0, number.to_bytes(16, "little"))) == bytes([number]) * (1 << 18)
    assert not store.has(store_key(0, kept.to_bytes(16, "little")))
    # The tier is full; the tiers above go on.
    for start in (100, 200, 300):
        node = cache.insert(range(start, start + 20))
        cache.wait(cache.backup(node))
        for holder in list(cache.holders):
            cache.wait(holder)
        assert "stored" not in (cache.observe(node) or {})
    assert cache.stats.storage_errors["StorageFull"] == 4
    assert cache.audit() == []
    assert cache.holders == {}
    cache.close()


def _fill(store: Store) -> tuple[int, str]:
    for kept in range(99):
        try:
            store.put(store_key(0, kept.to_bytes(16, "little")), bytes([kept]) * (1 << 18))
        except StorageFull as problem:
            return kept, str(problem)
    raise AssertionError("never full")


FULL_DISK = """
import resource, signal, sys
from pinproof.impl import StorageError
from pinproof.impl.config import CacheConfig
from pinproof.impl.stores import open_store, store_key
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
store = open_store(CacheConfig(storage=sys.argv[1], layers=1, layer_bytes=1 << 16))
name = lambda n: store_key(0, n.to_bytes(16, "little"))
kept = 0
try:
    while kept < 64:
        store.put(name(kept), bytes([kept]) * (1 << 16))
        kept += 1
except StorageError as problem:
    print(type(problem).__name__)
assert all(store.get(name(n)) == bytes([n]) * (1 << 16) for n in range(kept)), "lost"
print(kept > 3, sum(store.errors.values()))
"""


@pytest.mark.parametrize("url", [False, True])
def test_a_disk_that_is_full_says_so(tmp_path: Path, url: bool) -> None:
    """The system's own limit on the size of files stands for the disk's."""
    place = f"{(tmp_path / 'files').as_uri()}" if url else str(tmp_path / "pages")
    if url:
        script = FULL_DISK.replace("(1 << 20, 1 << 20)", "(1 << 15, 1 << 15)").replace("kept > 3", "kept == 0")
    else:
        script = FULL_DISK
    told = subprocess.run([sys.executable, "-c", script, place], capture_output=True, text=True, check=False)
    # LMDB notices half a write, and cannot say why it was half.
    assert told.stdout.split("\n")[:2] == ["StorageFull" if url else "StorageUnavailable", "True 1"], told.stderr


class Moody(MemoryStore):
    """A store that fails when it is told to."""

    failing = False

    def _has(self, name: bytes) -> bool:
        if self.failing:
            raise StorageUnavailable("storage", "away")
        return super()._has(name)


def test_a_store_that_does_not_answer_has_nothing() -> None:
    store = Moody()
    cache = TieredCache(storage=True, store=store)
    cache.wait(cache.backup(cache.insert([1, 2])))
    while cache.holders:
        cache.wait(next(iter(cache.holders)))
    cache.reset()
    store.failing = True
    with pytest.raises(NothingToDo, match="storage cannot be asked"):
        cache.prefetch([1, 2])
    assert cache.stats.storage_errors == {"StorageUnavailable": 1}
    store.failing = False
    cache.wait(cache.prefetch([1, 2]))


def test_errors_are_errors_of_the_cache_and_of_the_system() -> None:
    problem = StorageFull("storage", "no room")
    assert isinstance(problem, StorageError)
    assert isinstance(problem, OSError)
    assert str(problem) == "storage: no room"
    assert problem.argument == "storage"
