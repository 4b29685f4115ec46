"""Copies between the tiers, page first, beside one plain copy of as many bytes.

    python benchmarks/copies.py [--quick] [--repeat N] [--json FILE]

Both pools in CPU memory, one worker thread: a backup and a load-back of pages that lie in a row and of pages that do
not, through the engine, from `submit` until the ticket has ended; beside `memmove`. With a GPU: one way and both ways
at once on the CUDA engine, pinned host memory, beside one large copy of the same script; without one, the table says
"not measured". Wall times, the best of some rounds.
"""

from __future__ import annotations

import ctypes
import random
from array import array
from time import perf_counter
from typing import Any

import torch
from _sides import Row, options, show, write
from pinproof.impl import CacheConfig
from pinproof.impl.pools import Pool
from pinproof.impl.transfers.base import Copy, Direction, Engine
from pinproof.impl.transfers.threads import ThreadEngine

SIZES = (64 << 10, 256 << 10, 2 << 20)
CPU_TARGET, GPU_TARGET = 0.8, 0.9


def main() -> None:
    """Measure, print, write."""
    asked = options(__doc__)
    total, repeat = (4 << 20, 1) if asked.quick else (256 << 20, 3 * asked.repeat)
    torch.set_num_threads(1)
    rows: list[Row] = []
    for size in SIZES:
        for order in ("in a row", "scattered"):
            rows.append(on_cpu(size, total // size, order, repeat))
    if torch.cuda.is_available():
        for size in SIZES:
            rows.extend(on_gpu(size, total // size, ways, repeat) for ways in ("H2D", "D2H", "both ways"))
    else:
        rows.extend(
            {"where": f"GPU, {ways}, {size >> 10} KiB pages", "not measured": "no GPU", "target": GPU_TARGET}
            for size in SIZES
            for ways in ("H2D", "D2H", "both ways")
        )
    show(("copies", "GB/s", "plain copy", "share", "asked"), [line(row) for row in rows])
    write(asked.json, rows)


def pools(size: int, pages: int, device: str) -> tuple[Pool, Pool]:
    """A device and a host pool with pages of `size` bytes in four layers."""
    config = CacheConfig(
        device_pages=pages,
        host_pages=pages,
        layers=4,
        layer_bytes=size // 4,
        device=device,
        engine="cuda" if device == "cuda" else "threads",
    )
    both = Pool(config, "device", 0), Pool(config, "host", 0)
    for pool in both:
        pool.data.random_()
        pool.slots.take(pages)
    return both


def places(pages: int, order: str) -> Any:
    """Slots in a row, or none of them beside its neighbour."""
    if order == "in a row":
        return range(pages)
    some = list(range(pages))
    random.Random(0).shuffle(some)
    return array("i", some)


def on_cpu(size: int, pages: int, order: str, repeat: int) -> Row:
    """Both directions one after the other, and `memmove` twice."""
    device, host = pools(size, pages, "cpu")
    engine = ThreadEngine(workers=1)
    here, there = places(pages, order), places(pages, order)
    best = plain = 1e9
    for _ in range(repeat):
        best = min(best, transfer(engine, [("backup", Copy(device, here, host, there))]))
        best = min(best, transfer(engine, [("load_back", Copy(host, there, device, here))]))
        begun = perf_counter()
        ctypes.memmove(device.data.data_ptr(), host.data.data_ptr(), size * pages)
        plain = min(plain, perf_counter() - begun)
    engine.close()
    return told(f"CPU, {size >> 10} KiB pages {order}", size * pages, best, plain, CPU_TARGET)


def on_gpu(size: int, pages: int, ways: str, repeat: int) -> Row:
    """One or both directions on the CUDA engine, pages in a row."""
    from pinproof.impl.transfers.cuda import CudaEngine

    engine = CudaEngine()
    device, host = pools(size, pages, "cuda")
    second = pools(size, pages, "cuda") if ways == "both ways" else None
    up: tuple[Direction, Copy] = ("load_back", Copy(host, range(pages), device, range(pages)))
    down: tuple[Direction, Copy] = ("backup", Copy(device, range(pages), host, range(pages)))
    jobs = [up] if ways == "H2D" else [down]
    if second is not None:
        jobs = [up, ("backup", Copy(second[0], range(pages), second[1], range(pages)))]
    cuda: Any = torch.cuda  # untyped in torch
    streams = [cuda.Stream() for _ in jobs]
    best = plain = 1e9
    for _ in range(repeat + 1):
        best = min(best, transfer(engine, jobs))
        torch.cuda.synchronize()
        begun = perf_counter()
        for stream, (_, copy) in zip(streams, jobs, strict=True):
            with cuda.stream(stream):
                assert isinstance(copy.source, Pool)
                assert isinstance(copy.target, Pool)
                copy.target.data.copy_(copy.source.data, non_blocking=True)
        torch.cuda.synchronize()
        plain = min(plain, perf_counter() - begun)
    engine.close()
    return told(f"GPU, {ways}, {size >> 10} KiB pages", size * pages * len(jobs), best, plain, GPU_TARGET)


def transfer(engine: Engine, jobs: list[tuple[Direction, Copy]]) -> float:
    """Seconds until all have ended."""
    begun = perf_counter()
    tickets = [engine.submit(direction, [copy]) for direction, copy in jobs]
    for ticket in tickets:
        engine.wait(ticket)
    spent = perf_counter() - begun
    for ticket in tickets:
        assert ticket.ended
        assert ticket.error is None
        ticket.release()
    return spent


def told(where: str, size: int, seconds: float, plain: float, target: float) -> Row:
    """One row."""
    return {
        "where": where,
        "GB/s": size / seconds / 1e9,
        "plain GB/s": size / plain / 1e9,
        "share": plain / seconds,
        "target": target,
    }


def line(row: Row) -> list[str]:
    """A row as text."""
    if "not measured" in row:
        return [row["where"], "not measured", "", "", f"{row['target']:.0%}"]
    return [
        row["where"],
        f"{row['GB/s']:.2f}",
        f"{row['plain GB/s']:.2f}",
        f"{row['share']:.0%}",
        f"{row['target']:.0%}",
    ]


if __name__ == "__main__":
    main()
