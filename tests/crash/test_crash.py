"""A process that writes to storage is killed; what it has left is right, and what it reported is there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from pinproof.impl import TieredCache
from pinproof.impl.stores.lmdb import LmdbStore

SCRIPT = Path(__file__).with_name("crashes.py")
CRASHES = 12
"""Here; `python tests/crash/crashes.py DIRECTORY` does 200."""


def test_no_crash_leaves_a_wrong_byte_or_loses_what_was_kept(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path), "--crashes", str(CRASHES), "--seed", "7"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    assert (found["crashes"], found["wrong"], found["lost"]) == (CRASHES, 0, 0)
    # Each went far enough to keep something, and was stopped before it had kept all.
    assert found["kept"] > CRASHES
    assert found["absent"] > CRASHES


def test_a_cache_goes_on_where_a_killed_one_stopped(tmp_path: Path) -> None:
    """The red beside the green: a page that was damaged on the disk is noticed."""
    place = str(tmp_path / "pages")
    first = TieredCache(storage=place, policy="write_through")
    first.insert([1, 2, 3])
    while first.holders:
        first.wait(max(first.holders))
    store = first.core.store
    assert isinstance(store, LmdbStore)
    name = next(iter(_names(store)))
    store._write([(name, (store._read(name) or b"")[:-1] + b"\xff")])
    first.close()
    second = TieredCache(storage=place, policy="write_through")
    receipt = second.prefetch([1, 2, 3])
    second.wait(receipt)
    second.finish_prefetch(receipt)
    assert second.stats.storage_errors == {"CorruptPage": 1}
    assert second.match([1, 2, 3]).tokens < 3
    assert second.audit() == []
    second.close()


def _names(store: LmdbStore) -> list[bytes]:
    with store._transaction() as transaction:
        return [bytes(name) for name in transaction.cursor(db=store._pages).iternext(values=False)]
