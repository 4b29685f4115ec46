"""What telling every step costs: the chat of `tree.py` with and without a recorder.

    python benchmarks/events.py [--quick] [--repeat N] [--json FILE]

On, each atomic transition becomes a dict with the state of all nodes that it touched, handed to `deque.append`. Off,
the code asks once a transition whether somebody listens; that is estimated from the number of transitions and the
time of one question, since there is no build without it. Processor times.
"""

from __future__ import annotations

import gc
from collections import deque
from statistics import median
from time import process_time
from timeit import repeat as measure
from typing import Any

import _chat
import _memory
import tree
from _sides import Row, options, show, write

PAGE = 16
ON_TARGET, OFF_TARGET = 2.0, 0.02


def main() -> None:
    """Measure, print, write."""
    asked = options(__doc__)
    _memory.keep()
    conversations, times = (8, 1) if asked.quick else (300, 2 * asked.repeat)
    requests = _chat.chat(conversations, PAGE, 0)
    rows: list[Row] = [compare(components, requests, times) for components in tree.SETS]
    cells = [
        [
            "+".join(row["components"]),
            f"{row['off, µs a request']:.1f}",
            f"{row['on, µs a request']:.1f}",
            f"{row['on / off']:.2f}",
            f"{ON_TARGET:g}",
            f"{row['off, share']:.1%}",
            f"{OFF_TARGET:.0%}",
        ]
        for row in rows
    ]
    show(("components", "off, µs a request", "on", "times", "asked", "off costs", "asked"), cells)
    write(asked.json, rows)


def compare(components: tuple[str, ...], requests: list[_chat.Request], times: int) -> Row:
    """Off and on in turn."""
    rounds = []
    events = 0
    for _ in range(times + 1):
        off, _ = once(components, requests, None)
        heard: deque[dict[str, Any]] = deque(maxlen=1000)
        on, events = once(components, requests, heard)
        rounds.append((off, on))
    rounds = rounds[1:] or rounds
    off, on = min(off for off, _ in rounds), min(on for _, on in rounds)
    question = min(measure("core.recorder is not None", globals={"core": _Core()}, number=100_000, repeat=5)) / 100_000
    return {
        "components": list(components),
        "off, µs a request": 1e6 * off / len(requests),
        "on, µs a request": 1e6 * on / len(requests),
        "on / off": median(on / off for off, on in rounds),
        "events a request": events / len(requests),
        "off, share": events * question / off,
    }


class _Core:
    recorder = None


def once(
    components: tuple[str, ...], requests: list[_chat.Request], heard: deque[dict[str, Any]] | None
) -> tuple[float, int]:
    """Seconds, and how many events there were."""
    cache = tree.make(components, PAGE, requests)
    if heard is not None:
        cache.recorder = heard.append
    keys = [(cache.key(prompt), cache.key(whole)) for prompt, whole in requests]
    gc.collect()
    gc.freeze()
    begun = process_time()
    tree.run(cache, keys)
    seconds = process_time() - begun
    gc.unfreeze()
    return seconds, cache.core.seq


if __name__ == "__main__":
    main()
