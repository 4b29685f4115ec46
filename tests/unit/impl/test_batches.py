"""What is handed to the driver in one call, on a stand-in that copies; and how host memory is registered."""

from __future__ import annotations

import ctypes
import mmap
from array import array
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from pinproof.impl import BadConfig, TieredCache
from pinproof.impl.pinned import chunk_pages, pinned_pages
from pinproof.impl.transfers.base import Copy
from pinproof.impl.transfers.batches import CopyFailed, addresses, batch_of, find_batch, pieces_of


class Driver:
    """cuda-python's names; copies at once, or refuses."""

    CUmemcpySrcAccessOrder = SimpleNamespace(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM=1)
    CUmemcpyAttributes = SimpleNamespace
    CUdeviceptr = CUstream = int

    def __init__(self, error: int = 0) -> None:
        self.error = error
        self.calls: list[tuple[int, int]] = []

    def cuMemcpyBatchAsync(
        self, targets: list[int], sources: list[int], sizes: list[int], count: int,
        attributes: list[Any], indexes: list[int], kinds: int, stream: int,
    ) -> tuple[int, int]:  # fmt: skip
        assert [a.srcAccessOrder for a in attributes] == [1]
        assert (indexes, kinds, count) == ([0], 1, len(sizes))
        self.calls.append((count, stream))
        for to, at, size in zip(targets, sources, sizes, strict=True):
            if not self.error:
                ctypes.memmove(to, at, size)
        return self.error, 0


def copy_of(cache: TieredCache, sources: list[int], targets: list[int]) -> Copy:
    device, host = cache.core.pools.device[0], cache.core.pools.host[0]
    device.data.copy_(torch.arange(device.data.numel()).view(device.data.shape))
    return Copy(device, array("i", sources), host, array("i", targets))


@pytest.mark.parametrize(("low", "high"), [(0, 4), (1, 3)])
def test_addresses_are_those_of_the_bytes(low: int, high: int) -> None:
    cache = TieredCache(layers=4)
    copy = copy_of(cache, [3, 4, 5, 9], [7, 8, 9, 0])
    driver = Driver()
    batch_of(driver)(addresses(copy, 4, low, high), 17)
    device, host = cache.core.pools.device[0].data, cache.core.pools.host[0].data
    assert torch.equal(host[[7, 8, 9, 0], low:high], device[[3, 4, 5, 9], low:high])
    assert torch.count_nonzero(host) == 4 * (high - low) * 2
    assert driver.calls == [(2 if (low, high) == (0, 4) else 4, 17)]


def test_no_piece_reaches_into_another_chunk() -> None:
    cache = TieredCache()
    copy = copy_of(cache, list(range(10)), list(range(6, 16)))
    copy.target.chunk = 4  # type: ignore[attr-defined]
    assert [(to, at, count) for to, at, count, _ in pieces_of(copy, 10, 0, 2)] == [(6, 0, 2), (8, 2, 4), (12, 6, 4)]


def test_a_refused_batch_says_so() -> None:
    with pytest.raises(CopyFailed, match="copies: the driver refuses 1 copies: 1"):
        batch_of(Driver(error=1))([(0, 0, 0)], 0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a driver")
def test_without_a_driver_there_is_no_batch() -> None:
    assert find_batch() is None


@pytest.mark.parametrize("page_bytes", [8, 4096, 12288, 65536 + 8, 1 << 20])
def test_chunks_are_whole_pages_of_both_kinds(page_bytes: int) -> None:
    count = chunk_pages(page_bytes, 1 << 24)
    assert count * page_bytes % mmap.PAGESIZE == 0
    assert count * page_bytes <= max(1 << 24, page_bytes * mmap.PAGESIZE)


class Runtime:
    """Registers until it has had enough."""

    def __init__(self, enough: int = 99) -> None:
        self.enough = enough
        self.registered: dict[int, int] = {}

    def cudaHostRegister(self, start: int, size: int, flags: int) -> int:
        if len(self.registered) == self.enough:
            return 2
        self.registered[start] = size
        return 0

    def cudaHostUnregister(self, start: int) -> None:
        del self.registered[start]


def test_memory_is_registered_in_chunks_and_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime()
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    data, chunk = pinned_pages(10, 2, 256, limit=16384)
    assert (data.shape, chunk) == ((10, 2, 256), 4)
    assert torch.count_nonzero(data) == 0
    start = data.data_ptr()
    assert runtime.registered == {start: 16384, start + 16384: 16384, start + 32768: 8192}
    data[9, 1, 255] = 5
    del data
    assert runtime.registered == {}


def test_a_registration_that_fails_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime(enough=2)
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    with pytest.raises(BadConfig, match="host_pages: the driver does not register 40960 bytes: error 2"):
        pinned_pages(10, 2, 256, limit=16384)
    assert runtime.registered == {}
