"""What the cache raises. Every error is a `CacheError` and names the argument that it is about."""

from __future__ import annotations


class CacheError(Exception):
    """Base of all errors of the cache.

    Args:
        argument: name of the offending argument.
        words: what is wrong with it.
    """

    def __init__(self, argument: str, words: str) -> None:
        super().__init__(f"{argument}: {words}")
        self.argument = argument


class BadConfig(CacheError):
    """A configuration value cannot be used."""


class BadTokens(CacheError):
    """Tokens are not integers, do not fit 32 bits, or do not fill their last page."""


class BadArgument(CacheError):
    """An argument has a value that the operation has no meaning for."""


class UnknownNode(CacheError):
    """The node is not in the tree (any more)."""


class StaleReceipt(CacheError):
    """The receipt was given back already, or is not this cache's, or is of another kind of operation."""


class OutOfDeviceSlots(CacheError):
    """The device pool has no room, and nothing more can be evicted."""


class OutOfHostMemory(CacheError):
    """The host pool has no room, and nothing more can be evicted."""


class Refused(CacheError):
    """The operation may not be done in this state. Nothing has changed."""


class NotReady(Refused):
    """Bytes that the operation needs have not arrived yet."""


class NothingToDo(Refused):
    """The operation would copy nothing."""


class Busy(Refused):
    """Operations under way forbid it."""


class StorageError(CacheError, OSError):
    """The storage tier cannot do something; the tiers above it go on."""


class StorageFull(StorageError):
    """The disk is full, or the storage tier has reached its limit."""


class StorageReadOnly(StorageError):
    """The place of the storage tier cannot be written to."""


class ForeignStorage(StorageError):
    """The place of the storage tier holds something else, or pages of another layout or model."""


class StorageUnavailable(StorageError):
    """The place of the storage tier cannot be opened, read or written."""


class CorruptPage(StorageError):
    """A page came back from storage with other bytes than it was kept with; it was dropped."""


class UnorderedAccess(CacheError):
    """Two accesses to a page, one of them a write, are ordered by nothing but luck: a defect, raised in test builds.
    Names the page, both accesses and their clocks.
    """


class RanksDiverged(CacheError):
    """Two ranks of a group have not done the same.

    Attributes:
        seq: the first event that differs; None if all events agree and only what they are about to do differs.
        rank: who differs from rank 0.
        ours, theirs: what rank 0 and that rank did.
    """

    def __init__(self, seq: int | None, rank: int, ours: str, theirs: str) -> None:
        place = "after the same events" if seq is None else f"from event {seq} on"
        super().__init__("ranks", f"{place} rank 0 and rank {rank} differ.\nrank 0: {ours}\nrank {rank}: {theirs}")
        self.seq = seq
        self.rank = rank
        self.ours = ours
        self.theirs = theirs


class SlotError(CacheError):
    """A slot was freed twice, while in transfer, or was never given out: a defect of the caller, raised
    always.
    """
