"""Accesses to a page are ordered, or it is said which two are not, at which clocks, whatever the schedule was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from pinproof.impl import BadConfig, TieredCache, UnorderedAccess
from pinproof.impl.computing import POISON
from pinproof.impl.happens_before import HOST, READ, WRITE, HappensBefore
from pinproof.impl.transfers.base import Copy
from pinproof.impl.transfers.threads import ThreadEngine


@pytest.fixture(params=["stepped", "queued", "threads"])
def cache(request: pytest.FixtureRequest) -> Iterator[TieredCache]:
    queued = request.param == "queued"
    engine = "stepped" if queued else request.param
    made = TieredCache(engine=engine, queued_compute=queued, happens_before=True, poison=True, verify=True)
    yield made
    made.close()


def test_what_is_ordered_passes(cache: TieredCache) -> None:
    node = cache.insert([1, 2, 3])
    cache.evict("full", 3)
    cache.wait(cache.load_back(node))
    request = cache.lock(node)
    cache.forward(request)
    cache.unlock(request)
    cache.wait(cache.backup(cache.insert([1, 2, 3, 4])))
    cache.core.engine.finish_computing()
    assert cache.audit() == []
    cache.reset()
    assert cache.audit() == []


def test_two_transfers_into_one_page_are_told_with_their_clocks(cache: TieredCache) -> None:
    device, host = cache.core.pools.device[0], cache.core.pools.host[0]
    sources, targets = device.slots.take(2), host.slots.take(1)
    assert sources is not None
    assert targets is not None
    cache.core.engine.submit("backup", [Copy(device, sources[:1], host, targets)])
    with pytest.raises(UnorderedAccess) as told:
        cache.core.engine.submit("backup", [Copy(device, sources[1:], host, targets)])
    assert str(told.value) == (
        "page: host.full slot 0 layer 0: write by backup 2 at (backup 2 2), and nothing orders it after "
        "write by backup 1 at (backup 1 2)"
    )


def test_the_second_of_two_ordered_transfers_is_not(cache: TieredCache) -> None:
    device, host = cache.core.pools.device[0], cache.core.pools.host[0]
    sources, targets = device.slots.take(2), host.slots.take(1)
    assert sources is not None
    assert targets is not None
    first = cache.core.engine.submit("backup", [Copy(device, sources[:1], host, targets)])
    second = cache.core.engine.submit("backup", [Copy(device, sources[1:], host, targets)], after=[first])
    for ticket in (first, second):
        cache.core.engine.wait(ticket)
        ticket.release()
    again = cache.core.engine.submit("backup", [Copy(device, sources[:1], host, targets)])
    assert again.timeline in (first.timeline, second.timeline)


def test_an_end_that_nobody_took_notice_of_orders_nothing() -> None:
    cache = TieredCache(transfers=ThreadEngine(), happens_before=True)
    device, host = cache.core.pools.device[0], cache.core.pools.host[0]
    sources, targets = device.slots.take(1), host.slots.take(1)
    assert sources is not None
    assert targets is not None
    ticket = cache.core.engine.submit("backup", [Copy(device, sources, host, targets)])
    cache.core.engine.wait(ticket)
    with pytest.raises(UnorderedAccess, match=r"write by host at .* write by backup 1"):
        cache.core.computing.free(host, targets)
    ticket.release()
    cache.core.computing.free(host, targets)
    cache.close()


def test_a_request_reads_on_until_it_lets_go(cache: TieredCache) -> None:
    node = cache.insert([1, 2])
    slots = cache.nodes[node].device[0].slots
    assert slots is not None
    request = cache.lock(node)
    cache.forward(request)
    with pytest.raises(UnorderedAccess, match=rf"read by request {request.id} at"):
        cache.core.computing.free(cache.core.pools.device[0], slots)
    cache.unlock(request)
    cache.core.computing.free(cache.core.pools.device[0], slots)


def test_a_window_that_was_given_back_may_go_while_the_request_reads_on() -> None:
    cache = TieredCache(components=("full", "swa"), window=1, happens_before=True, poison=True)
    above = cache.insert([1])
    node = cache.insert([1, 2])
    request = cache.lock(node)
    cache.forward(request)
    cache.release_window(request, node)
    cache.evict("swa", 1)
    assert (cache.observe(above) or {}).get("swa") is None
    assert cache.evict("full", 1) == 0


def test_each_layer_has_its_order() -> None:
    cache = TieredCache(layers=3, group=1, queued_compute=True, happens_before=True, verify=True)
    node = cache.insert([1, 2])
    cache.evict("full", 2)
    cache.load_back(node)
    request = cache.lock(node)
    for layer in range(3):
        cache.read_layer(request, layer)
    steps = 0
    while cache.step(0):
        steps += 1
    assert steps == 2 * 2 * 3 + 3
    assert [how for _, how in cache.poll()] == ["acked"]
    cache.forward(request)


def test_a_layer_is_read_while_the_next_is_on_its_way() -> None:
    engine = ThreadEngine()
    cache = TieredCache(transfers=engine, layers=2, group=1, happens_before=True, verify=True)
    node = cache.insert([1, 2])
    cache.evict("full", 2)
    cache.load_back(node)
    request = cache.lock(node)
    cache.read_layer(request, 0)
    cache.read_layer(request, 1)
    cache.forward(request, wait=True)
    cache.close()


def test_freed_pages_are_poisoned_in_stream_order() -> None:
    cache = TieredCache(device_pages=2, queued_compute=True, poison=True)
    node = cache.insert([1, 2])
    cache.evict("full", 2)
    assert (cache.read_page("device", "full", 0) != POISON).all()
    cache.core.engine.finish_computing()
    assert (cache.read_page("device", "full", 0) == POISON).all()
    assert cache.whose_page("device", "full", 0) is None
    cache.evict_host("full", 2)
    assert (cache.read_page("host", "full", 0) == POISON).all()
    assert node not in cache.nodes


def test_ordinary_builds_do_neither() -> None:
    cache = TieredCache(device_pages=2)
    cache.insert([1, 2])
    cache.evict("full", 2)
    assert cache.core.order is None
    assert not cache.core.computing.watched
    assert cache.whose_page("device", "full", 0) is not None


def test_there_is_room_for_any_number_of_timelines() -> None:
    cache = TieredCache()
    pool = cache.core.pools.host[0]
    order = HappensBefore(asynchronous=False)
    order.access(HOST, [(pool, range(4))], WRITE)
    readers = [order.open(f"reader {n}") for n in range(20)]
    for reader in readers:
        order.access(reader, [(pool, range(2, 4))], READ)
    with pytest.raises(UnorderedAccess, match="slot 2 layer 0: write by host"):
        order.access(HOST, [(pool, range(4))], WRITE)
    for reader in readers:
        order.close(reader)
    order.access(HOST, [(pool, range(4))], WRITE)
    assert order.open("another") in readers


def test_only_the_stepped_engine_queues() -> None:
    with pytest.raises(BadConfig, match="queued_compute"):
        TieredCache(engine="threads", queued_compute=True)


def test_what_is_not_computed_yet_is_not_held_against_the_cache() -> None:
    cache = TieredCache(queued_compute=True)
    node = cache.insert([1, 2])
    assert cache.audit() == []
    assert torch.count_nonzero(cache.read_page("device", "full", 0)) == 0
    request = cache.lock(node)
    assert torch.equal(cache.gather(request, "full"), cache.core.expected(cache.nodes[node], 0))
    assert cache.core.engine.unwritten == {}


def test_a_gather_is_an_access_of_the_host(cache: TieredCache) -> None:
    node = cache.insert([1, 2, 3])
    request = cache.lock(node)
    assert cache.gather(request, "full").shape[0] == 3
    slots, order = cache.nodes[node].device[0].slots, cache.core.order
    assert slots is not None
    assert order is not None
    order.access(order.open("stray"), [(cache.core.pools.device[0], slots[:1])], WRITE)
    with pytest.raises(UnorderedAccess, match=f"slot {slots[0]} layer 0: read by host .* write by stray"):
        cache.gather(request, "full")


def test_what_is_kept_for_storage_is_an_access_of_the_host() -> None:
    made = TieredCache(components=("full", "swa"), window=2, storage=True, storage_writes="asked", happens_before=True)
    node = made.insert([1, 2, 3, 4])
    made.wait(made.backup(node))
    swa = made.nodes[node].host[1].slots
    order = made.core.order
    assert swa is not None
    assert order is not None
    order.access(order.open("stray"), [(made.core.pools.host[1], swa)], WRITE)
    with pytest.raises(UnorderedAccess, match=r"host.swa slot .* read by host .* write by stray"):
        made.storage_backup(node)
