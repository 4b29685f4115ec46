"""Each fault of an engine is found by bytes when the schedule is unkind, and by happens-before when it hides the fault.

Every run has a twin: the same schedule without the fault, in which neither finds anything. Free lists that know what is
in transfer would tell of some faults first; all runs are without.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import pytest
import torch
from pinproof.conformance.engine_faults import ENGINE_FAULTS, UNGUARDED
from pinproof.conformance.faults import injected
from pinproof.conformance.targets.impl import wrong_bytes
from pinproof.impl import Busy, SlotError, TieredCache, UnorderedAccess
from pinproof.impl.transfers.stepped import SteppedEngine

Script = Callable[[TieredCache, bool], None]
OURS, OTHERS = [1, 2], [7, 8]


def copies(cache: TieredCache) -> None:
    """All copies that can go on do, the youngest first; what requests compute waits."""
    engine = cache.core.engine
    assert isinstance(engine, SteppedEngine)
    while cache.steps > engine._computable():
        cache.step(cache.steps - 1)


def compute(cache: TieredCache) -> None:
    """What requests compute is done as far as it can be without another copy."""
    engine = cache.core.engine
    assert isinstance(engine, SteppedEngine)
    while engine._computable():
        cache.step(0)


def on_the_host(cache: TieredCache, tokens: list[int]) -> int:
    """A node whose only copy is there."""
    node = cache.insert(tokens)
    cache.evict("full", len(tokens))
    compute(cache)
    assert cache.observe(node) == dict.fromkeys(cache.config.components, "H")
    return node


def no_store_fence(cache: TieredCache, kind: bool) -> None:
    cache.backup(cache.insert(OURS))
    (compute if kind else copies)(cache)


def no_load_fence(cache: TieredCache, kind: bool) -> None:
    wanted = on_the_host(cache, OTHERS)
    node = cache.insert(OURS)
    cache.wait(cache.backup(node))
    request = cache.lock(node)
    cache.forward(request)
    cache.unlock(request)
    cache.load_back(wanted)
    (compute if kind else copies)(cache)
    compute(cache)


def no_device_lock(cache: TieredCache, kind: bool) -> None:
    node = cache.insert(OURS)
    cache.wait(cache.backup(node))
    request = cache.lock(node)
    cache.forward(request)
    pages, slots = cache.core.pools.device[0], cache.nodes[node].device[0].slots
    assert slots is not None
    cache.evict("full", 2)
    compute(cache)
    if not kind and not torch.equal(pages.pages(slots), cache.core.expected(cache.nodes[node], 0)):
        raise SlotError("holder", "what a request has locked has other bytes")
    cache.unlock(request)


def no_host_lock(cache: TieredCache, kind: bool) -> None:
    cache.load_back(on_the_host(cache, OURS))
    if kind:
        copies(cache)
    cache.evict_host("mamba", 1)
    cache.backup(cache.insert(OTHERS))
    compute(cache)
    copies(cache)


def no_layer_wait(cache: TieredCache, kind: bool) -> None:
    node = on_the_host(cache, OURS)
    cache.load_back(node)
    cache.read_layer(cache.lock(node), 0)
    (copies if kind else compute)(cache)
    compute(cache)


def evict_while_pending(cache: TieredCache, kind: bool, *, polled: bool = False) -> None:
    node = cache.insert(OURS)
    compute(cache)
    cache.backup(node)
    if polled:
        cache.poll()
    if kind:
        copies(cache)
    cache.evict("full", 2)
    cache.insert(OTHERS)
    compute(cache)
    copies(cache)


def reset_without_drain(cache: TieredCache, kind: bool) -> None:
    node = cache.insert(OURS)
    compute(cache)
    cache.backup(node)
    if kind:
        copies(cache)
    else:
        cache.step(0)
        cache.step(1)
    with suppress(Busy):
        cache.reset()
    cache.backup(cache.insert(OTHERS))
    compute(cache)
    copies(cache)


SCRIPTS: dict[str, tuple[Script, dict[str, Any]]] = {
    "no store fence": (no_store_fence, {}),
    "no load fence": (no_load_fence, {"device_pages": 2}),
    "no device lock": (no_device_lock, {}),
    "no host lock": (no_host_lock, {"components": ("full", "mamba")}),
    "no layer wait": (no_layer_wait, {"group": 1}),
    "evict while pending": (evict_while_pending, {"device_pages": 2}),
    "ack at submit": (partial(evict_while_pending, polled=True), {"device_pages": 2}),
    "reset without drain": (reset_without_drain, {}),
}


def found(name: str, *, kind: bool, by: str, faulty: bool) -> str:
    """What comes of one run with one way of looking only: words, or nothing."""
    script, sizes = SCRIPTS[name]
    with ExitStack() as stack:
        stack.enter_context(injected(UNGUARDED))
        if faulty:
            stack.enter_context(injected(ENGINE_FAULTS[name]))
        cache = TieredCache(
            queued_compute=True, poison=True, happens_before=by == "order", verify=by == "bytes", **sizes
        )
        try:
            script(cache, kind)
            while cache.step(0):
                pass
        except UnorderedAccess as told:
            return str(told)
        except SlotError as told:
            return str(told)
        if by == "order":
            return ""
        cache.poll()
        return "\n".join(wrong_bytes(cache, list(cache.nodes.values())))


def test_all_are_here() -> None:
    assert SCRIPTS.keys() == ENGINE_FAULTS.keys()


@pytest.mark.parametrize("name", SCRIPTS)
def test_bytes_tell_when_the_schedule_is_unkind(name: str) -> None:
    assert "bytes" in found(name, kind=False, by="bytes", faulty=True)
    assert found(name, kind=False, by="bytes", faulty=False) == ""


@pytest.mark.parametrize("name", SCRIPTS)
def test_happens_before_tells_when_the_schedule_hides_it(name: str) -> None:
    assert found(name, kind=True, by="bytes", faulty=True) == ""
    told = found(name, kind=True, by="order", faulty=True)
    assert "and nothing orders it after" in told
    assert found(name, kind=True, by="order", faulty=False) == ""


@pytest.mark.parametrize("name", SCRIPTS)
def test_happens_before_tells_whatever_the_schedule(name: str) -> None:
    assert "and nothing orders it after" in found(name, kind=False, by="order", faulty=True)
    assert found(name, kind=False, by="order", faulty=False) == ""
