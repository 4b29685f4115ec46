"""What evicting one leaf takes, of 1,000 to 100,000 leaves, beside SGLang's tree cores.

    python benchmarks/evict.py [--quick] [--repeat N] [--json FILE]

A hundred leaves of one page are evicted one at a time, least recently used first, by the public call. Nothing was
backed up, so that they are gone. Times are processor times.
"""

from __future__ import annotations

from array import array

from _sides import Cores, Row, options, show, timed, write
from pinproof.impl import TieredCache

PAGE = 16
EVICTED = 100
TARGET = 10.0
"""Microseconds a leaf, of 10,000 leaves."""


def main() -> None:
    """Measure, print, write."""
    asked = options(__doc__)
    rows: list[Row] = []
    with Cores() as cores:
        for leaves in (200, 400) if asked.quick else (1_000, 10_000, 100_000):
            found: dict[str, list[float]] = {}
            for _ in range(1 if asked.quick else asked.repeat):
                found.setdefault("ours", []).append(ours(leaves))
                for core in () if cores.why_not else ("python", "rust"):
                    done = cores.run(do="evict", core=core, page=PAGE, leaves=leaves, evicted=EVICTED)
                    found.setdefault(core, []).append(done["seconds"] / EVICTED)
            micros = {side: 1e6 * min(each) for side, each in found.items()}
            rows.append({"leaves": leaves, "microseconds a leaf": micros, "all": found})
        sides = ("ours", "python", "rust")
        cells = [
            [f"{row['leaves']:,}", *(f"{row['microseconds a leaf'].get(side, float('nan')):.1f}" for side in sides)]
            for row in rows
        ]
        show(("leaves", "ours, µs a leaf", "Python core", "Rust core"), cells)
        print(f"asked: at most {TARGET:g} µs of 10,000 leaves, and no more of more")
        if cores.why_not:
            print(f"SGLang's cores were not measured: {cores.why_not}")
    write(asked.json, rows)


def ours(leaves: int) -> float:
    """Seconds a leaf."""
    cache = TieredCache(
        policy="write_through_selective",
        threshold=1 << 30,
        page_size=PAGE,
        device_pages=leaves,
        host_pages=1,
        layers=1,
        layer_bytes=0,
        content=False,
    )
    for number in range(leaves):
        cache.insert(array("I", range(number * PAGE, (number + 1) * PAGE)))
    evict = cache.evict
    seconds, freed = timed(lambda: sum(evict("full", 1) for _ in range(EVICTED)))
    assert freed == EVICTED
    return float(seconds / EVICTED)


if __name__ == "__main__":
    main()
