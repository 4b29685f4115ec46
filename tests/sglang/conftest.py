"""Workers of installed SGLang releases, and what the tests here share.

The releases in `OURS` are installed when they are not there (once: the environments live in the user's cache folder),
the others are tested where they are installed. Where a release is not to be had its tests are skipped, and the reason
says why.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pinproof.conformance.registry import open_target
from pinproof.conformance.sglang import environment
from pinproof.conformance.targets.base import Target

Answer = dict[str, Any]

OURS = ("0.5.18", "0.5.23")
"""The releases every run tests."""
CORES = [
    (version, core)
    for version in environment.RELEASES
    for core in ("python", "rust")
    if core == "python" or environment.has_rust(version)
]
"""Every core of every release."""


def release(version: str) -> environment.Environment:
    """The environment of a release; the test is skipped where it is not to be had."""
    try:
        return environment.install(version) if version in OURS else environment.find(version)
    except environment.EnvironmentProblem as problem:
        pytest.skip(f"sglang {version}: {problem}")


class Client:
    """A worker process spoken to in JSON lines; `ask` sends one operation and returns its answer."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._next = 0

    def ask(self, op: str, **arguments: Any) -> Answer:
        """One operation."""
        return self._send({"op": op, **arguments})

    def batch(self, requests: list[Answer]) -> list[Answer]:
        """Several operations in one round trip."""
        answers: list[Answer] = self._send({"op": "batch", "requests": requests})["answers"]
        return answers

    def close(self) -> None:
        """End the worker."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=30)

    def _send(self, request: Answer) -> Answer:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._next += 1
        self._process.stdin.write(json.dumps({"id": self._next, **request}).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the worker ended (exit status {self._process.poll()}) on {request}"
        answer: Answer = json.loads(line)
        assert answer["id"] == self._next
        return answer


@pytest.fixture(scope="session")
def workers() -> Iterator[Callable[[str, str], Client]]:
    """`workers(version, core)`: the worker of that core, started once a session."""
    started: dict[tuple[str, str], Client] = {}

    def start(version: str, core: str) -> Client:
        found = release(version)
        if (version, core) not in started:
            started[version, core] = Client(found.command(core))
        return started[version, core]

    yield start
    for client in started.values():
        client.close()


@pytest.fixture(scope="module")
def targets() -> Iterator[Callable[[str, str], Target]]:
    """`targets(version, core)`: the target of that core, opened once a module."""
    opened: dict[tuple[str, str], Target] = {}

    def get(version: str, core: str) -> Target:
        release(version)
        if (version, core) not in opened:
            opened[version, core] = open_target(f"sglang:{version}:{core}")
        return opened[version, core]

    yield get
    for each in opened.values():
        each.close()


@pytest.fixture(scope="session")
def importable(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder that makes `import pinproof` work in an environment where it is not installed."""
    folder = tmp_path_factory.mktemp("importable")
    (folder / "pinproof").symlink_to(Path(__file__).resolve().parents[2])
    return str(folder)


class Driver:
    """A seeded random driver of legal operations; `requests` gives the next ones, answers come back by `learn`."""

    def __init__(self, seed: int, components: list[str], policy: str, page: int) -> None:
        self.random, self.components, self.policy, self.page = random.Random(seed), components, policy, page
        self.locks: list[tuple[int, list[int]]] = []
        self.prefetches: list[int] = []
        self.sequences = [[self.random.randrange(3) for _ in range(4 * page)]]
        self.window = self.random.choice([2, 4, 6]) * (1 if page == 1 else 2)

    def configuration(self) -> Answer:
        """The first request."""
        pages, host = self.random.choice([10, 16, 24]), self.random.choice([6, 12, 24])
        return {
            "op": "configure", "policy": self.policy, "components": self.components, "page_size": self.page,
            "device_pages": pages, "host_pages": host, "window": self.window,
            "mamba_device_pages": self.random.choice([4, 8]), "mamba_host_pages": self.random.choice([3, 8]),
            "threshold": self.random.choice([1, 2, 1000]), "storage": self.random.choice([None, "auto"]),
        }  # fmt: skip

    def tokens(self) -> list[int]:
        """A sequence that often shares a prefix with an earlier one."""
        base = self.random.choice(self.sequences)
        tokens = base[: self.random.randrange(len(base) + 1)]
        tokens = [*tokens, *(self.random.randrange(3) for _ in range(self.random.randrange(4 * self.page)))]
        tokens = [*tokens, *(self.random.randrange(3) for _ in range(max(0, self.page - len(tokens))))][
            : 10 * self.page
        ]
        self.sequences = [*self.sequences, tokens][-12:]
        return tokens

    def run(self, ask: Callable[..., Answer]) -> None:
        """Do one thing a server does."""
        chance, choose = self.random.random(), self.random.choice
        if chance < 0.28:
            aux = {"swa": choose([True, True, False, self.random.randrange(9)])}
            ask("insert", tokens=self.tokens(), aux=aux, **choose([{}, {}, {"reuse": 0}, {"reuse": self.page}]))
        elif chance < 0.45:
            self._admit(ask, self.tokens() if self.random.random() < 0.3 else choose(self.sequences))
        elif chance < 0.56 and self.locks:
            op = choose(["unlock", "unlock", "forward", "release_window"])
            lock = choose(self.locks)
            if op == "unlock":
                self.locks.remove(lock)
            ask(op, holder=lock[0])
        elif chance < 0.72:
            ask(choose(["evict", "evict_host"]), component=choose(self.components), pages=choose([1, 2, 4, 8]))
        elif chance < 0.80:
            answer = ask("prefetch", tokens=self.tokens())
            if answer["ok"]:
                self.prefetches.append(answer["result"]["holder"])
        elif chance < 0.86 and self.prefetches:
            holder = self.prefetches.pop(self.random.randrange(len(self.prefetches)))
            ask(*choose([("finish_prefetch",), ("finish_prefetch",), ("abort",)]), holder=holder)
        elif chance < 0.90:
            ask("step", choice=self.random.randrange(4))
        else:
            ask("poll", **choose([{}, {"count": 1}, {"kind": "backup"}, {"kind": "load_back", "count": 1}]))

    def _admit(self, ask: Callable[..., Answer], tokens: list[int]) -> None:
        matched = ask("match", tokens=tokens)["result"]
        if matched["host_node"]:
            ask("load_back", node=matched["host_node"])
        if matched["node"]:
            locked = ask("lock", node=matched["node"])
            if locked["ok"]:
                self.locks.append((locked["result"]["holder"], tokens))


def problem(answer: Answer) -> str | None:
    """What must not be in an answer: a violation, a crash, an error of the controller, a failed audit."""
    if answer.get("violations"):
        return f"{answer['violations'][0]['kind']}: {answer['violations'][0]['message']}"
    if not answer["ok"] and not answer["error"]["type"].startswith("Refused"):
        return f"{answer['error']['type']}: {answer['error']['message']}"
    if answer["ok"] and answer["result"].get("problems"):
        return "; ".join(answer["result"]["problems"])
    return None


@pytest.fixture
def driver() -> type[Driver]:
    """The random driver."""
    return Driver


@pytest.fixture
def wrong() -> Callable[[Answer], str | None]:
    """What is wrong with an answer (see `problem`)."""
    return problem
