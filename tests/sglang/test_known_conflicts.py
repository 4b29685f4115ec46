"""The two false conflicts that started this project, on the releases that have them (SGLang #36317, #34519).

A load-back at Y pins the full sources X and Y. Before its ack a request needs X's window (or state), which the host
has under a lock of its own: nothing is in danger. 0.5.18 dies of an assertion, later releases load nothing.
"""

from __future__ import annotations

from typing import Any

import pytest

X, Y = [1, 2, 3, 4], [1, 2, 3, 4, 5, 6, 7, 8]

LATER = [("0.5.19", "python"), ("0.5.19", "rust"), ("0.5.23", "python"), ("0.5.23", "rust")]


def overlap(client: Any, policy: str, components: list[str]) -> tuple[dict[str, Any], int]:
    """The answer to the load-back at X while the one at Y is in flight, and the node of X."""
    client.ask("configure", policy=policy, components=components, page_size=1, device_pages=32, host_pages=32, window=4)
    for tokens in (X, Y):
        assert client.ask("insert", tokens=tokens)["ok"]
        client.ask("poll")
    client.ask("evict", component="full", pages=8)
    anchor = client.ask("match", tokens=Y)["result"]["host_node"]
    assert client.ask("load_back", node=anchor)["ok"]
    node = client.ask("match", tokens=X)["result"]["host_node"]
    assert node not in (0, anchor)
    return client.ask("load_back", node=node), node


@pytest.mark.parametrize("component", ["swa", "mamba"])
def test_0_5_18_dies_of_an_assertion(workers: Any, component: str) -> None:
    answer, node = overlap(workers("0.5.18", "python"), "write_back", ["full", component])
    assert answer["error"]["type"] == "TargetCrashed"
    assert "pinned by load-back" in answer["error"]["message"]
    assert answer["events"][-1]["action"] == "commit_load_back"
    assert answer["events"][-1]["outcome"] == "refused"
    assert answer["events"][-1]["args"]["node"] == node


@pytest.mark.parametrize("component", ["swa", "mamba"])
@pytest.mark.parametrize(("version", "core"), LATER)
def test_later_releases_load_nothing(workers: Any, version: str, core: str, component: str) -> None:
    answer, node = overlap(workers(version, core), "write_back", ["full", component])
    assert answer["error"]["type"] == "RefusedLoadBack"
    begin, refused, given_back = answer["events"]
    assert (begin["action"], refused["action"], given_back["action"]) == (
        "begin_load_back", "commit_load_back", "refuse_load_back",
    )  # fmt: skip
    assert refused["reason"] == f"empty although {component} of node {node} is on the host"


@pytest.mark.parametrize("component", ["swa", "mamba"])
@pytest.mark.parametrize(("version", "core"), [("0.5.18", "python"), *LATER])
def test_write_through_loads_it(workers: Any, version: str, core: str, component: str) -> None:
    client = workers(version, core)
    answer, _ = overlap(client, "write_through", ["full", component])
    assert answer["ok"]
    assert client.ask("poll")["result"]["load_back"] == 2
    assert client.ask("audit")["result"]["problems"] == []
