"""One load-back cycle beyond its copies: begin, commit, ack; beside SGLang's tree cores.

    python benchmarks/load_back.py [--quick] [--repeat N] [--json FILE]

A leaf of 8 pages hangs below 9 others that stay on the device; all have host copies. It is evicted (outside the
time), loaded back, and the load acknowledged. There is no transfer engine on either side: here it is one that is done
at once, there nothing is called. Ours finds and books the slots as well; the other side is given its slots for
nothing. Times are processor times, the best of some rounds; how many times
is the median of the rounds.
"""

from __future__ import annotations

import gc
from array import array
from collections.abc import Sequence
from statistics import median
from time import process_time

from _sides import Cores, Row, options, show, write
from pinproof.impl import TieredCache
from pinproof.impl.transfers.base import DIRECTIONS, Copy, Direction, Engine, Fence, Ticket

DEPTH, PAGES = 10, 8
TARGET = 10.0


class Instant(Engine):
    """Copies nothing, books nothing, and is done: all transfers of a direction are one that has ended."""

    def __init__(self) -> None:
        super().__init__()
        self._tickets = {direction: Ticket(direction, (), (), 0) for direction in DIRECTIONS}
        for ticket in self._tickets.values():
            ticket.over = True

    def submit(
        self, direction: Direction, copies: Sequence[Copy], after: Sequence[Fence] = (), group: int = 0
    ) -> Ticket:
        """A ticket that has ended."""
        return self._tickets[direction]

    def wait(self, ticket: Ticket) -> None:
        """It has ended."""


def main() -> None:
    """Measure, print, write."""
    asked = options(__doc__)
    rounds, repeat = (20, 1) if asked.quick else (200, 5 * asked.repeat)
    rows: list[Row] = []
    with Cores() as cores:
        for policy in ("write_back", "write_through"):
            for page in (1, 64):
                rows.append(compare(cores, policy, page, rounds, repeat))
        head = ("policy, page", "ours, µs", "Python core", "times", "asked", "Rust core", "times")
        show(head, [line(row) for row in rows])
        if cores.why_not:
            print(f"SGLang's cores were not measured: {cores.why_not}")
    write(asked.json, rows)


def compare(cores: Cores, policy: str, page: int, rounds: int, repeat: int) -> Row:
    """All sides in turn; microseconds a cycle."""
    found: list[dict[str, float]] = []
    for _ in range(repeat):
        one = {"ours": 1e6 * ours(policy, page, rounds)}
        for core in () if cores.why_not else ("python", "rust"):
            done = cores.run(
                do="load_back", core=core, policy=policy, page=page, depth=DEPTH, pages=PAGES, rounds=rounds
            )
            one[core] = 1e6 * done["seconds"] / rounds
        found.append(one)
    best = {side: min(one[side] for one in found) for side in found[0]}
    return {
        "policy": policy,
        "page": page,
        "microseconds": best,
        "times": {side: median(one[side] / one["ours"] for one in found) for side in best},
        "rounds": found,
    }


def ours(policy: str, page: int, rounds: int) -> float:
    """Seconds a cycle."""
    cache = TieredCache(
        policy=policy,
        page_size=page,
        device_pages=2 * DEPTH * PAGES,
        host_pages=2 * DEPTH * PAGES,
        layers=1,
        layer_bytes=0,
        content=False,
        transfers=Instant(),
    )
    leaf = 0
    for count in range(1, DEPTH + 1):
        leaf = cache.insert(array("I", range(count * PAGES * page)))
        if policy == "write_back":
            cache.backup(leaf)
        cache.poll()
    load_back, poll, evict, observe = cache.load_back, cache.poll, cache.evict, cache.observe
    spent = 0.0
    gc.collect()
    gc.freeze()
    for _ in range(rounds):
        evict("full", PAGES)
        begun = process_time()
        load_back(leaf)
        poll()
        spent += process_time() - begun
    gc.unfreeze()
    seen = observe(leaf)
    assert seen is not None
    assert seen["full"] == "DH"
    return spent / rounds


def line(row: Row) -> Sequence[str]:
    """A row as text."""
    micros, times = row["microseconds"], row["times"]
    cells = [f"{row['policy']}, {row['page']}", f"{micros['ours']:.1f}"]
    for core, target in (("python", [f"{TARGET:g}"]), ("rust", [])):
        if core in micros:
            cells += [f"{micros[core]:.1f}", f"{times[core]:.1f}", *target]
        else:
            cells += ["not measured", "", *target]
    return cells


if __name__ == "__main__":
    main()
