"""Random operations as ever, and between them prompts that come back when storage alone still has them: what the driver
meets by chance once in some hundred operations, of every ten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

from ..model.vocabulary import Component, Policy
from .driver import Driver, small
from .events import Event
from .session import Session
from .situation import Operation, Pick, operation


class Forgotten:
    """A prompt is computed, stored, forgotten by both tiers and asked for again, while others do as they like."""

    def __init__(self, policy: Policy, components: tuple[Component, ...], seed: int) -> None:
        self.configuration = small(policy, components, seed)
        self.random = Random(f"{seed}/storage")
        self.seen: Counter[str] = Counter()

    def operations(self, session: Session) -> Iterator[Operation]:
        """Without end."""
        namespaces = session.target.capabilities.namespaces
        driver = Driver(self.configuration, self.configuration.seed, session.operations, namespaces=namespaces)
        while True:
            for _ in range(self.random.randrange(12)):
                yield driver.next(session.situation)
            for asked in self._come_back(driver):
                if session.situation.resolve(asked.args) is not None:
                    yield asked

    def _come_back(self, driver: Driver) -> list[Operation]:
        whole, size = driver.tokens(3), self.configuration.page_size
        part = whole[: self.random.randint(1, len(whole) // size) * size]
        unlocked = [operation("unlock", holder=Pick("request"))] * 3
        stored = [operation("wait", holder=Pick("storing"))] * 6
        forgotten = [
            operation("insert", tokens=whole), *unlocked, operation("evict", component="full", pages=99),
            operation("storage_backup", node=Pick("backed", 15)), *stored,
            operation("evict_host", component="full", pages=99),
        ]  # fmt: skip
        between = [
            operation("insert", tokens=part), operation("match", tokens=part),
            operation("evict_host", component=self.random.choice(self.configuration.components), pages=3),
            operation("step", choice=1), operation("fail", kind="prefetch", fault="partial"),
            operation("abort", holder=Pick("prefetch")),
        ]  # fmt: skip
        return [
            *forgotten, operation("prefetch", tokens=whole),
            *self.random.sample(between, self.random.randint(0, 2)), operation("wait", holder=Pick("prefetch")),
            operation("finish_prefetch", holder=Pick("read_prefetch")),
            operation("load_back", node=Pick("host_only", self.random.randrange(16))),
        ]  # fmt: skip

    def saw(self, event: Event) -> None:
        """Told of every event."""
        self.seen[event.action] += event.outcome == "done"

    def missing(self, steps: int) -> list[str]:
        """Prefetches must have entered the tree, and have been loaded back."""
        return [action for action in ("insert_host", "end_prefetch", "ack_load_back") if not self.seen[action]]
