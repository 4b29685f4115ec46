"""Which way to copy many pieces: one by one, in a batch, or by the gather kernel. Measured, not guessed: where each
begins to pay differs by a factor of ten between machines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Way = Literal["single", "batch", "gather"]
COUNTS = (1, 2, 4, 8, 16, 32, 64)
SIZES = (1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18)
"""Pieces and bytes a piece that are measured."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What to do with how many pieces.

    Attributes:
        batch_from: so many pieces or more go in one batch; None: never.
        gather_from: so many pieces or more go through the gather kernel, if they are small; None: never.
        gather_up_to: bytes of a piece, on average, up to which they are small.
    """

    batch_from: int | None = None
    gather_from: int | None = None
    gather_up_to: int = 0

    @property
    def choice(self) -> bool:
        """There is another way than one by one."""
        return self.batch_from is not None or self.gather_from is not None

    def way(self, pieces: int, total: int) -> Way:
        """How to copy so many pieces of `total` bytes together."""
        if self.gather_from is not None and pieces >= self.gather_from and total <= self.gather_up_to * pieces:
            return "gather"
        if self.batch_from is not None and pieces >= self.batch_from:
            return "batch"
        return "single"


def calibrate(seconds: Callable[[Way, int, int], float], *, batch: bool, gather: bool) -> Thresholds:
    """The thresholds of a machine on which copying so many pieces of so many bytes takes `seconds`.

    Args:
        batch, gather: there is such a way.
    """

    def wins(way: Way, others: tuple[Way, ...], count: int, size: int) -> bool:
        return seconds(way, count, size) < min(seconds(other, count, size) for other in others)

    def first(way: Way, others: tuple[Way, ...], size: int) -> int | None:
        """From where on `way` wins, up to the largest count."""
        begin = None
        for count in reversed(COUNTS):
            if not wins(way, others, count, size):
                break
            begin = count
        return begin

    batch_from = first("batch", ("single",), SIZES[2]) if batch else None
    if not gather:
        return Thresholds(batch_from)
    others: tuple[Way, ...] = ("single", "batch") if batch else ("single",)
    small = 0
    for size in SIZES:
        if not wins("gather", others, COUNTS[-1], size):
            break
        small = size
    return Thresholds(batch_from, first("gather", others, small) if small else None, small)
