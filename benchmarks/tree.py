"""Match, lock, insert, unlock on multi-turn chat, beside SGLang's tree cores.

    python benchmarks/tree.py [--quick] [--repeat N] [--json FILE]

Every request matches its prompt, locks what was found, inserts the prompt with the answer, and unlocks. Both sides
get the same tokens, each in the array that it takes, and must find the same prefixes. Ours takes and keeps the slots
as well; the other side is given its slots for nothing. No page content is written on either side.
"""

from __future__ import annotations

from typing import Any

import _chat
from _sides import Cores, Row, options, show, timed, write

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
    best: dict[str, float] = {}
    answers: dict[str, list[int]] = {}
    job = {"page": page, "components": list(components), "window": WINDOW, "conversations": conversations, "seed": 0}
    operations = 0
    for _ in range(repeat):
        found = ours(components, page, conversations)
        seen = {"ours": found}
        if cores.why_not is None:
            for core in ("python", "rust"):
                seen[core] = cores.run(do="chat", core=core, **job)
        for side, one in seen.items():
            best[side] = min(best.get(side, 1e9), one["seconds"])
            answers[side] = one["answers"]
        operations = found["operations"]
    same = all(answers[side] == answers["ours"] for side in answers)
    rates = {side: operations / seconds for side, seconds in best.items()}
    return {"components": list(components), "page": page, "rates": rates, "same answers": same, "job": job}


def ours(components: tuple[str, ...], page: int, conversations: int) -> dict[str, Any]:
    """One run of the cache, on a device that has room for everything."""
    requests = _chat.chat(conversations, page, 0)
    room = sum(len(whole) for _, whole in requests) // page // 2
    cache = TieredCache(
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

    def run() -> list[int]:
        match, lock, insert, unlock, answers = cache.match, cache.lock, cache.insert, cache.unlock, []
        for prompt, whole in requests:
            found = match(prompt)
            receipt = lock(found.device_node)
            insert(whole, after=receipt)
            unlock(receipt)
            answers.append(found.device_tokens)
        return answers

    seconds, answers = timed(run)
    return {"seconds": seconds, "answers": answers, "operations": 4 * len(requests)}


def line(row: Row) -> list[str]:
    """A row as text."""
    rates = row["rates"]
    cells = [f"{'+'.join(row['components'])}, {row['page']}", f"{rates['ours']:,.0f}"]
    for core, target in zip(("python", "rust"), TARGETS[tuple(row["components"])], strict=True):
        if core in rates:
            cells += [f"{rates[core]:,.0f}", f"{rates['ours'] / rates[core]:.1f}", f"{target:g}"]
        else:
            cells += ["not measured", "", f"{target:g}"]
    return [*cells, "equal" if row["same answers"] else "DIFFERENT"]


if __name__ == "__main__":
    main()
