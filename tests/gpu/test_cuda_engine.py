"""The CUDA engine, where there is a CUDA device: bytes arrive, fences hold, layers arrive one by one, faults
leave nothing.
"""

from __future__ import annotations

from array import array

import pytest
import torch
from pinproof.impl import NotReady, TieredCache
from pinproof.impl.transfers.base import Copy
from pinproof.impl.transfers.cuda import CudaEngine
from pinproof.impl.transfers.thresholds import Thresholds

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def cache(**choices: object) -> TieredCache:
    return TieredCache(
        engine="cuda", device="cuda", layers=4, layer_bytes=256, device_pages=32, host_pages=32, **choices
    )


@pytest.mark.parametrize("group", [0, 1, 3])
@pytest.mark.parametrize("policy", ["write_back", "write_through"])
def test_a_round_trip_brings_every_byte_back(policy: str, group: int) -> None:
    made = cache(policy=policy, group=group, verify=True)
    node = made.insert(range(20))
    for holder in list(made.holders):
        made.wait(holder)
    made.evict("full", 20)
    assert made.observe(node) == {"full": "H"}
    made.wait(made.load_back(node))
    receipt = made.lock(node)
    made.forward(receipt)
    made.unlock(receipt)
    assert made.audit() == []


def test_the_host_pool_is_pinned() -> None:
    assert cache().core.pools.host[0].data.is_pinned()


def test_a_copy_waits_for_the_compute_that_it_was_told_to_wait_for() -> None:
    made = cache()
    device, host = made.core.pools.device[0], made.core.pools.host[0]
    source, target = device.slots.take(4), host.slots.take(4)
    assert source is not None
    assert target is not None
    torch.cuda._sleep(50_000_000)
    device.data[source.tolist()] = 7
    ticket = made.core.engine.submit("backup", [Copy(device, source, host, target)], made.core.engine.fence())
    made.core.engine.wait(ticket)
    assert (host.data[target.tolist()] == 7).all()
    ticket.release()


def test_a_forward_can_start_on_the_first_layer() -> None:
    made = cache(group=1)
    node = made.insert(range(20))
    made.evict("full", 20)
    made.load_back(node)
    receipt = made.lock(node)
    (ticket,) = made.tickets(receipt)
    slots = made.nodes[node].device[0].slots
    assert slots is not None
    for layer in range(4):
        ticket.wait_layer(layer)
        seen = made.core.pools.device[0].data[slots.tolist(), layer].cpu()
        assert torch.equal(seen, made.core.expected(made.nodes[node], 0)[:, layer])


@pytest.mark.parametrize("way", ["batch", "gather"])
@pytest.mark.parametrize("group", [0, 1])
def test_every_way_to_copy_copies(group: int, way: str) -> None:
    made = cache(group=group)
    engine = made.core.engine
    assert isinstance(engine, CudaEngine)
    if (engine._batch if way == "batch" else engine._gather) is None:
        pytest.skip("no cuda-python, or a driver before CUDA 12.8" if way == "batch" else "no Triton")
    engine.thresholds = Thresholds(batch_from=1) if way == "batch" else Thresholds(gather_from=1, gather_up_to=1 << 30)
    device, host = made.core.pools.device[0], made.core.pools.host[0]
    device.data.copy_(torch.arange(device.data.numel(), device="cuda").view(device.data.shape))
    device.slots.take(32)
    host.slots.take(32)
    order = array("i", range(0, 32, 2))
    ticket = engine.submit("backup", [Copy(device, order, host, order)], engine.fence(), group)
    engine.wait(ticket)
    assert torch.equal(host.data[::2], device.data[::2].cpu())
    assert torch.count_nonzero(host.data[1::2]) == 0
    ticket.release()


def test_happens_before_holds_on_streams() -> None:
    made = cache(happens_before=True, poison=True, verify=True, group=1)
    node = made.insert(range(20))
    made.evict("full", 20)
    made.load_back(node)
    receipt = made.lock(node)
    for layer in range(4):
        made.read_layer(receipt, layer)
    made.forward(receipt, wait=True)
    made.unlock(receipt)
    assert made.audit() == []


@pytest.mark.parametrize("fault", ["failed", "partial"])
def test_a_failed_load_back_leaves_nothing(fault: str) -> None:
    made = cache()
    node = made.insert(range(8))
    made.evict("full", 8)
    made.fail("load_back", fault)
    holder = made.load_back(node)
    receipt = made.lock(node)
    made.wait(holder)
    with pytest.raises(NotReady, match="failed"):
        made.forward(receipt)
    made.unlock(receipt)
    made.poll()
    assert made.observe(node) == {"full": "H"}
    assert made.audit() == []
