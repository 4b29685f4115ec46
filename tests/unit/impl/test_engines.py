"""Time in three kinds. What is chosen can be replayed, what is awaited has happened, what failed says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from pinproof.impl import BadArgument, TieredCache
from pinproof.impl.transfers.base import Copy, Engine, runs
from pinproof.impl.transfers.stepped import SteppedEngine
from pinproof.impl.transfers.threads import ThreadEngine


def copy_of(cache: TieredCache, pages: int) -> Copy:
    """Pages of the device to fresh ones of the host."""
    device, host = cache.core.pools.device[0], cache.core.pools.host[0]
    sources, targets = device.slots.take(pages), host.slots.take(pages)
    assert sources is not None
    assert targets is not None
    device.fill(sources, torch.arange(pages * 4).view(pages, 2, 2))
    return Copy(device, sources, host, targets)


def pages_of(copy: Copy) -> torch.Tensor:
    return torch.stack([copy.target.read(slot, 0, 2) for slot in copy.targets])


@pytest.fixture(params=[SteppedEngine, ThreadEngine])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    made: Engine = request.param()
    yield made
    made.close()


@pytest.mark.parametrize("group", [0, 1])
def test_every_page_arrives(engine: Engine, group: int) -> None:
    copy = copy_of(TieredCache(), 5)
    ticket = engine.submit("backup", [copy], group=group)
    engine.wait(ticket)
    assert (ticket.ended, ticket.error, ticket.pages_done, ticket.layers_done) == (True, None, [5], 2)
    assert torch.equal(pages_of(copy), torch.arange(20).view(5, 2, 2))


@pytest.mark.parametrize(("fault", "pages"), [("failed", 0), ("partial", 2)])
def test_a_fault_hits_the_next_transfer_only(engine: Engine, fault: str, pages: int) -> None:
    cache = TieredCache()
    engine.fail_next("backup", fault)  # type: ignore[arg-type]
    first, second = copy_of(cache, 5), copy_of(cache, 5)
    tickets = [engine.submit("backup", [copy]) for copy in (first, second)]
    for ticket in tickets:
        engine.wait(ticket)
    assert [t.error for t in tickets] == [f"{fault} (injected)", None]
    assert tickets[0].pages_done == [pages]


def test_a_transfer_waits_for_its_fences() -> None:
    engine = SteppedEngine()
    cache = TieredCache()
    first = engine.submit("backup", [copy_of(cache, 1)])
    second = engine.submit("backup", [copy_of(cache, 1)], after=[first])
    assert engine.steps == 1
    engine.step(0)
    engine.step(0)
    assert (first.ended, second.ended) == (True, False)
    engine.wait(second)
    assert engine.steps == 0
    assert not engine.step(0)


def test_choices_replay() -> None:
    def run(choices: list[int]) -> list[list[int]]:
        engine = SteppedEngine()
        copy = copy_of(TieredCache(), 3)
        engine.submit("backup", [copy], group=1)
        seen = []
        for choice in choices:
            engine.step(choice)
            seen.append(pages_of(copy).flatten().tolist())
        return seen

    choices = [5, 0, 3, 3, 2, 9, 1, 1, 0, 7, 2]
    assert run(choices) == run(choices)
    assert run(choices) != run([0] * 11)


def test_reading_and_writing_are_two_steps() -> None:
    engine = SteppedEngine()
    copy = copy_of(TieredCache(), 1)
    engine.submit("backup", [copy])
    engine.step(0)
    copy.source.write(copy.sources[0], 0, 2, torch.zeros(2, 2, dtype=torch.int64))
    engine.step(0)
    assert torch.equal(pages_of(copy)[0], torch.arange(4).view(2, 2))


def test_the_cache_goes_on_while_threads_copy() -> None:
    engine = ThreadEngine()
    cache = TieredCache(transfers=engine, policy="write_through", components=("full", "swa", "mamba"))
    engine.gate.clear()
    node = cache.insert([1, 2, 3, 4])
    assert cache.poll() == []
    cache.match([1, 2])
    assert cache.evict_host("swa", 1) == 0
    engine.gate.set()
    for holder in list(cache.holders):
        cache.wait(holder)
    cache.evict("full", 4)
    cache.wait(cache.load_back(node))
    assert cache.audit() == []
    cache.close()


def test_threads_stop_reading_storage_when_told() -> None:
    engine = ThreadEngine()
    cache = TieredCache(transfers=engine, storage=True, storage_writes="asked")
    node = cache.insert([1, 2, 3])
    cache.wait(cache.backup(node))
    cache.wait(cache.storage_backup(node))
    cache.reset()
    engine.gate.clear()
    receipt = cache.prefetch([1, 2, 3])
    cache.abort(receipt)
    engine.gate.set()
    cache.wait(receipt)
    assert cache.holders == {}
    assert cache.audit() == []
    cache.close()


def test_arguments_are_checked(engine: Engine) -> None:
    with pytest.raises(BadArgument, match="direction"):
        engine.fail_next("sideways", "failed")  # type: ignore[arg-type]
    with pytest.raises(BadArgument, match="fault"):
        engine.fail_next("backup", "late")  # type: ignore[arg-type]


def test_neighbouring_slots_are_copied_together() -> None:
    from array import array

    found = list(runs(array("i", [3, 4, 5, 9, 10, 2]), array("i", [7, 8, 9, 1, 2, 3])))
    assert found == [(3, 7, 3), (9, 1, 2), (2, 3, 1)]
    assert list(runs(array("i"), array("i"))) == []
