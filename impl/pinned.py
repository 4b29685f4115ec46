"""Host memory that a GPU copies from and to without a detour: registered in chunks.

One registration of hundreds of gigabytes takes minutes in one piece and can fail as a whole, and torch's own pinned
memory is rounded up to a power of two. A copy must not reach across two registrations, so chunks are cut between pages
of the pool, and where memory pages of the system end.
"""

from __future__ import annotations

import mmap
import weakref
from math import gcd
from typing import Any

import torch

from .errors import BadConfig

CHUNK = 1 << 30
"""Bytes of a chunk, at most, unless one page of the pool takes more."""


def chunk_pages(page_bytes: int, limit: int = CHUNK) -> int:
    """Pages of a chunk: as many as fit `limit`, so that chunks are whole memory pages of the system."""
    step = mmap.PAGESIZE // gcd(page_bytes, mmap.PAGESIZE)
    return max(1, limit // (page_bytes * step)) * step


def pinned_pages(pages: int, layers: int, words: int, limit: int = CHUNK) -> tuple[torch.Tensor, int]:
    """`[pages, layers, words]` int64 zeros, registered, and how many pages a chunk has.

    Raises BadConfig if the driver does not register it; then nothing is.
    """
    page_bytes = 8 * layers * words
    if not pages * page_bytes:
        return torch.zeros((pages, layers, words), dtype=torch.int64), max(1, pages)
    memory = mmap.mmap(-1, pages * page_bytes)
    data = torch.frombuffer(memory, dtype=torch.int64).view(pages, layers, words)
    count = chunk_pages(page_bytes, limit)
    runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call, unused-ignore]
    starts: list[int] = []
    for first in range(0, pages, count):
        start = data.data_ptr() + first * page_bytes
        problem = int(runtime.cudaHostRegister(start, min(count, pages - first) * page_bytes, 0))
        if problem:
            _unregister(runtime, starts)
            raise BadConfig("host_pages", f"the driver does not register {pages * page_bytes} bytes: error {problem}")
        starts.append(start)
    # The memory itself goes after the tensor that it is in.
    weakref.finalize(data, _unregister, runtime, starts)
    return data, count


def _unregister(runtime: Any, starts: list[int]) -> None:
    for start in starts:
        runtime.cudaHostUnregister(start)
