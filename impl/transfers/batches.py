"""Many copies in one call to the driver: `cuMemcpyBatchAsync`, where cuda-python and the driver have it.

Each copy alone costs the host some microseconds, whatever its size; a batch costs them once. Copies within a batch have
no order, and need none: no page is in one twice.

The package is `cuda-bindings`. It is no extra of ours: CUDA builds of torch bring the release that fits them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..errors import CacheError
from ..pools import Pool
from .base import Copy, runs

Piece = tuple[int, int, int]
"""Address to write, address to read, bytes."""
Batch = Callable[[list[Piece], int], None]
"""Starts all pieces on the stream with this handle. Raises CopyFailed."""
FIRST_DRIVER = 12080
"""The first CUDA version with the call."""


class CopyFailed(CacheError):
    """The driver has not accepted a batch of copies; the message has its error."""


def find_batch() -> Batch | None:
    """The call, or None where it is not to be had; copies are started one by one then."""
    try:
        from cuda.bindings import driver  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    try:
        error, version = driver.cuDriverGetVersion()
    except RuntimeError:
        return None
    if int(error) or version < FIRST_DRIVER or not hasattr(driver, "cuMemcpyBatchAsync"):
        return None
    return batch_of(driver)


def batch_of(driver: Any) -> Batch:
    """The call of a module that has cuda-python's names."""
    attributes = driver.CUmemcpyAttributes()
    attributes.srcAccessOrder = driver.CUmemcpySrcAccessOrder.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM

    def batch(pieces: list[Piece], stream: int) -> None:
        targets = [driver.CUdeviceptr(to) for to, _, _ in pieces]
        sources = [driver.CUdeviceptr(at) for _, at, _ in pieces]
        sizes = [size for _, _, size in pieces]
        # CUDA 12 also tells which copy failed.
        error, *_ = driver.cuMemcpyBatchAsync(
            targets, sources, sizes, len(pieces), [attributes], [0], 1, driver.CUstream(stream)
        )
        if int(error):
            raise CopyFailed("copies", f"the driver refuses {len(pieces)} copies: {error}")

    return batch


def pieces_of(copy: Copy, pages: int, low: int, high: int) -> Iterable[tuple[int, int, int, int]]:
    """Layers low … high-1 of the first pages of a copy as (first target page, first source page, pages, bytes a page):
    runs of neighbours where whole pages are copied, else page by page; never across two chunks of host memory.
    """
    source, target = copy.source, copy.target
    assert isinstance(source, Pool)
    assert isinstance(target, Pool)
    size = (high - low) * source.layer_bytes
    if (low, high) != (0, source.layers):
        for at, to in zip(copy.sources[:pages], copy.targets[:pages], strict=True):
            yield to, at, 1, size
        return
    for first_at, first_to, length in runs(copy.sources[:pages], copy.targets[:pages]):
        at, to, left = first_at, first_to, length
        while left:
            count = min(left, source.chunk - at % source.chunk, target.chunk - to % target.chunk)
            yield to, at, count, size
            at, to, left = at + count, to + count, left - count


def addresses(copy: Copy, pages: int, low: int, high: int) -> list[Piece]:
    """The same as addresses."""
    source, target = copy.source, copy.target
    assert isinstance(source, Pool)
    assert isinstance(target, Pool)
    page, offset = source.layers * source.layer_bytes, low * source.layer_bytes
    here, there = source.data.data_ptr() + offset, target.data.data_ptr() + offset
    return [
        (there + to * page, here + at * page, count * size) for to, at, count, size in pieces_of(copy, pages, low, high)
    ]
