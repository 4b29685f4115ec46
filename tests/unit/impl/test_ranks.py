"""Ranks whose copies end in different orders take the same victims and slots; one that does not is shown at once."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from pinproof.conformance.checker import Checker
from pinproof.conformance.events import Header, convert_event
from pinproof.conformance.faults import Edit, Fault, injected
from pinproof.impl import BadConfig, CacheConfig, CacheError, NothingToDo, RanksDiverged
from pinproof.impl.ranks import Ranks
from pinproof.impl.stores.memory import MemoryStore

COMPONENTS = ("full", "swa", "mamba")
PROMPTS = [random.Random(n).choices([1, 2], k=7) for n in range(5)]


def group(policy: str = "write_back", recorder: Any = None) -> Ranks:
    """Two ranks; each has more of something than the other, and its own order of copies."""
    configs = [
        CacheConfig(
            policy=policy, components=COMPONENTS, window=3, device_pages=9 + rank, host_pages=9 - rank,
            mamba_device_pages=3, mamba_host_pages=3 + rank, storage=True, storage_writes="asked", verify=True,
            happens_before=True, poison=True, group=1, seed=rank, queued_compute=rank == 1,
        )
        for rank in range(2)
    ]  # fmt: skip
    return Ranks(configs, stores=[MemoryStore(), MemoryStore()], recorder=recorder)


class Adversary:
    """Asks for anything, and lets each rank's copies go on in an order of that rank's own."""

    def __init__(self, ranks: Ranks, seed: int) -> None:
        self.ranks = ranks
        self.leader = ranks.caches[0]
        self.random = random.Random(seed)
        self.ahead = [0, 0]
        self.declined = 0

    def tokens(self) -> list[int]:
        return self.random.choice(PROMPTS)[: self.random.randint(1, 7)]

    def node(self, away: bool = False) -> int:
        found = [n for n, node in self.leader.nodes.items() if n and (not away or not node.on_device)]
        return self.random.choice(found or [0])

    def holder(self, *kinds: str) -> int:
        found = [h.id for h in self.leader.holders.values() if not kinds or h.kind in kinds]
        return self.random.choice(found or [10**6])

    def steps(self) -> None:
        """One rank gets on, the other may not."""
        for rank in self.random.sample([0, 1], self.random.randint(1, 2)):
            for _ in range(self.random.randint(1, 8)):
                self.ranks.step(rank, self.random.randrange(1000))
        flying = [self.ended(rank) for rank in (0, 1)]
        self.ahead = [count + (own > other) for count, own, other in zip(self.ahead, flying, flying[::-1], strict=True)]

    def ended(self, rank: int) -> int:
        """Transfers that have ended on a rank and were not taken notice of."""
        queues = self.ranks.caches[rank].core.in_flight.values()
        return sum(op.ticket.inner.ended for queue in queues for op in queue)  # type: ignore[union-attr]

    def ask(self) -> None:
        pick = self.random
        call = self.ranks.call
        faults: list[Any] = ["backup", "load_back", "prefetch", "storage_backup"]
        choices: list[tuple[int, Callable[[], object]]] = [
            (6, lambda: call("insert", self.tokens())),
            (3, lambda: call("match", self.tokens())),
            (3, lambda: call("lock", self.node())),
            (5, lambda: call("unlock", self.holder("request"))),
            (2, lambda: call("forward", self.holder("request"), wait=pick.random() < 0.5)),
            (2, lambda: call("backup", self.node())),
            (5, lambda: call("load_back", self.node(away=True))),
            (4, lambda: call("evict", pick.choice(COMPONENTS), pick.randint(1, 6))),
            (3, lambda: call("evict_host", pick.choice(COMPONENTS), pick.randint(1, 6))),
            (4, lambda: call("prefetch", self.tokens())),
            (3, lambda: call("finish_prefetch", self.holder("prefetch"))),
            (4, lambda: call("storage_backup", self.node())),
            (1, lambda: call("abort", self.holder())),
            (1, lambda: self.ranks.fail(pick.randrange(2), pick.choice(faults), pick.choice(["failed", "partial"]))),
            (12, self.steps),
            (6, lambda: call("poll")),
        ]
        try:
            pick.choices([c for _, c in choices], [w for w, _ in choices])[0]()
        except RanksDiverged:
            raise
        except CacheError:
            self.declined += 1


@pytest.mark.parametrize(("policy", "steps"), [("write_back", 5000), ("write_through", 1000)])
def test_they_agree_on_every_victim_whatever_order_copies_end_in(policy: str, steps: int) -> None:
    heard: list[list[dict[str, Any]]] = [[], []]
    ranks = group(policy)
    for cache, events in zip(ranks.caches, heard, strict=True):
        own = cache.recorder
        assert own is not None
        cache.recorder = lambda event, own=own, events=events: (own(event), events.append(event))  # type: ignore[misc]
    adversary = Adversary(ranks, seed=7)
    for _ in range(steps):
        adversary.ask()
    assert heard[0] == heard[1]
    seen = {event["action"] for event in heard[0]}
    assert seen >= {"demote", "evict_host_leaf", "evict_device_aux", "ack_load_back", "fail_load_back", "insert_host"}
    assert min(adversary.ahead) > 20
    assert adversary.declined < steps // 2
    capacity = {
        tier: {name: pool.slots.size for name, pool in zip(COMPONENTS, pools.values(), strict=True)}
        for tier, pools in (("device", ranks.caches[0].core.pools.device), ("host", ranks.caches[1].core.pools.host))
    }
    assert capacity == {"device": {"full": 9, "swa": 9, "mamba": 3}, "host": {"full": 8, "swa": 8, "mamba": 3}}
    header = Header("pinproof/1", policy, COMPONENTS, capacity=capacity)  # type: ignore[arg-type]
    checker = Checker.of(header)
    assert [str(v) for event in heard[0] for v in checker.check(convert_event(event))] == []
    for cache in ranks.caches:
        assert cache.audit() == []
    ranks.close()


def test_a_divergence_is_shown_at_the_event_where_it_began() -> None:
    """Both free as many pages, but not the same: the count is agreed, the content is not (SGLang #40512)."""
    ranks = group()
    for tokens in ([1], [2], [3]):
        ranks.call("insert", tokens)
    before = ranks.caches[0].core.seq
    other = ranks.caches[1].core
    other.touch(other.nodes[1])
    with pytest.raises(RanksDiverged) as told:
        ranks.call("evict", "full", 1)
    assert told.value.seq == before
    assert (told.value.rank, ranks.caches[0].core.seq) == (1, other.seq)
    assert '"action": "begin_backup", "args": {"node": 1,' in told.value.ours
    assert '"action": "begin_backup", "args": {"node": 2,' in told.value.theirs
    ranks.close()


def test_a_rank_that_ends_otherwise_is_shown_too() -> None:
    ranks = group()
    ranks.call("insert", [1, 2])
    ranks.caches[1].config = ranks.caches[1].config.__class__(components=("full",))
    with pytest.raises(RanksDiverged, match=r"rank 0: end of evict: done\nrank 1: end of evict: BadArg") as told:
        ranks.call("evict", "mamba", 0)
    assert told.value.seq is None
    ranks.close()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('self._meet(f"has a {self.direction} ended?", own)', "[own, own]"),
        ("min(counts) for", "(min if self.inner.error else max)(counts) for"),
        ('"; ".join(failed) or None', "self.inner.error"),
    ],
    ids=["ends on its own", "adopts what it has read", "fails on its own"],
)
def test_what_is_not_agreed_is_found(old: str, new: str) -> None:
    with injected(Fault("alone", "", "", (Edit("ranks:RankTicket._agreed", old, new),))):
        ranks = group()
        adversary = Adversary(ranks, seed=3)
        assert diverges(lambda: [adversary.ask() for _ in range(2500)])
        ranks.close()


def diverges(run: Callable[[], object]) -> bool:
    try:
        run()
    except RanksDiverged:
        return True
    return False


@pytest.mark.parametrize("alone", [False, True])
def test_storage_has_a_page_if_all_its_shards_are_there(alone: bool) -> None:
    edit = Edit("ranks:RankStore.has", 'all(self._meet("is a page in storage?", own))', "own")
    with injected(Fault("alone", "", "", (edit,) if alone else ())):
        ranks = group()
        holder = ranks.call("backup", ranks.call("insert", [1, 2])).id
        ranks.call("wait", holder)
        ranks.fail(1, "storage_backup")
        holder = ranks.call("storage_backup", 1).id
        ranks.call("wait", holder)
        ranks.call("reset")
        with pytest.raises(RanksDiverged if alone else NothingToDo):
            ranks.call("prefetch", [1, 2])
        ranks.close()


def test_what_ranks_may_not_differ_in() -> None:
    with pytest.raises(BadConfig, match="no group"):
        Ranks([CacheConfig()])
    with pytest.raises(BadConfig, match="page_size: ranks differ"):
        Ranks([CacheConfig(), CacheConfig(page_size=2)])
