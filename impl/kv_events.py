"""What each tier holds, told to routers: block events in the shape that SGLang and vLLM publish.

A block is a page of tokens with all before it; its hash says both. It is announced where its bytes have arrived, not
where they are expected, and withdrawn when they are given up, so what has been told is never more than what is there;
except that nobody is told of pages that storage loses by itself.
Only FULL is told of: the rest of a block comes with it, or the block cannot be used.

Sources: vLLM's `distributed/kv_events.py`, SGLang #18205 (media), SGLang #29948 (storage: what has been acknowledged).
"""

from __future__ import annotations

from dataclasses import dataclass
from time import time
from typing import Any, Final

import msgspec

from .cache import TieredCache
from .config import NAMES
from .content import DIGEST
from .core import Event
from .keys import decode
from .namespaces import label
from .node import Node

MEDIA: Final = ("GPU", "CPU", "DISK")
"""Device, host and storage."""


class KVCacheEvent(msgspec.Struct, array_like=True, omit_defaults=True, gc=False, tag=True):
    """Base of the events: on the wire an array that begins with the name of the class."""


class BlockStored(KVCacheEvent):
    """Blocks that follow one another are on a medium.

    Attributes:
        block_hashes: one a block.
        parent_block_hash: the block that the first of them follows; None if it is a first.
        token_ids: of all of them.
        block_size: tokens a block.
        medium: one of `MEDIA`.
        extra_keys: for each block, what else its hash is made from: its namespace, as `namespaces.label` names it.
            None for blocks of the empty namespace.
    """

    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None = None
    lora_name: str | None = None
    extra_keys: list[tuple[Any, ...] | None] | None = None


class BlockRemoved(KVCacheEvent):
    """Blocks are no longer on a medium."""

    block_hashes: list[int]
    medium: str | None = None


class AllBlocksCleared(KVCacheEvent):
    """Nothing is left on any medium."""


class KVEventBatch(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    """Events in order, with the time at which they were handed over, in seconds since 1970."""

    ts: float
    events: list[BlockStored | BlockRemoved | AllBlocksCleared]
    data_parallel_rank: int | None = None


@dataclass(slots=True)
class Told:
    """What has been told of one node: its blocks, and the media that they are on."""

    blocks: list[int]
    media: set[str]


class KVEvents:
    """Follows a cache and says what each tier holds. Off unless made; whoever records events goes on hearing them.

    Args:
        cache: an empty one, so that what is told is all that there is.
        data_parallel_rank: told with every batch.
    """

    def __init__(self, cache: TieredCache, data_parallel_rank: int | None = None) -> None:
        self._core = cache.core
        self._rank = data_parallel_rank
        self._events: list[BlockStored | BlockRemoved | AllBlocksCleared] = []
        self._told: dict[int, Told] = {}
        self._next = cache.recorder
        cache.recorder = self._hear

    def take(self) -> KVEventBatch | None:
        """What has happened since the last time; None if nothing has."""
        if not self._events:
            return None
        events, self._events = self._events, []
        return KVEventBatch(time(), events, self._rank)

    def _hear(self, event: Event) -> None:
        if self._next is not None:
            self._next(event)
        if event["outcome"] != "done":
            return
        if event["action"] == "split":
            self._split(event["args"]["prefix"], event["args"]["node"])
        elif event["action"] == "reset" and self._core.store is None:
            if self._told:
                self._events.append(AllBlocksCleared())
            self._told.clear()
            return
        gone = [int(name) for name, state in event["post"].items() if state is None]
        for name, state in event["post"].items():
            if state is not None and name != "0":
                self._look(self._core.nodes[int(name)], state)
        for id_ in gone:
            told = self._told.pop(id_, None)
            for medium in MEDIA[:2]:
                if told is not None and medium in told.media:
                    self._events.append(BlockRemoved(told.blocks, medium))

    def _split(self, prefix: int, node: int) -> None:
        told = self._told.get(node)
        if told is not None:
            pages = self._core.pages(self._core.nodes[prefix])
            self._told[prefix] = Told(told.blocks[:pages], set(told.media))
            self._told[node] = Told(told.blocks[pages:], told.media)

    def _look(self, node: Node, state: dict[str, Any]) -> None:
        tiers = state.get(NAMES[0], "")
        here = "D" in tiers, "H" in tiers, "stored" in state
        media = {medium for medium, is_here in zip(MEDIA, here, strict=True) if is_here}
        told = self._told.get(node.id)
        if told is None:
            if not media:
                return
            hashes = self._core.hashes(node)
            told = self._told[node.id] = Told([block(hashes, at) for at in range(0, len(hashes), DIGEST)], set())
        if media == told.media:
            return
        for medium in MEDIA:
            if medium in media and medium not in told.media:
                self._events.append(self._stored(node, told.blocks, medium))
            elif medium in told.media and medium not in media and medium != "DISK":
                self._events.append(BlockRemoved(told.blocks, medium))
        told.media = media | (told.media & {"DISK"})

    def _stored(self, node: Node, blocks: list[int], medium: str) -> BlockStored:
        assert node.parent is not None
        parent, namespace = self._core.hashes(node.parent), node.path()[-1].hashes
        return BlockStored(
            blocks,
            block(parent, len(parent) - DIGEST) if node.parent.parent is not None else None,
            decode(node.key),
            self._core.config.page_size,
            None,
            medium,
            None,
            [(label(namespace),)] * len(blocks) if namespace else None,
        )


def block(hashes: bytes, at: int) -> int:
    """The block hash of a page: the first eight bytes of its chained hash as a signed number, as routers take it."""
    return int.from_bytes(hashes[at : at + 8], "little", signed=True)
