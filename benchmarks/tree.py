"""Match, lock, insert, unlock on multi-turn chat, beside SGLang's tree cores.

    python benchmarks/tree.py [--quick] [--repeat N] [--json FILE]

Every request matches its prompt, locks what was found, inserts the prompt with the answer, and unlocks. Both sides
get the same tokens, each in the form that it takes without converting them (int64 arrays there, four bytes a token
here), and must find the same prefixes. Ours takes and keeps the slots as well; the other side is given its slots for
nothing. No page content is written on either side. Times are processor times, the best of some rounds after a first one
that is not counted; how many times is the median of the rounds.
"""

from __future__ import annotations

import gc
from statistics import median
from time import process_time

import _chat
from _sides import Cores, Row, options, show, write
from pinproof.impl import TieredCache

WINDOW = 1024
SETS = (("full",), ("full", "swa", "mamba"))
TARGETS = {("full",): (15.0, 3.0), ("full", "swa", "mamba"): (12.0, 2.5)}
"""How many times the Python and the Rust core's operations a second are asked for."""


def main() -> None:
    """Measure, print, write."""
    asked = options(__doc__)
    conversations = 8 if asked.quick else 300
    repeat = 1 if asked.quick else asked.repeat
    rows: list[Row] = []
    with Cores() as cores:
        for components in SETS:
            for page in (1, 16, 64):
                rows.append(compare(cores, components, page, conversations, repeat))
    head = ("components, page", "ours op/s", "Python op/s", "times", "asked", "Rust op/s", "times", "asked", "answers")
    show(head, [line(row) for row in rows])
    if cores.why_not:
        print(f"SGLang's cores were not measured: {cores.why_not}")
    write(asked.json, rows)


def compare(cores: Cores, components: tuple[str, ...], page: int, conversations: int, repeat: int) -> Row:
    """All sides in turn, `repeat` times."""
    job = {"page": page, "components": list(components), "window": WINDOW, "conversations": conversations, "seed": 0}
    requests = _chat.chat(conversations, page, 0)
    sides = ["ours"] if cores.why_not else ["ours", "python", "rust"]
    rounds: list[dict[str, float]] = []
    same = True
    for number in range(repeat + 1):
        for core in sides[1:]:
            cores.run(do="begin_chat", core=core, **job)
        cache = make(components, page, requests)
        keys = [(cache.key(prompt), cache.key(whole)) for prompt, whole in requests]
        gc.collect()
        gc.freeze()
        begun = process_time()
        answers = run(cache, keys)
        spent = {"ours": process_time() - begun}
        for core in sides[1:]:
            found = cores.run(do="chat", core=core, low=0, high=len(requests))
            spent[core] = found["seconds"]
            same = same and found["answers"] == answers
        gc.unfreeze()
        if number:
            rounds.append(spent)
    best = {side: min(spent[side] for spent in rounds) for side in sides}
    rates = {side: 4 * len(requests) / seconds for side, seconds in best.items()}
    times = {side: median(spent[side] / spent["ours"] for spent in rounds) for side in sides[1:]}
    return {
        "components": list(components),
        "page": page,
        "operations a second": rates,
        "times": times,
        "same answers": same,
        "rounds": rounds,
        "job": job,
    }


def make(components: tuple[str, ...], page: int, requests: list[_chat.Request]) -> TieredCache:
    """A cache whose device has room for everything."""
    room = sum(len(whole) for _, whole in requests) // page // 2
    return TieredCache(
        components=components,
        page_size=page,
        device_pages=room,
        host_pages=1,
        mamba_device_pages=len(requests) if "mamba" in components else None,
        window=WINDOW,
        layers=1,
        layer_bytes=0,
        content=False,
    )


def run(cache: TieredCache, requests: list[tuple[bytes, bytes]]) -> list[int]:
    """Serve requests; how many tokens of each were found."""
    match, lock, insert, unlock, answers = cache.match, cache.lock, cache.insert, cache.unlock, []
    for prompt, whole in requests:
        found = match(prompt)
        receipt = lock(found.device_node)
        insert(whole, after=receipt)
        unlock(receipt)
        answers.append(found.device_tokens)
    return answers


def line(row: Row) -> list[str]:
    """A row as text."""
    rates, times = row["operations a second"], row["times"]
    cells = [f"{'+'.join(row['components'])}, {row['page']}", f"{rates['ours']:,.0f}"]
    for core, target in zip(("python", "rust"), TARGETS[tuple(row["components"])], strict=True):
        if core in rates:
            cells += [f"{rates[core]:,.0f}", f"{times[core]:.1f}", f"{target:g}"]
        else:
            cells += ["not measured", "", f"{target:g}"]
    return [*cells, "equal" if row["same answers"] else "DIFFERENT"]


if __name__ == "__main__":
    main()
