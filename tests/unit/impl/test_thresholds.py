"""Which way to copy is quickest, for machines whose times are given; the gather kernel copies what it is to."""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from pinproof.impl import TieredCache
from pinproof.impl.transfers import cuda as module
from pinproof.impl.transfers import gather as gathering
from pinproof.impl.transfers.batches import CopyFailed, Piece
from pinproof.impl.transfers.gather import find_gather
from pinproof.impl.transfers.thresholds import SIZES, Thresholds, Way, calibrate

BEGIN = {"single": 5e-6, "batch": 20e-6, "gather": 30e-6}
"""Seconds that each way takes to begin: a single copy each time, the others once."""


def usual(way: Way, count: int, size: int) -> float:
    """A machine whose copy engine is slow to begin and whose kernel is slower at moving much."""
    if way == "single":
        return count * (BEGIN[way] + size / 50e9)
    each = 1e-6 if way == "batch" else 0.0
    return BEGIN[way] + count * (each + size / (50e9 if way == "batch" else 20e9))


def test_each_way_begins_where_it_pays() -> None:
    assert calibrate(usual, batch=True, gather=True) == Thresholds(batch_from=8, gather_from=32, gather_up_to=SIZES[2])
    assert calibrate(usual, batch=True, gather=False) == Thresholds(batch_from=8)
    assert calibrate(usual, batch=False, gather=False) == Thresholds()


def test_a_way_that_never_pays_is_never_taken() -> None:
    def single_wins(way: Way, count: int, size: int) -> float:
        return 0.0 if way == "single" else 1.0

    assert calibrate(single_wins, batch=True, gather=True) == Thresholds()


def test_without_a_batch_the_gather_is_held_against_single_copies() -> None:
    found = calibrate(usual, batch=False, gather=True)
    assert found == Thresholds(None, 16, SIZES[3])


@pytest.mark.parametrize(
    ("pieces", "total", "way"),
    [(1, 1, "single"), (8, 8 << 20, "batch"), (16, 16 << 10, "gather"), (16, (16 << 10) + 1, "batch")],
)
def test_the_way_is_that_of_the_thresholds(pieces: int, total: int, way: str) -> None:
    assert Thresholds(8, 16, 1 << 10).way(pieces, total) == way


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The gather on the CPU, interpreted by Triton."""
    pytest.importorskip("triton", reason="no Triton: it comes with CUDA builds of torch")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    gathering._kernel.cache_clear()
    yield find_gather(torch.device("cpu"))
    gathering._kernel.cache_clear()


def test_the_kernel_copies_the_pieces_and_nothing_else(interpreted: Any) -> None:
    source, target = torch.arange(1, 5001), torch.zeros(5000, dtype=torch.int64)
    spans = [(0, 100, 1), (700, 2000, 1300), (4000, 0, 512), (2500, 4990, 10)]
    pieces = [(target.data_ptr() + 8 * to, source.data_ptr() + 8 * at, 8 * words) for to, at, words in spans]
    interpreted(pieces, 0)
    for to, at, words in spans:
        assert torch.equal(target[to : to + words], source[at : at + words])
    assert torch.count_nonzero(target) == sum(words for _, _, words in spans)


@pytest.mark.parametrize("group", [0, 1])
def test_the_engine_copies_through_it(interpreted: Any, group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def gather(pieces: list[Any], stream: int) -> None:
        calls.append(len(pieces))
        interpreted(pieces, stream)

    monkeypatch.setattr(module, "cuda", _at_once())
    engine = module.CudaEngine("cpu")
    engine._gather, engine.thresholds = gather, Thresholds(gather_from=2, gather_up_to=1 << 20)
    cache = TieredCache(transfers=engine, group=group, verify=True)
    for tokens in ([1, 1, 1], [2, 2], [1, 1, 1, 3, 3]):
        cache.insert(tokens)
    node = cache.insert([1, 1, 1, 3, 3, 4, 4, 4])
    cache.evict("full", 10)
    cache.wait(cache.load_back(node))
    receipt = cache.lock(node)
    cache.forward(receipt)
    cache.unlock(receipt)
    assert cache.audit() == []
    assert calls
    cache.close()


def test_the_engine_measures_what_works_and_drops_what_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def copied(pieces: list[Piece], stream: int) -> None:
        for to, at, size in pieces:
            ctypes.memmove(to, at, size)

    def refused(pieces: list[Piece], stream: int) -> None:
        raise CopyFailed("copies", "no")

    def unbuilt(pieces: list[Piece], stream: int) -> None:
        raise RuntimeError("no C compiler")

    monkeypatch.setattr(module, "cuda", _at_once())
    engine = module.CudaEngine("cpu")
    unpinned = SimpleNamespace(empty=lambda n, dtype, **_: torch.empty(n, dtype=dtype), uint8=torch.uint8)
    monkeypatch.setattr(module, "torch", unpinned)
    engine._batch, engine._gather = copied, unbuilt
    found = engine._measure()
    assert (engine._batch, engine._gather) == (copied, None)
    assert (found.gather_from, found.gather_up_to) == (None, 0)
    engine._batch, engine._gather = refused, copied
    found = engine._measure()
    assert (engine._batch, engine._gather) == (None, copied)
    assert found.batch_from is None


def _at_once() -> SimpleNamespace:
    """A stand-in for torch.cuda, in which all has happened."""
    done = SimpleNamespace(record=lambda *_: None, query=lambda: True, synchronize=lambda: None)
    stream = SimpleNamespace(wait_event=lambda _: None, synchronize=lambda: None, cuda_stream=0)

    @contextmanager
    def on(_: object) -> Any:
        yield

    return SimpleNamespace(
        is_available=lambda: True, Event=lambda: done, Stream=lambda _: stream, stream=on, current_stream=lambda: stream
    )
