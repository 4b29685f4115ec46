"""What the shadow costs: SGLang's tree cores bare, behind a shadow that checks, and behind one that records as well.

    python benchmarks/shadow.py [--quick] [--repeat N] [--json FILE]

A round is a request (match, lock, insert a new leaf, unlock) and a load-back (backup with its ack, demotion, load-back
with its ack) in a tree of 1,000 to 100,000 leaves of one page; 19 calls are in the time. To find the leaf that was used
least recently is not: there the cores themselves take longer in larger trees. Times are processor times, the best of
some rounds. `calls` and `work`, what the shadow's ledger looks at, are of a whole round: they must not grow with the
tree.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from _sides import Cores, Row, options, show, write

PAGE = 16
SIDES = ("nothing", "checking", "recording")


def main() -> None:
    """Measure, print, write."""
    asked = options(__doc__)
    sizes, rounds, repeat = ((50, 200), 20, 1) if asked.quick else ((1_000, 10_000, 100_000), 200, asked.repeat)
    rows: list[Row] = []
    with Cores() as cores, tempfile.TemporaryDirectory() as folder:
        for core in () if cores.why_not else ("python", "rust"):
            for nodes in sizes:
                rows.append(measure(cores, core, nodes, rounds, repeat, Path(folder) / "calls.ndjson"))
        head = ("core, leaves", "bare, µs", "checking", "times", "recording", "times", "calls", "work")
        show(head, [line(row) for row in rows])
        if cores.why_not:
            print(f"SGLang's cores were not measured: {cores.why_not}")
            rows.append({"not measured": cores.why_not})
    write(asked.json, rows)


def measure(cores: Cores, core: str, nodes: int, rounds: int, repeat: int, trace: Path) -> Row:
    """All sides in turn; microseconds a round."""
    best: dict[str, float] = {}
    told = {}
    for _ in range(repeat):
        for side in SIDES:
            job = {"core": core, "page": PAGE, "nodes": nodes, "rounds": rounds, "behind": side, "trace": str(trace)}
            done = cores.run(do="shadow", **job)
            best[side] = min(best.get(side, float("inf")), 1e6 * done["seconds"] / rounds)
            told.update({name: done[name] for name in ("calls", "work") if name in done})
    times = {side: best[side] / best["nothing"] for side in SIDES}
    return {"core": core, "nodes": nodes, "microseconds": best, "times": times, **told}


def line(row: Row) -> Sequence[str]:
    """A row as text."""
    micros, times = row["microseconds"], row["times"]
    cells = [f"{row['core']}, {row['nodes']:,}", f"{micros['nothing']:.0f}"]
    for side in SIDES[1:]:
        cells += [f"{micros[side]:.0f}", f"{times[side]:.2f}"]
    return [*cells, f"{row['calls']:g}", f"{row['work']:g}"]


if __name__ == "__main__":
    main()
