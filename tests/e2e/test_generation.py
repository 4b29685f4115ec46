"""Generation from a cache under pressure gives the logits of generation without one, bit by bit."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch

COMPONENTS = {"dense": ("full",), "alternating": ("full", "swa"), "hybrid": ("full", "mamba")}
POLICIES = ("write_back", "write_through")
ANSWER = 3
"""Tokens that a request generates."""
SEEDS = 3
Known = dict[tuple[int, ...], list[torch.Tensor]]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=list(COMPONENTS))
def subject(request: pytest.FixtureRequest) -> tuple[str, Any, Known]:
    """A model by name, and the logits that it was found to give without a cache, by prompt."""
    pytest.importorskip("transformers", reason="transformers is not installed (python -m pip install '.[e2e]')")
    from tiny_models import MODELS  # type: ignore[import-not-found]

    return request.param, MODELS[request.param](), {}


class Told:
    """Counts what the cache did, and the pages of each component that were loaded back."""

    def __init__(self) -> None:
        self.actions: Counter[str] = Counter()
        self.loaded: Counter[str] = Counter()

    def __call__(self, event: dict[str, Any]) -> None:
        if event["outcome"] == "done":
            self.actions[event["action"]] += 1
            if event["action"] == "commit_load_back":
                self.loaded.update(component for _, _, component, _, _ in event["slots"])


def converse(model: Any, known: Known, policy: str, seed: int, **choices: Any) -> tuple[Any, Told, int]:
    """Four conversations of five turns, two requests at a time, in an order and with copies in an order that the seed
    chooses. Returns the server, what the cache did, and how many requests had other logits than without a cache.
    """
    from tiered_generation import Server, uncached  # type: ignore[import-not-found]

    told, dice, wrong = Told(), random.Random(seed), 0
    host = 17 if policy == "write_back" else 26
    sizes = {"device_pages": 17, "host_pages": host, "swa_device_pages": 9, "swa_host_pages": 14} | {
        "mamba_device_pages": 4,
        "mamba_host_pages": 10,
    }
    server = Server(model, 4, told, policy=policy, seed=seed, **(sizes | choices))
    told_so_far = [[*range(1, 13), *range(20 + 10 * c, 24 + 10 * c)] for c in range(4)]
    for turn in range(5):
        pairs = [0, 1, 2, 3]
        dice.shuffle(pairs)
        for pair in (pairs[:2], pairs[2:]):
            requests = {c: server.start(told_so_far[c]) for c in pair}
            for _ in range(dice.randrange(40)):
                server.cache.step(dice.randrange(1000))
                if dice.random() < 0.2:
                    server.cache.poll()
            for c in dice.sample(pair, 2):
                prompt = tuple(told_so_far[c])
                done = server.finish(requests[c], ANSWER)
                if prompt not in known:
                    known[prompt] = uncached(model, prompt, ANSWER)
                wrong += not all(torch.equal(a, b) for a, b in zip(done.logits, known[prompt], strict=True))
                told_so_far[c] = [*done.tokens, 3 + turn, 5 + c, 7]
                assert server.cache.audit(content=False) == []
    return server, told, wrong


@pytest.mark.parametrize("policy", POLICIES)
def test_logits_are_those_without_a_cache(subject: tuple[str, Any, Known], policy: str) -> None:
    name, model, known = subject
    told, computed = Told(), 0
    for seed in range(SEEDS):
        server, one, wrong = converse(model, known, policy, seed)
        assert wrong == 0
        told.actions += one.actions
        told.loaded += one.loaded
        computed += server.computed
        while server.cache.holders:
            server.cache.wait(next(iter(server.cache.holders)))
            server.cache.poll()
        server.cache.reset()
    assert set(told.loaded) == set(COMPONENTS[name])
    assert all(told.loaded[component] >= 4 for component in COMPONENTS[name])
    assert told.actions["ack_load_back"] >= 8
    assert told.actions["demote"] >= 8
    assert (told.actions["reclaim_duplicate"] > 0) == (policy == "write_back")
    assert computed < 0.7 * SEEDS * sum(len(prompt) + ANSWER for prompt in known)


def test_a_wrong_byte_on_the_host_is_a_wrong_logit(subject: tuple[str, Any, Known]) -> None:
    name, model, _ = subject
    from tiered_generation import Server, uncached

    for component in (None, *COMPONENTS[name]):
        server = Server(model, 4, device_pages=12, host_pages=12)
        first = server.finish(server.start([*range(1, 30)]), ANSWER)
        server.cache.evict("full", 12)
        for node in server.cache.nodes.values():
            for number, seat in enumerate(node.host):
                if ("full", "swa", "mamba")[number] == component and node.id and seat.slots is not None:
                    server.cache.core.pools.host[number].data[seat.slots[0]] ^= 1 << 22
        prompt = [*first.tokens, 9]
        again = server.finish(server.start(prompt), 1)
        assert again.start == 32
        assert torch.equal(again.logits[0], uncached(model, prompt, 1)[0]) == (component is None)


def test_the_example_says_that_all_logits_are_equal(capsys: pytest.CaptureFixture[str]) -> None:
    from multi_turn import main  # type: ignore[import-not-found]

    assert main(["dense"]) == 0
    told = capsys.readouterr().out
    assert "DIFFERENT" not in told
    assert any(int(line.split()[4]) > 0 for line in told.splitlines()[2:])
