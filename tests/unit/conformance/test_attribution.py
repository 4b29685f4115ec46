"""What is put down to a known deviation, and what looks like it and is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pinproof.conformance.attribution import Attribution
from pinproof.conformance.causes import CAUSES
from pinproof.conformance.checker import Checker
from pinproof.conformance.deviations import shipped
from pinproof.conformance.events import FORMAT, Event, Header, NodeState
from pinproof.conformance.violation import Violation

SPLIT = "split-drops-the-full-host-lock"
Names = Callable[[list[Event]], list[str | None]]


def state(tiers: str, **counts: int) -> NodeState:
    return NodeState(tiers, host_lock_ref={"full": n} if (n := counts.get("locks")) else {})


@pytest.fixture
def names() -> Names:
    """What each violation in a run of 0.5.21 is put down to."""

    def follow(events: list[Event]) -> list[str | None]:
        header = Header(FORMAT, "write_through", ("full",), "sglang:0.5.21:python")
        checker = Checker.of(header, after="resync")
        attribution = Attribution(shipped(), checker.machine.state)
        found = []
        for event in events:
            attribution.saw(event)
            found += [attribution.name(violation) for violation in checker.check(event)]
        return found

    return follow


def stored(*, holders: int = 1) -> list[Event]:
    """A node that only the host has, and storage writes that read it."""
    seen = [
        Event(0, "begin_prefetch", {"node": 0, "holder": 1}, "done", post={0: NodeState()}),
        Event(1, "complete_prefetch", {"holder": 1}, "done"),
        Event(2, "insert_host", {"parent": 0, "leaf": 1, "holder": 1}, "done", post={1: state("H")}),
        Event(3, "end_prefetch", {"holder": 1}, "done", post={0: NodeState()}),
    ]
    for number in range(holders):
        post = {1: state("H", locks=number + 1)}
        args: dict[str, Any] = {"node": 1, "holder": 2 + number}
        seen.append(Event(len(seen), "begin_storage_backup", args, "done", post=post))
    return seen


def split(seen: list[Event], *, node: int, prefix: int) -> list[Event]:
    """With the counts that the lower and the upper part are said to have then."""
    post = {1: state("H", locks=node), 2: state("H", locks=prefix)}
    return [*seen, Event(len(seen), "split", {"node": 1, "prefix": 2}, "done", post=post)]


def test_a_lock_that_the_split_lost_is_known(names: Names) -> None:
    assert names(split(stored(), node=1, prefix=0)) == [SPLIT]
    assert names(split(stored(holders=2), node=2, prefix=0)) == [SPLIT]
    assert names(split(stored(), node=1, prefix=1)) == []


@pytest.mark.parametrize(("node", "prefix", "said"), [(2, 1, [None]), (1, 0, [None, SPLIT]), (0, 0, [None, SPLIT])])
def test_any_other_count_is_not(names: Names, node: int, prefix: int, said: list[str | None]) -> None:
    """One lock of two lost, or one of the node itself: no split of this kind does that."""
    assert names(split(stored(holders=2), node=node, prefix=prefix)) == said


def test_a_count_that_is_wrong_without_a_split_is_not(names: Names) -> None:
    seen = stored()
    seen[-1] = Event(4, "begin_storage_backup", {"node": 1, "holder": 2}, "done", post={1: state("H")})
    assert names(seen) == [None]


def test_what_is_freed_is_known_only_where_every_lock_was_lost(names: Names) -> None:
    seen = split(stored(), node=1, prefix=0)
    assert names([*seen, Event(6, "evict_host_leaf", {"node": 1}, "done", post={1: None})])[1] is None
    ended = [
        *seen,
        Event(6, "begin_storage_backup", {"node": 2, "holder": 9}, "done", post={2: state("H", locks=1)}),
        Event(7, "evict_host_leaf", {"node": 2}, "done", post={2: None}),
    ]
    assert names(ended)[:2] == [SPLIT, None]


def test_a_second_mistake_on_the_same_node_is_told(names: Names) -> None:
    """The node differs already: that must not hide that it differs by more now."""
    seen = split(stored(), node=1, prefix=0)
    seen.append(Event(6, "begin_storage_backup", {"node": 2, "holder": 9}, "done", post={2: state("H")}))
    assert names(seen) == [SPLIT, None]


def test_a_report_of_the_pools_is_known_by_the_node_and_the_reader() -> None:
    checker = Checker.of(Header(FORMAT, "write_through", ("full",), "sglang:0.5.21:python"), after="resync")
    attribution = Attribution(shipped(), checker.machine.state)
    for event in split(stored(), node=1, prefix=0):
        attribution.saw(event)
        checker.check(event)

    def said(slot: int, pool: str, node: int, reader: int) -> str | None:
        words = f"slot {slot} of the {pool} (node {node}) is freed while holder {reader} reads it"
        return attribution.name(Violation("safety", 5, "target/freed-during-a-copy", f"freed during a copy: {words}"))

    assert said(7, "host pool of full", 2, 2) == SPLIT
    assert said(8, "host pool of full", 1, 2) is None  # the lower part has kept its lock
    assert said(8, "host pool of full", 2, 3) is None  # somebody else reads there
    assert said(7, "host pool of swa", 2, 2) is None
    wrong = "wrong bytes: the storage write of holder 2 reads other bytes in slot {} of host pool of full"
    told = [attribution.name(Violation("bytes", 5, "target/wrong-bytes", wrong.format(slot))) for slot in (7, 8)]
    assert told == [SPLIT, None]


def test_each_cause_is_some_deviation_s() -> None:
    assert {each.cause for each in shipped()} == set(CAUSES)
