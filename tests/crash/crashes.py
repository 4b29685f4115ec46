"""Kills processes that write to an LMDB tier, at points that a seed chooses, and reads what they have left.

    python tests/crash/crashes.py DIRECTORY --crashes 200 --seed 0

Half of them are killed by their parent after some line of progress, wherever they are then; half kill themselves within
a write: before or after the n-th page of a transaction, before or after its commit. Then the directory is opened again:
every page that was reported as kept must be there, and every page that is there must have its own bytes. The next
process goes on in the same directory; after every tenth crash there is a new one.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import torch
from pinproof.impl import CacheConfig, TieredCache
from pinproof.impl.content import chain, identities, page_bytes
from pinproof.impl.keys import encode
from pinproof.impl.storage import page_hashes
from pinproof.impl.stores import layouts, page_as_bytes, store_key
from pinproof.impl.stores.lmdb import LmdbStore

WORDS, LAYERS, PAGES = 512, 2, 6
PROMPTS = 40


def config(place: Path, engine: str = "stepped") -> CacheConfig:
    """Small pages, all of which go to storage as soon as they are on the host."""
    return CacheConfig(
        policy="write_through", device_pages=64, host_pages=128, layers=LAYERS, layer_bytes=8 * WORDS,
        storage=str(place), storage_limit=1 << 26, engine=engine,
    )  # fmt: skip


def prompts(seed: int) -> list[list[int]]:
    """What a writer of this seed inserts."""
    rng = Random(f"{seed}/prompts")
    return [[rng.randrange(1 << 30) for _ in range(rng.randint(1, PAGES))] for _ in range(PROMPTS)]


def pages(prompt: list[int]) -> dict[bytes, bytes]:
    """The pages of a prompt as storage must have them, or not have them."""
    hashes = chain(b"", encode(prompt, 1), 4)
    wanted = page_bytes(identities(hashes), 0, LAYERS, WORDS)
    return {store_key(0, h): page_as_bytes(page) for h, page in zip(page_hashes(hashes), wanted, strict=True)}


class Mortal(LmdbStore):
    """Kills its process at the `fate`-th point of its writes."""

    fate = 0

    def point(self) -> None:
        """One point at which a process may die."""
        self.fate -= 1
        if not self.fate:
            os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def _transaction(self, *, write: bool = False) -> Iterator[Any]:
        with super()._transaction(write=write) as transaction:
            yield _Watched(transaction, self) if write else transaction
            if write:
                self.point()
        if write:
            self.point()


class _Watched:
    def __init__(self, transaction: Any, store: Mortal) -> None:
        self._transaction, self._store = transaction, store

    def put(self, *args: Any, **options: Any) -> None:
        self._store.point()
        self._transaction.put(*args, **options)
        self._store.point()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)


def write(place: Path, seed: int, fate: int, told: int) -> None:
    """Insert prompts and report what storage has acknowledged, a line a prompt, until something kills this process."""
    torch.set_num_threads(1)
    chosen = config(place, "stepped" if fate else "threads")
    store = Mortal(place, layouts(chosen), limit=chosen.storage_limit)
    cache = TieredCache(chosen, store=store)
    store.fate = fate
    for number, prompt in enumerate(prompts(seed)):
        cache.insert(prompt)
        while cache.holders:
            cache.wait(max(cache.holders))
        node = cache.match(prompt).node
        kept = all((cache.observe(m.id) or {}).get("stored") for m in cache.nodes[node].path()[:-1])
        os.write(told, f"{number} {int(kept)}\n".encode())
    if not fate:
        signal.pause()


def crash(place: Path, seed: int, trial: int) -> set[int]:
    """One process, from its start to its violent end. Returns the prompts that it reported as kept."""
    rng = Random(f"{seed}/{trial}/fate")
    by_parent = trial % 2
    fate = 0 if by_parent else rng.randint(1, PROMPTS * PAGES)
    lines = rng.randint(0, PROMPTS - 2) if by_parent else PROMPTS
    out, told = os.pipe()
    child = os.fork()
    if not child:
        os.close(out)
        try:
            write(place, seed * 1000 + trial, fate, told)
        finally:
            os._exit(0)
    os.close(told)
    kept: set[int] = set()
    with os.fdopen(out) as progress:
        for read in range(lines):
            line = progress.readline()
            if not line:
                break
            number, was_kept = line.split()
            kept |= {int(number)} if int(was_kept) else set()
            del read
        if by_parent:
            os.kill(child, signal.SIGKILL)
        kept |= {int(line.split()[0]) for line in progress if line.endswith(" 1\n")}
    _, status = os.waitpid(child, 0)
    if not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
        raise AssertionError(f"crash {trial} of seed {seed} did not happen: status {status}")
    return kept


def main() -> None:
    """Crash as often as asked, and say what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--crashes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = {"crashes": 0, "kept": 0, "lost": 0, "absent": 0, "wrong": 0, "within_a_write": 0}
    history: dict[Path, dict[bytes, tuple[bytes, bool]]] = {}
    for trial in range(options.crashes):
        place = options.directory / str(trial // 10)
        known = history.setdefault(place, {})
        kept = crash(place, options.seed, trial)
        for number, prompt in enumerate(prompts(options.seed * 1000 + trial)):
            known.update({name: (page, number in kept) for name, page in pages(prompt).items()})
        store = LmdbStore(place, layouts(config(place)), limit=1 << 26)
        for name, (page, was_kept) in known.items():
            there = store.get(name)
            found["wrong"] += there not in (None, page)
            found["lost"] += there is None and was_kept
            found["absent"] += there is None
            found["kept"] += there == page
        found["wrong"] += store.errors.total()
        store.close()
        found["crashes"] += 1
        found["within_a_write"] += not trial % 2
    print(json.dumps(found))


if __name__ == "__main__":
    main()
