"""What the CUDA engine asks of streams and events, on a stand-in that does all at once."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from pinproof.impl import BadConfig, TieredCache
from pinproof.impl.transfers import cuda as module
from pinproof.impl.transfers.batches import CopyFailed, Piece
from pinproof.impl.transfers.cuda import CudaEngine


class Event:
    """Counts when it was recorded; passed once somebody let it."""

    passed = True

    def __init__(self) -> None:
        self.log: list[str] = []

    def record(self, stream: object = None) -> None:
        self.log.append("recorded")

    def query(self) -> bool:
        return self.passed

    def synchronize(self) -> None:
        self.passed = True


class Stream:
    """Remembers what it was told to wait for."""

    def __init__(self, device: object = None) -> None:
        self.waits: list[Event] = []

    def wait_event(self, event: Event) -> None:
        self.waits.append(event)

    cuda_stream = 7

    def synchronize(self) -> None:
        """Nothing is ever outstanding."""


@pytest.fixture
def current(monkeypatch: pytest.MonkeyPatch) -> Stream:
    """The compute stream of a stand-in for torch.cuda."""
    compute = Stream()

    @contextmanager
    def stream(_: Stream) -> Iterator[None]:
        yield

    stand_in = SimpleNamespace(
        is_available=lambda: True, Stream=Stream, Event=Event, stream=stream, current_stream=lambda: compute
    )
    monkeypatch.setattr(module, "cuda", stand_in)
    return compute


@pytest.mark.parametrize("group", [0, 1])
@pytest.mark.parametrize("policy", ["write_back", "write_through"])
def test_a_round_trip(current: Stream, policy: str, group: int) -> None:
    engine = CudaEngine("cpu")
    cache = TieredCache(
        transfers=engine, policy=policy, group=group, storage=True, storage_writes="asked", components=("full", "swa")
    )
    node = cache.insert([1, 2, 3, 4, 5])
    cache.poll()
    cache.evict("full", 5)
    receipt = cache.load_back(node)
    assert len(engine._streams["load_back"].waits) == 1
    reader = cache.lock(node)
    (ticket,) = cache.tickets(reader)
    ticket.wait_layer(1)  # type: ignore[attr-defined]
    assert current.waits == [ticket.layer_events[-1][1]]  # type: ignore[attr-defined]
    assert cache.poll() == [(receipt.id, "acked")]
    cache.forward(reader)
    cache.wait(cache.storage_backup(node))
    assert cache.audit() == []
    cache.close()


@pytest.mark.parametrize("fault", ["failed", "partial"])
def test_a_failed_copy(current: Stream, fault: str) -> None:
    engine = CudaEngine("cpu")
    cache = TieredCache(transfers=engine, storage=True, storage_writes="asked")
    node = cache.insert([1, 2, 3, 4])
    cache.fail("backup", fault)  # type: ignore[arg-type]
    receipt = cache.backup(node)
    assert cache.poll() == [(receipt.id, "failed")]
    cache.fail("storage_backup", fault)  # type: ignore[arg-type]
    cache.wait(cache.backup(node))
    writing = cache.storage_backup(node)
    cache.wait(writing)
    assert "stored" not in (cache.observe(node) or {})
    assert cache.audit() == []
    cache.close()


def test_nothing_is_acked_before_its_event(current: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Event, "passed", False)
    cache = TieredCache(transfers=CudaEngine("cpu"))
    receipt = cache.backup(cache.insert([1, 2]))
    assert cache.poll() == []
    cache.wait(receipt)
    assert receipt.over
    cache.close()


@pytest.mark.parametrize("refuses", [False, True])
@pytest.mark.parametrize("group", [0, 1])
def test_what_an_operation_copies_goes_to_the_driver_in_one_call(current: Stream, group: int, refuses: bool) -> None:
    engine = CudaEngine("cpu")
    sizes: list[int] = []

    def batch(pieces: list[Piece], stream: int) -> None:
        sizes.append(len(pieces))
        if refuses:
            raise CopyFailed("copies", "no")
        for to, at, size in pieces:
            ctypes.memmove(to, at, size)

    engine._batch = batch
    cache = TieredCache(transfers=engine, group=group)
    for tokens in ([1, 1, 1], [2, 2, 2, 2], [1, 1, 1, 3, 3]):
        cache.insert(tokens)
    node = cache.insert([1, 1, 1, 3, 3, 4, 4, 4])
    cache.evict("full", 12)
    cache.wait(cache.load_back(node))
    assert cache.audit() == []
    assert sizes == ([] if group == 0 else [4] if refuses else [4, 4, 8, 8])
    cache.close()


def test_without_a_device_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.cuda, "is_available", lambda: False)
    with pytest.raises(BadConfig, match="no CUDA device"):
        CudaEngine()
