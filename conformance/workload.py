"""Real-looking load: a seeded multi-turn chat, or a recorded trace in Mooncake's format, as operations on a target.

A request matches its tokens, loads back what the host has, locks, reads, inserts what it computed, and lets go; some
are aborted on the way. Several are under way at a time, and copies advance in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from random import Random
from typing import Any, Protocol

import msgspec

from ..model.vocabulary import WRITE_BACK, Component, Policy
from .errors import BadWorkload
from .events import Event
from .session import Session
from .situation import Operation, operation
from .storage_workload import Forgotten
from .targets.base import Answer, Configuration

Request = Generator[Operation, Answer | None, None]
BLOCK = 512
"""Tokens that one hash id of a Mooncake trace stands for."""
FRESH = 1 << 30
"""Token ids from here on are nobody else's."""


class Workload(Protocol):
    """A load, and what it must bring about to be worth anything."""

    configuration: Configuration

    def operations(self, session: Session) -> Iterator[Operation]:
        """The operations, each chosen after the answer to the one before."""

    def saw(self, event: Event) -> None:
        """Told of every event."""

    def missing(self, steps: int) -> list[str]:
        """What it should have brought about in a run of so many steps (0: all) and did not."""


def open_workload(
    name: str, policy: Policy, components: tuple[Component, ...], seed: int, scale: float | None = None
) -> Workload:
    """A workload by name ("chat", "storage") or path.

    Raises:
        BadWorkload: there is no such file, or a line of it is not of Mooncake's format.
    """
    if name == "chat":
        return Chat(policy, components, seed)
    if name == "storage":
        return Forgotten(policy, components, seed)
    return Mooncake(Path(name), policy, components, seed, 1.0 if scale is None else scale)


# One request
def request(tokens: list[int], output: list[int], rng: Random, *, abort: bool, storage: bool) -> Request:
    """A request from its match to its end. `abort`: it is given up somewhere on the way."""
    if storage and rng.random() < 0.2:
        answer = yield operation("prefetch", tokens=tokens)
        if (holder := _result(answer, "holder")) is not None:
            yield operation("poll")
            answer = yield operation("finish_prefetch", holder=holder)
            for _ in range(50):
                if answer is None or answer.ok:
                    break
                yield operation("wait", holder=holder)
                answer = yield operation("finish_prefetch", holder=holder)
    answer = yield operation("match", tokens=tokens)
    node, on_host = _device_node(answer), _result(answer, "host_node")
    if on_host and on_host != node:
        answer = yield operation("load_back", node=on_host)
        if answer is not None and answer.ok:
            node = on_host
        if abort and rng.random() < 0.3:
            return
    holder = None
    if node:
        answer = yield operation("lock", node=node)
        holder = _result(answer, "holder")
    if holder is not None:
        if abort and rng.random() < 0.5:
            yield operation("abort", holder=holder)
            return
        answer = yield operation("forward", holder=holder)
        for _ in range(50):
            if answer is None or answer.ok:
                break
            yield operation("step", choice=rng.randrange(16))
            yield operation("poll")
            answer = yield operation("forward", holder=holder)
    answer = yield operation("insert", tokens=tokens + output)
    made = _result(answer, "node")
    if holder is not None:
        yield operation("unlock", holder=holder)
    if storage and made and rng.random() < 0.15:
        yield operation("storage_backup", node=made)


def _result(answer: Answer | None, name: str) -> Any:
    return answer.result.get(name) if answer is not None and answer.ok and isinstance(answer.result, dict) else None


def _device_node(answer: Answer | None) -> Any:
    found = _result(answer, "device_node")
    return found if found is not None else _result(answer, "node")


class _Serving:
    """Runs requests side by side."""

    concurrency = 3

    def __init__(self, seed: int) -> None:
        self.random = Random(f"{seed}/serving")
        self.seen: Counter[str] = Counter()
        self.served = 0

    def saw(self, event: Event) -> None:
        """Counts actions."""
        if event.outcome == "done":
            self.seen[event.action] += 1

    def requests(self) -> Iterator[Request]:
        """The requests in the order in which they come."""
        raise NotImplementedError

    def operations(self, session: Session) -> Iterator[Operation]:
        """Interleaves the requests under way, one operation at a time, with the copies."""
        rng = self.random
        coming = self.requests()
        active: list[tuple[Request, Operation]] = []
        more = True
        while more or active:
            while more and len(active) < self.concurrency:
                fresh = next(coming, None)
                if fresh is None:
                    more = False
                    break
                active.append((fresh, next(fresh)))
            if not active:
                break
            at = rng.randrange(len(active))
            current, asked = active[at]
            if asked.name in session.operations:
                yield asked
                answer = session.last
            else:
                answer = None
            try:
                active[at] = (current, current.send(answer))
            except StopIteration:
                del active[at]
                self.served += 1
            if "step" in session.operations:
                for _ in range(rng.randrange(3)):
                    yield operation("step", choice=rng.randrange(64))
            if rng.random() < 0.2:
                yield operation("poll")


# Chat
class Chat(_Serving):
    """Conversations that share system prompts and grow turn by turn, on a cache that is always too small for them."""

    conversations = 10
    turns = 8
    prompts = 3

    def __init__(self, policy: Policy, components: tuple[Component, ...], seed: int) -> None:
        super().__init__(seed)
        self.configuration = Configuration(
            policy, components, page_size=4, device_pages=40, host_pages=56, mamba_device_pages=12,
            mamba_host_pages=16, window=8, seed=seed,
        )  # fmt: skip
        self.aborts = 0
        self._storage = True

    def requests(self) -> Iterator[Request]:
        """Turns of all conversations, in random order, again and again with new conversations."""
        rng, size = self.random, self.configuration.page_size
        word = 0

        def say(pages: int) -> list[int]:
            nonlocal word
            word += pages * size
            return list(range(word - pages * size, word))

        systems = [say(rng.randint(2, 5)) for _ in range(self.prompts)]
        while True:
            talks = [list(rng.choice(systems)) for _ in range(self.conversations)]
            turns = [n for n in range(self.conversations) for _ in range(rng.randint(2, self.turns))]
            rng.shuffle(turns)
            for number in turns:
                talk = talks[number]
                if len(talk) // size > self.configuration.device_pages // 2:
                    talk[:] = list(rng.choice(systems))
                talk += say(rng.randint(1, 2))
                output = say(rng.randint(1, 2))
                abort = rng.random() < 0.12
                self.aborts += abort
                yield request(list(talk), output, rng, abort=abort, storage=self._storage)
                if not abort:
                    talk += output

    def missing(self, steps: int) -> list[str]:
        """Memory pressure must have shown itself."""
        wanted = ["demote", "ack_load_back", "evict_host_leaf", "ack_backup", "insert_leaf"]
        if self.configuration.policy == WRITE_BACK:
            wanted.append("reclaim_duplicate")
        found = [action for action in wanted if not self.seen[action]]
        return [*found, *([] if self.aborts else ["abort"])]


# Mooncake
class _Line(msgspec.Struct):
    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[int]


class Mooncake(_Serving):
    """Requests of a recorded trace: a hash id becomes one page. Order is kept, time is not.

    Args:
        path: JSON lines `{timestamp, input_length, output_length, hash_ids}`.
        scale: the fraction of each request's blocks that is kept, from the front.
    """

    page = 2

    def __init__(self, path: Path, policy: Policy, components: tuple[Component, ...], seed: int, scale: float) -> None:
        super().__init__(seed)
        if not 0 < scale <= 1:
            raise BadWorkload(f"scale: {scale} is not within 0 (excluded) and 1")
        self.path = path
        self.scale = scale
        longest = max((self._blocks(line) + self._output(line) for line in self._lines()), default=0)
        if not longest:
            raise BadWorkload(f"{path}: there are no requests in it")
        pages = max(64, 2 * longest)
        self.configuration = Configuration(
            policy, components, page_size=self.page, device_pages=pages, host_pages=2 * pages,
            mamba_device_pages=max(16, pages // 8), mamba_host_pages=max(16, pages // 4), window=4 * self.page,
            seed=seed,
        )  # fmt: skip

    def _lines(self) -> Iterator[_Line]:
        decode = msgspec.json.Decoder(_Line).decode
        try:
            with self.path.open("rb") as file:
                for number, text in enumerate(file, 1):
                    if not text.strip():
                        continue
                    try:
                        yield decode(text)
                    except (msgspec.DecodeError, UnicodeDecodeError) as error:
                        raise BadWorkload(f"{self.path}, line {number}: {error}") from None
        except OSError as error:
            raise BadWorkload(f"{self.path}: {error.strerror}") from None

    def _blocks(self, line: _Line) -> int:
        return max(1, round(min(len(line.hash_ids), max(1, line.input_length // BLOCK)) * self.scale))

    def _output(self, line: _Line) -> int:
        return max(1, round(line.output_length / BLOCK * self.scale))

    def requests(self) -> Iterator[Request]:
        """One for each line."""
        fresh = FRESH
        for line in self._lines():
            kept = line.hash_ids[: self._blocks(line)]
            tokens = [h * self.page + k for h in kept for k in range(self.page)]
            count = self._output(line) * self.page
            output = list(range(fresh, fresh + count))
            fresh += count
            yield request(tokens, output, self.random, abort=self.random.random() < 0.02, storage=False)

    def missing(self, steps: int) -> list[str]:
        """Only that something was served."""
        return [] if self.seen["insert_leaf"] else ["insert_leaf"]
