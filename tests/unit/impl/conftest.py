"""What several tests of the cache use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pinproof.impl import Prefetch, TieredCache

Place = tuple[str, str, int]


class Ledger:
    """A recorder that keeps who owns which slot, from the rows of events alone."""

    def __init__(self) -> None:
        self.owners: dict[Place, tuple[str, int]] = {}
        self.events: list[dict[str, Any]] = []

    def __call__(self, event: dict[str, Any]) -> None:
        assert event["seq"] == len(self.events)
        json.dumps(event)
        self.events.append(event)
        for verb, tier, component, slots, owner in event.get("slots", ()):
            for slot in slots:
                place = (tier, component, slot)
                assert (place in self.owners) == (verb != "take")
                if verb == "give":
                    assert self.owners.pop(place) == tuple(owner)
                else:
                    self.owners[place] = tuple(owner)

    @staticmethod
    def truth(cache: TieredCache) -> dict[Place, tuple[str, int]]:
        """Who owns which slot, from the cache."""
        found = {}
        for node in cache.nodes.values():
            for tier in ("device", "host"):
                for number in cache.core.components:
                    for slot in node.seats(tier)[number].slots or ():
                        found[tier, ("full", "swa", "mamba")[number], slot] = ("node", node.id)
        for holder in cache.holders.values():
            if isinstance(holder, Prefetch):
                for number, slots in holder.reserved.items():
                    for slot in slots:
                        found["host", ("full", "swa", "mamba")[number], slot] = ("holder", holder.id)
        return found


STORES = ("memory", "lmdb", "files", "fsspec memory")


def place_of(kind: str, tmp_path: Path) -> bool | str:
    """What `CacheConfig.storage` says for a kind of store."""
    places = {"lmdb": str(tmp_path / "pages"), "files": (tmp_path / "files").as_uri()}
    return kind == "memory" or places.get(kind) or f"memory://{tmp_path.name}/{uuid4().hex}"


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> bool | str:
    """A storage tier of each kind."""
    return place_of(request.param, tmp_path)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()
