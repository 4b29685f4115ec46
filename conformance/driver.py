"""The seeded random driver: chooses operations so that overlaps, splits under flight, re-entrant evictions, aborts and
faults happen all the time. It sees the run through the model, so it can drive any target.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Protocol

from ..model.vocabulary import Component, Policy
from .situation import Leading, Operation, Pick, Situation, operation
from .targets.base import Configuration

PROMPTS = 6
LONGEST = 7
"""Pages of a prompt."""
WORDS = 2
"""Different pages that prompts are made of: few, so that they share prefixes."""
NAMESPACE, NAMESPACED = "another", ("insert", "match", "prefetch")
"""A namespace, and the operations that take one."""
FAULTS = ("backup", "load_back", "prefetch", "storage_backup", "device_slots", "host_memory")


def small(policy: Policy, components: tuple[Component, ...], seed: int) -> Configuration:
    """A configuration with so little memory that there is never enough."""
    rng = Random(f"{seed}/sizes")
    return Configuration(
        policy,
        components,
        page_size=rng.choice((1, 1, 2)),
        device_pages=rng.choice((8, 10, 12)),
        host_pages=rng.choice((7, 9, 14)),
        mamba_device_pages=rng.choice((3, 4)),
        mamba_host_pages=rng.choice((3, 4)),
        window=rng.choice((2, 3, 4)),
        seed=seed,
    )


class Driver:
    """Chooses the next operation of a run.

    Args:
        seed: the only source of randomness.
        operations: those that the target answers.
        namespaces: the target keeps namespaces apart.
    """

    def __init__(
        self, configuration: Configuration, seed: int, operations: set[str], *, namespaces: bool = False
    ) -> None:
        self.namespaces = namespaces
        self._names = Random(f"{seed}/namespaces")
        self.configuration = configuration
        self.operations = operations
        self.random = Random(f"{seed}/driver")
        self._queue: deque[Operation] = deque()
        self._prompts = [self.random.choices(range(1, WORDS + 1), k=LONGEST) for _ in range(PROMPTS)]
        menu: list[tuple[int, str, Callable[[], Operation | list[Operation]]]] = [
            (6, "insert", self._insert),
            (4, "match", lambda: operation("match", tokens=self.tokens())),
            (4, "lock", lambda: operation("lock", node=self._node("device"))),
            (5, "unlock", lambda: operation("unlock", holder=self._holder("request"))),
            (2, "release_window", lambda: operation("release_window", holder=self._holder("request"))),
            (2, "forward", lambda: operation("forward", holder=self._holder("request"))),
            (3, "backup", lambda: operation("backup", node=self._node("unbacked", "device"))),
            (5, "load_back", lambda: operation("load_back", node=self._node("host_only", "aux_host"))),
            (2, "begin_load_back", lambda: operation("begin_load_back", node=self._node("host_only", "aux_host"))),
            (3, "commit_load_back", lambda: operation("commit_load_back", holder=self._holder("loading"))),
            (4, "evict", lambda: operation("evict", component=self._component(), pages=self.random.randint(0, 6))),
            (
                3,
                "evict_host",
                lambda: operation("evict_host", component=self._component(), pages=self.random.randint(0, 6)),
            ),
            (2, "reclaim", lambda: operation("reclaim", pages=self.random.randint(1, 3))),
            (4, "prefetch", lambda: operation("prefetch", tokens=self.tokens())),
            (
                3,
                "finish_prefetch",
                lambda: operation("finish_prefetch", holder=self._holder("read_prefetch", "prefetch")),
            ),
            (4, "storage_backup", lambda: operation("storage_backup", node=self._node("backed", "written"))),
            (18, "step", lambda: [operation("step", choice=self.random.randrange(64))] * 2),
            (3, "wait", lambda: operation("wait", holder=self._holder("flying"))),
            (5, "poll", lambda: operation("poll")),
            (2, "abort", lambda: operation("abort", holder=self._holder("operation", "loading"))),
            (1, "abort", self._give_up),
            (2, "fail", self._fault),
            (1, "reset", lambda: operation("reset")),
            (2, "evict", self._leave),
            (1, "storage_backup", self._keep),
            (2, "load_back", self._overlap),
            (2, "lock", self._split_under_lock),
            (2, "load_back", self._split_under_flight),
            (4, "recompute", self._recompute),
            (3, "recompute", self._overtake),
            (2, "lock_without_state", lambda: operation("lock_without_state", node=self._node("device"))),
            (1, "pin_full", lambda: operation("pin_full", node=self._node("device"))),
            (2, "evict_several", self._evict_several),
            (2, "attach_window", lambda: operation("attach_window", tokens=self.tokens())),
            (3, "extend", lambda: operation("extend", holder=self._holder("request"), **self._more())),
        ]
        known = [(weight, make) for weight, name, make in menu if name in operations]
        self._weights = [weight for weight, _ in known]
        self._makers = [make for _, make in known]

    def next(self, situation: Situation) -> Operation:
        """One operation that has something to pick from."""
        while True:
            if not self._queue:
                made = self.random.choices(self._makers, self._weights)[0]()
                self._queue.extend(self._somewhere(made if isinstance(made, list) else [made]))
            asked = self._queue.popleft()
            if asked.name in self.operations and situation.resolve(asked.args) is not None:
                picks = self._queue and any(isinstance(value, Pick) for value in self._queue[0].args.values())
                return Leading(*asked) if picks else asked

    def _somewhere(self, made: list[Operation]) -> list[Operation]:
        """Now and then somebody asks for the same tokens in a namespace of his own."""
        if not self.namespaces or self._names.random() < 0.7:
            return made
        return [
            each._replace(args={**each.args, "namespace": NAMESPACE}) if each.name in NAMESPACED else each
            for each in made
        ]

    def tokens(self, shortest: int = 1) -> list[int]:
        """A prefix of one of a few prompts, so that what was dropped is asked for again."""
        pages = self.random.choice(self._prompts)[: self.random.randint(shortest, LONGEST)]
        return [10 * word + k for word in pages for k in range(self.configuration.page_size)]

    # Picks
    def _node(self, *kinds: str) -> Pick:
        if self.random.random() < 0.1:
            return Pick("any", self.random.randrange(16))
        return Pick(self.random.choice(kinds), self.random.randrange(16))

    def _holder(self, *kinds: str) -> Pick:
        if self.random.random() < 0.03:
            return Pick("nobody")
        return Pick(self.random.choice(kinds), self.random.randrange(16))

    def _component(self) -> str:
        return self.random.choice(self.configuration.components)

    # Operations
    def _insert(self) -> Operation:
        if self.random.random() < 0.15:
            return operation("insert", tokens=self.tokens(), aux={"swa": False, "mamba": False})
        return operation("insert", tokens=self.tokens())

    def _recompute(self) -> Operation:
        """What is cached is computed again, since the request matched before it was."""
        tokens, size = self.tokens(), self.configuration.page_size
        reuse, floor = self.random.randrange(len(tokens) // size) * size, self._floor(len(tokens))
        return operation("recompute", tokens=tokens, reuse=reuse, priority=self.random.randrange(3), **floor)

    def _overtake(self) -> list[Operation]:
        """What a prefetch is to bring is computed, split and evicted before it comes."""
        whole, size = self.tokens(3), self.configuration.page_size
        part = whole[: self.random.randint(1, len(whole) // size) * size]
        made = [operation("evict", component="full", pages=99), operation("evict_host", component="full", pages=99)]
        made = [*self.random.sample(made, self.random.randint(0, 2)), operation("prefetch", tokens=whole)]
        between = [
            operation("insert", tokens=part), operation("recompute", tokens=part, **self._floor(len(part))),
            operation("match", tokens=part), operation("backup", node=self._node("unbacked")),
            operation("evict_host", component=self._component(), pages=3), self._evict_several(),
        ]  # fmt: skip
        made += self.random.sample(between, self.random.randint(1, 4))
        some = {"pages": self.random.randint(0, 7)} if self.random.random() < 0.4 else {}
        made.append(operation("finish_prefetch", holder=Pick("prefetch", self.random.randrange(4)), **some))
        return [*made, operation("load_back", node=Pick("host_only", self.random.randrange(16)))]

    def _evict_several(self) -> Operation:
        """Room for several components at once, made as far as it takes."""
        pages = {name: self.random.randint(0, 4) for name in self.configuration.components}
        steps = self.random.randrange(4)
        return operation("evict_several", pages=pages, **({"steps": steps} if steps else {}))

    def _more(self) -> dict[str, Any]:
        """What a request that goes on adds to its prompt."""
        return {"tokens": self.tokens()[-3 * self.configuration.page_size :], **self._floor(12)}

    def _floor(self, length: int) -> dict[str, int]:
        """The token before which a request has given its window back, if it has."""
        return {} if self.random.random() < 0.5 else {"floor": self.random.randrange(length + 1)}

    def _fault(self) -> Operation:
        return operation("fail", kind=self.random.choice(FAULTS), fault=self.random.choice(("failed", "partial")))

    def _leave(self) -> list[Operation]:
        """All requests end, both tiers are swept, and somebody comes back."""
        swept = [operation("unlock", holder=Pick("request"))] * 4 + [operation("evict", component="full", pages=99)]
        if self.random.random() < 0.5:
            swept.append(operation("evict_host", component="full", pages=99))
            swept.append(operation("prefetch", tokens=self.tokens(3)))
        else:
            swept.append(operation("load_back", node=Pick("host_only", self.random.randrange(16))))
        return swept

    def _give_up(self) -> list[Operation]:
        """Something is begun and given up at once, while its copies are under way."""
        if self.random.random() < 0.5:
            return [
                operation("evict", component="full", pages=99),
                operation("begin_load_back", node=Pick("host_only", self.random.randrange(16))),
                operation("abort", holder=Pick("loading", self.random.randrange(4))),
            ]
        return [
            *self._keep(),
            operation("evict", component="full", pages=99),
            operation("evict_host", component="full", pages=99),
            operation("prefetch", tokens=self.tokens(3)),
            operation("step", choice=0),
            operation("abort", holder=Pick("prefetch", self.random.randrange(4))),
        ]

    def _keep(self) -> list[Operation]:
        """Much of the host goes to storage."""
        made = []
        for index in range(5):
            made += [operation("storage_backup", node=Pick("backed", index)), operation("wait", holder=Pick("storing"))]
        return made

    def _overlap(self) -> list[Operation]:
        """Two load-backs at once whose paths share nodes, auxiliary copies gone in between (SGLang #36317)."""
        component = self.random.choice(self.configuration.components)
        made = [operation("evict", component="full", pages=99), operation("load_back", node=Pick("host_only", 15))]
        if component != "full":
            made.append(operation("evict", component=component, pages=99))
        other = Pick(self.random.choice(("upper", "aux_host", "host_only", "read")), self.random.randrange(16))
        made += [
            operation("load_back", node=other),
            operation("reclaim", pages=9),
            operation("insert", tokens=self.tokens(3)),
        ]
        if self.random.random() < 0.5:
            made.append(operation("load_back", node=Pick("aux_host", self.random.randrange(16))))
        return made

    def _split_under_lock(self) -> list[Operation]:
        """A request's path is split while it is locked, also where its window begins (SGLang #24972, #36350)."""
        whole, size = self.tokens(3), self.configuration.page_size
        pages = len(whole) // size
        upper = self.random.randint(2, pages)
        return [
            operation("insert", tokens=whole[: upper * size]),
            operation("insert", tokens=whole),
            operation("lock", node=Pick("leaf", self.random.randrange(16))),
            operation("match", tokens=whole[: self.random.randint(1, upper - 1) * size]),
            self.random.choice((operation("poll"), operation("release_window", holder=Pick("request", 15)))),
            operation("unlock", holder=Pick("request", 15)),
        ]

    def _split_under_flight(self) -> list[Operation]:
        """A match that ends inside a node of which something is in flight (SGLang #16946, #38480)."""
        whole = self.tokens(4)
        size = self.configuration.page_size
        part = whole[: size * self.random.randint(1, len(whole) // size)]
        start = self.random.choice(("load_back", "backup", "storage_backup"))
        among = {"load_back": "host_only", "backup": "unbacked", "storage_backup": "backed"}[start]
        made = [operation("insert", tokens=whole)]
        if start == "load_back":
            made.append(operation("evict", component="full", pages=99))
        made += [operation(start, node=Pick(among, self.random.randrange(16))), operation("match", tokens=part)]
        made.append(operation(self.random.choice(("reclaim", "evict_host", "evict", "match")), **{}))
        last = made.pop()
        made.append(
            operation("reclaim", pages=9) if last.name == "reclaim"
            else operation("match", tokens=part) if last.name == "match"
            else operation(last.name, component="full", pages=9)
        )  # fmt: skip
        return [*made, operation("wait", holder=Pick("flying", self.random.randrange(4)))]


class Chooser(Protocol):
    """Whoever chooses the operations of a run."""

    def next(self, situation: Situation) -> Operation:
        """One operation that has something to pick from."""


def operations(driver: Chooser, situation: Situation, steps: int) -> Iterator[Operation]:
    """The next `steps` operations of a run."""
    for _ in range(steps):
        yield driver.next(situation)
