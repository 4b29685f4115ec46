"""Bytes go to the host and come back, through every release's cores."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import CORES

SETS = [["full"], ["full", "swa"], ["full", "mamba"], ["full", "swa", "mamba"]]
TOKENS = list(range(1, 13))


@pytest.mark.parametrize("policy", ["write_back", "write_through"])
@pytest.mark.parametrize(("version", "core"), CORES)
def test_what_was_written_comes_back(workers: Any, version: str, core: str, policy: str) -> None:
    client = workers(version, core)
    for components in SETS:
        for page in (1, 4):
            client.ask(
                "configure",
                policy=policy,
                components=components,
                page_size=page,
                device_pages=16,
                host_pages=16,
                window=4,
            )
            inserted = client.ask("insert", tokens=TOKENS)
            assert inserted["ok"], inserted
            client.ask("poll")
            assert client.ask("evict", component="full", pages=16)["result"]["freed"]["full"] == 12
            node = client.ask("match", tokens=TOKENS)["result"]["host_node"]
            loaded = client.ask("load_back", node=node)
            assert loaded["result"]["tokens"] == 12
            holder = client.ask("lock", node=node)["result"]["holder"]
            assert client.ask("forward", holder=holder)["error"]["type"] == "RefusedInFlight"
            client.ask("poll")
            read = client.ask("forward", holder=holder)
            assert read["ok"]
            assert "violations" not in read
            client.ask("unlock", holder=holder)
            assert client.ask("audit")["result"] == {"problems": [], "idle": True}


def test_a_prefetch_is_loaded_and_read(workers: Any) -> None:
    for core in ("python", "rust"):
        client = workers("0.5.23", core)
        client.ask("configure", policy="write_back", components=["full", "swa", "mamba"], window=4)
        holder = client.ask("prefetch", tokens=TOKENS)["result"]["holder"]
        assert client.ask("finish_prefetch", holder=holder)["result"]["loaded"] == 12
        node = client.ask("match", tokens=TOKENS)["result"]["host_node"]
        assert client.ask("load_back", node=node)["ok"]
        client.ask("poll")
        holder = client.ask("lock", node=node)["result"]["holder"]
        read = client.ask("forward", holder=holder)
        assert read["ok"]
        assert "violations" not in read
        client.ask("unlock", holder=holder)
        assert client.ask("reset")["ok"]
        assert client.ask("nodes")["result"]["nodes"] == {}


def test_both_cores_tell_the_same_events(workers: Any) -> None:
    def told(core: str) -> list[Any]:
        client = workers("0.5.23", core)
        client.ask("configure", policy="write_back", components=["full", "swa", "mamba"], window=4, host_pages=10)
        events = []
        for tokens in (TOKENS, [*TOKENS[:5], 20, 21, 22], [*TOKENS[:9], 30]):
            events += client.ask("insert", tokens=tokens)["events"]
        events += client.ask("evict", component="mamba", pages=2)["events"]
        events += client.ask("evict", component="full", pages=9)["events"]
        node = client.ask("match", tokens=TOKENS[:9])["result"]["host_node"]
        events += client.ask("load_back", node=node)["events"]
        events += client.ask("poll")["events"]
        return [(event["action"], event["args"], event["outcome"]) for event in events]

    assert told("python") == told("rust")
