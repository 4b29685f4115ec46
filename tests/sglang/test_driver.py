"""A seeded random driver over the newest release: the pools see nothing wrong, and all audits are clean."""

from __future__ import annotations

from typing import Any

import pytest

SETS = [["full"], ["full", "swa"], ["full", "mamba"], ["full", "swa", "mamba"]]


@pytest.mark.parametrize("policy", ["write_back", "write_through"])
@pytest.mark.parametrize("components", SETS, ids="+".join)
@pytest.mark.parametrize("core", ["python", "rust"])
def test_nothing_is_wrong(workers: Any, driver: Any, wrong: Any, core: str, components: list[str], policy: str) -> None:
    client = workers("0.5.23", core)
    for page in (1, 4):
        random = driver(page, components, policy, page)
        configuration = random.configuration()
        client.ask(configuration.pop("op"), **configuration)
        done: list[Any] = []

        def ask(op: str, done: list[Any] = done, **arguments: Any) -> Any:
            answer = client.ask(op, **arguments)
            done.append((op, arguments))
            assert wrong(answer) is None, f"{wrong(answer)} after {done}"
            return answer

        while len(done) < 150:
            random.run(ask)
        ask("poll")
        ask("audit")
