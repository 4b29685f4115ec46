"""What telling every step costs: the chat of `tree.py` with and without a recorder.

    python benchmarks/events.py [--quick] [--repeat N] [--json FILE]

On, each atomic transition becomes a dict with the state of all nodes that it touched, handed to a listener that
counts it and lets it go; kept, to one that has the last 1,000. Off, the code asks once a transition whether
somebody listens; that is estimated from the number of transitions and the time of one question, since there is no
build without it. Processor times.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable
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
            f"{row['kept / off']:.2f}",
            f"{row['off, share']:.1%}",
            f"{OFF_TARGET:.0%}",
        ]
        for row in rows
    ]
    show(("components", "off, µs a request", "on", "times", "asked", "kept", "off costs", "asked"), cells)
    write(asked.json, rows)


def compare(components: tuple[str, ...], requests: list[_chat.Request], times: int) -> Row:
    """Off and on in turn."""
    rounds = []
    events = 0
    for _ in range(times + 1):
        counted = _Count()
        kept = deque[dict[str, Any]](maxlen=1000)
        rounds.append([once(components, requests, listener) for listener in (None, counted, kept.append)])
        events = counted.events
    rounds = rounds[1:] or rounds
    off, on = min(each[0] for each in rounds), min(each[1] for each in rounds)
    question = min(measure("core.recorder is not None", globals={"core": _Core()}, number=100_000, repeat=5)) / 100_000
    return {
        "components": list(components),
        "off, µs a request": 1e6 * off / len(requests),
        "on, µs a request": 1e6 * on / len(requests),
        "on / off": median(on / off for off, on, _ in rounds),
        "kept / off": median(kept / off for off, _, kept in rounds),
        "events a request": events / len(requests),
        "off, share": events * question / off,
    }


class _Count:
    events = 0

    def __call__(self, event: dict[str, Any]) -> None:
        self.events += 1


class _Core:
    recorder = None


def once(
    components: tuple[str, ...], requests: list[_chat.Request], listener: Callable[[dict[str, Any]], object] | None
) -> float:
    """Seconds."""
    cache = tree.make(components, PAGE, requests)
    cache.recorder = listener
    keys = [(cache.key(prompt), cache.key(whole)) for prompt, whole in requests]
    gc.collect()
    gc.freeze()
    begun = process_time()
    tree.run(cache, keys)
    seconds = process_time() - begun
    gc.unfreeze()
    return seconds


if __name__ == "__main__":
    main()
