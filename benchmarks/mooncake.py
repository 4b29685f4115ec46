"""A trace of real requests on a device that is too small for them, page 64, beside SGLang's tree cores.

    python benchmarks/mooncake.py --trace conversation_trace.jsonl [--limit N] [--json FILE]
    python benchmarks/mooncake.py --imitate 2000

The trace is a file in the format that the Mooncake paper published (`_mooncake.py`); without one, `--imitate` writes
a random trace of the same shape first, and the table says so. A request matches, locks, evicts what is short, inserts
and unlocks. The device holds `--capacity` tokens; what is evicted is gone, on both sides. Times are processor times.

The prefixes found must be the same on both sides. For that ours has to do here what SGLang's cores do: when a match
ends inside a node, its rest, which nobody has asked for, becomes the most recently used of all (`_split_node` of
`unified_tree_core.py` in 0.5.23 sets its `last_access_time`, below a comment that says that it keeps its recency). What
ours finds without that is told as well.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any
from unittest import mock

import _mooncake
from _sides import Cores, Row, options, show, write
from pinproof.impl import OutOfDeviceSlots, TieredCache, inserting, matching, requests
from pinproof.impl.core import Core
from pinproof.impl.node import Node

PAGE = 64
BLOCKS = (10_000, 30_000, 50_000)
TARGET = 15.0


def main() -> None:
    """Measure, print, write."""
    asked = options(__doc__, arguments)
    if asked.trace is None and not asked.imitate and not asked.quick:
        print("skipped: no trace file was given (--trace FILE), nor an imitation asked for (--imitate N)")
        return
    with tempfile.TemporaryDirectory() as folder:
        path, name = asked.trace, "trace"
        if path is None:
            path, name = Path(folder) / "imitation.jsonl", "imitation"
            _mooncake.imitate(path, 40 if asked.quick else asked.imitate)
        repeat = 1 if asked.quick else asked.repeat
        with Cores() as cores:
            rows = [
                compare(cores, str(path), name, asked.limit, capacity, repeat)
                for capacity in ([200_000] if asked.quick else asked.capacity)
            ]
            head = ("tokens held", "found", "own order", "ours op/s", "core", "op/s", "times", "asked", "answers")
            show(head, [line for row in rows for line in lines(row)])
            print(f"{rows[0]['requests']:,} requests ({name}), mean {rows[0]['mean tokens']:,.0f} tokens")
            if cores.why_not:
                print(f"SGLang's cores were not measured: {cores.why_not}")
    write(asked.json, rows)


def arguments(parser: argparse.ArgumentParser) -> None:
    """What only this benchmark takes."""
    parser.add_argument("--trace", type=Path, help="the trace file")
    parser.add_argument("--imitate", type=int, default=0, help="make so many requests of the same shape instead")
    parser.add_argument("--limit", type=int, default=0, help="only so many requests")
    blocks = " ".join(f"{blocks:,}" for blocks in BLOCKS)
    parser.add_argument(
        "--capacity",
        type=int,
        nargs="*",
        default=[blocks * _mooncake.BLOCK for blocks in BLOCKS],
        help=f"tokens that the device holds, a row for each; {blocks} blocks of the trace's 512 tokens unless given",
    )


def compare(cores: Cores, path: str, name: str, limit: int, capacity: int, repeat: int) -> Row:
    """All sides in turn."""
    capacity -= capacity % PAGE
    asked = _mooncake.requests(path, PAGE, limit)
    tokens = sum(len(prompt) for prompt, _ in asked)
    rounds: list[dict[str, float]] = []
    same, hit = True, 0
    own = sum(ours(asked, capacity)[1])
    for number in range(repeat + 1):
        with rest_of_a_split_is_young():
            seconds, answers = ours(asked, capacity)
        spent = {"ours": seconds}
        hit = sum(answers)
        if cores.why_not is None:
            for core in ("python", "rust"):
                found = cores.run(do="mooncake", core=core, path=path, page=PAGE, limit=limit, capacity=capacity)
                spent[core] = found["seconds"]
                same = same and found["answers"] == answers
        if number or repeat == 1:
            rounds.append(spent)
    operations = 4 * len(asked)
    best = {side: min(one[side] for one in rounds) for side in rounds[0]}
    return {
        "trace": name,
        "capacity": capacity,
        "requests": len(asked),
        "mean tokens": tokens / len(asked),
        "found": hit / tokens,
        "found with our own order": own / tokens,
        "operations a second": {side: operations / seconds for side, seconds in best.items()},
        "times": {side: median(one[side] / one["ours"] for one in rounds) for side in best if side != "ours"},
        "same answers": same,
        "rounds": rounds,
    }


@contextlib.contextmanager
def rest_of_a_split_is_young() -> Iterator[None]:
    """SGLang's order of eviction after a split, in our cache."""
    split = requests.split

    def renewing(core: Core, node: Node, pages: int) -> Node:
        prefix = split(core, node, pages)
        core.clock = node.touched = core.clock + 1
        return prefix

    with mock.patch.object(matching, "split", renewing), mock.patch.object(inserting, "split", renewing):
        yield


def ours(asked: list[_mooncake.Request], capacity: int) -> tuple[float, list[int]]:
    """Seconds, and the tokens found of each request."""
    cache = TieredCache(
        policy="write_through_selective",
        threshold=1 << 30,
        page_size=PAGE,
        device_pages=capacity // PAGE,
        host_pages=1,
        layers=1,
        layer_bytes=0,
        content=False,
    )
    keys = [(cache.key(prompt), cache.key(whole)) for prompt, whole in asked]
    match, lock, insert, unlock, answers = cache.match, cache.lock, cache.insert, cache.unlock, []
    gc.collect()
    gc.freeze()
    begun = process_time()
    for prompt, whole in keys:
        found = match(prompt)
        receipt = lock(found.device_node)
        with contextlib.suppress(OutOfDeviceSlots):
            insert(whole, after=receipt)
        unlock(receipt)
        answers.append(found.device_tokens)
    seconds = process_time() - begun
    gc.unfreeze()
    return seconds, answers


def lines(row: Row) -> list[list[str]]:
    """A row as text, a line a core."""
    rates: dict[str, Any] = row["operations a second"]
    own = row["found with our own order"]
    first = [f"{row['capacity']:,}", f"{row['found']:.1%}", f"{own:.1%}", f"{rates['ours']:,.0f}"]
    answers = "equal" if row["same answers"] else "DIFFERENT"
    if len(rates) == 1:
        return [[*first, "", "not measured", "", f"{TARGET:g}", ""]]
    return [
        [
            *(first if n == 0 else [""] * len(first)),
            core,
            f"{rates[core]:,.0f}",
            f"{row['times'][core]:.1f}",
            f"{TARGET:g}",
            answers,
        ]
        for n, core in enumerate(("python", "rust"))
    ]


if __name__ == "__main__":
    main()
