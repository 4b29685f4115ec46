"""What the CUDA engine asks of streams and events, on a stand-in that does all at once."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from pinproof.impl import BadConfig, TieredCache
from pinproof.impl.transfers import cuda as module
from pinproof.impl.transfers.base import Copy
from pinproof.impl.transfers.batches import CopyFailed, Piece
from pinproof.impl.transfers.cuda import CudaEngine
from pinproof.impl.transfers.thresholds import Thresholds


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
    assert engine._streams["load_back"].waits == []
    reader = cache.lock(node)
    (ticket,) = cache.tickets(reader)
    ticket.wait_layer(1)  # type: ignore[attr-defined]
    assert len(engine._streams["load_back"].waits) == 1
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

    engine._batch, engine.thresholds = batch, Thresholds(batch_from=4)
    cache = TieredCache(transfers=engine, group=group)
    for tokens in ([1, 1, 1], [2, 2, 2, 2], [1, 1, 1, 3, 3]):
        cache.insert(tokens)
    node = cache.insert([1, 1, 1, 3, 3, 4, 4, 4])
    cache.evict("full", 12)
    cache.wait(cache.load_back(node))
    assert cache.audit() == []
    assert sizes == ([] if group == 0 else [7] if refuses else [7, 7, 8, 8])
    cache.close()


def test_what_is_asked_for_in_one_step_is_one_submission(current: Stream) -> None:
    engine = CudaEngine("cpu")
    cache = TieredCache(transfers=engine, group=1)
    nodes = [cache.insert([first, 9]) for first in range(5)]
    tickets = [cache.backup(node).ticket for node in nodes]
    assert [t.layer_events for t in tickets] == [[]] * 5  # type: ignore[union-attr]
    assert [how for _, how in cache.poll()] == ["acked"] * 5
    events = [[event for _, event in t.layer_events] for t in tickets]  # type: ignore[union-attr]
    assert events == [events[0]] * 5
    assert len(engine._streams["backup"].waits) == 5
    after = cache.backup(cache.insert([7]))
    assert cache.poll() == [(after.id, "acked")]
    assert after.ticket.layer_events != tickets[0].layer_events  # type: ignore[union-attr]
    assert cache.audit() == []
    cache.close()


def test_what_waits_for_a_transfer_is_not_gathered_with_it(current: Stream) -> None:
    engine = CudaEngine("cpu")
    cache = TieredCache(transfers=engine)
    device, host = cache.core.pools.device[0], cache.core.pools.host[0]
    ours, theirs = device.slots.take(2), host.slots.take(1)
    assert ours is not None
    assert theirs is not None
    first = engine.submit("backup", [Copy(device, ours[:1], host, theirs)])
    second = engine.submit("backup", [Copy(device, ours[1:], host, theirs)], after=[first])
    assert (len(first.layer_events), second.layer_events) == (1, [])  # type: ignore[attr-defined]
    assert second.ended
    assert engine._streams["backup"].waits == [first.layer_events[-1][1]]  # type: ignore[attr-defined]
    cache.close()


def test_without_a_device_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.cuda, "is_available", lambda: False)
    with pytest.raises(BadConfig, match="no CUDA device"):
        CudaEngine()
