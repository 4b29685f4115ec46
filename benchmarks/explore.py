"""How many distinct states a second the explorer finds, beside Spin and beside a plain Python search of the same
protocol.

    python benchmarks/explore.py [--quick] [--json FILE]

The calibration problem is two-phase commit, every manager told apart; the counts are checked. Spin (6.5, from the
Debian package, compiled with -O2, one core, no bitstate) searches the same transition system, guard by guard, in the
same run and in turns. The Python search is the reference interpreter driven by a set. Rates are distinct states over
wall time, the median of `--repeat` runs each; processor time stands beside it, for machines that do other work too.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pinproof.model.concrete import compile_action
from pinproof.model.state import State
from pinproof.proofs.explore import explore, explore_system
from pinproof.proofs.twophase import STATES, two_phase_commit

Row = dict[str, Any]


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="7 managers instead of 8, and no 9")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each, in turns, of which the median counts")
    parser.add_argument("--json", type=Path, help="also write the rows there")
    parser.add_argument(
        "--large", action="store_true", help="also 10 managers, 61,515,776 states, in 1 GiB: some minutes"
    )
    options = parser.parse_args()
    managers = 7 if options.quick else 8
    rows = [*side_by_side(options.repeat, lambda: ours(managers), lambda: spin(managers)), python(6)]
    if not options.quick:
        rows.append(ours(9))
    rows += [protocol(policy, components, 2, 2) for policy, components in PROTOCOL]
    if options.large:
        rows.append(large())
    reference = rows[0]["rate"]
    print(f"{'what':<58}{'states':>12}{'seconds':>9}{'cpu':>8}{'states/s':>12}{'ours is':>9}")
    for row in rows:
        if "skipped" in row:
            print(f"{row['what']:<58}{'skipped: ' + row['skipped']}")
            continue
        ratio = f"{reference / row['rate']:8.2f}x" if row["compared"] else ""
        print(
            f"{row['what']:<58}{row['states']:>12,}{row['seconds']:>9.2f}{row['processor']:>8.2f}{row['rate']:>12,.0f}{ratio:>9}"
        )
    if options.json:
        told = {
            "machine": platform.processor() or platform.machine(),
            "python": platform.python_version(),
            "rows": rows,
        }
        options.json.write_text(json.dumps(told, indent=1) + "\n")


PROTOCOL = [("write_back", ("full", "swa", "mamba")), ("write_through", ("full", "swa", "mamba"))]


def side_by_side(times: int, *runs: Callable[[], Row]) -> list[Row]:
    """The median run of each, run in turns so that whatever else the machine does meets all of them."""
    rounds = [[run() for run in runs] for _ in range(times)]
    return [sorted(column, key=lambda row: row.get("seconds", 0.0))[times // 2] for column in zip(*rounds, strict=True)]


@dataclass
class Watch:
    """Wall and processor time, of this process and of those that it waited for."""

    wall: float = field(default_factory=time.perf_counter)
    processor: float = field(default_factory=lambda: sum(os.times()[:4]))

    def stop(self) -> tuple[float, float]:
        """Seconds since it was made: (wall, processor)."""
        return time.perf_counter() - self.wall, sum(os.times()[:4]) - self.processor


def told(what: str, states: int, times: tuple[float, float], *, compared: bool = True) -> Row:
    """One row of the table."""
    wall, processor = times
    return {
        "what": what,
        "states": states,
        "seconds": wall,
        "processor": processor,
        "rate": states / wall,
        "compared": compared,
    }


def ours(managers: int) -> Row:
    """The explorer on two-phase commit."""
    watch = Watch()
    found = explore_system(two_phase_commit(), 0, managers, symmetry=False)
    times = watch.stop()
    assert found.states == STATES[managers], found.states
    return told(f"pinproof, two-phase commit, {managers} managers", found.states, times)


def large() -> Row:
    """61 million states in a process that may take 1 GiB."""
    code = (
        "import resource; from pinproof.proofs.explore import *; from pinproof.proofs.twophase import *\n"
        "found = explore_system(two_phase_commit(), 0, 10, symmetry=False, memory=1 << 30)\n"
        "print(found.states, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
    )
    watch = Watch()
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    times = watch.stop()
    states, peak = done.stdout.split()
    assert int(states) == STATES[10], states
    name = f"pinproof, two-phase commit, 10 managers, 1 GiB: {peak} MiB"
    return told(name, int(states), times, compared=False)


def protocol(policy: Any, components: Any, nodes: int, holders: int) -> Row:
    """The explorer on our own protocol, with symmetry."""
    watch = Watch()
    found = explore(policy, components, nodes, holders)
    times = watch.stop()
    assert found.complete
    name = f"pinproof, {policy} {'+'.join(components)}, {nodes} nodes, {holders} holders"
    return told(name, found.states, times, compared=False)


def python(managers: int) -> Row:
    """A breadth-first search by the concrete interpreter: actions compiled to Python, states as sets."""
    system = two_phase_commit()
    state = _Managers(system.relations)
    state.managers = list(range(managers))
    for members in state.marks.values():
        members.clear()
    calls = [
        (compile_action(action, system.relations), args)
        for action in system.actions.values()
        for args in ([(rm,) for rm in range(managers)] if action.parameters else [()])
    ]
    names = [r.name for r in system.relations]
    watch = Watch()
    start = tuple(frozenset(state.marks[n]) for n in names)
    seen, level = {start}, [start]
    touched: set[int] = set()
    while level:
        after = []
        for value in level:
            for run, args in calls:
                for name, members in zip(names, value, strict=True):
                    state.marks[name] = set(members)
                if run(state, touched, *args) < 0:
                    reached = tuple(frozenset(state.marks[n]) for n in names)
                    if reached not in seen:
                        seen.add(reached)
                        after.append(reached)
        level = after
    times = watch.stop()
    assert len(seen) == explore_system(system, 0, managers, symmetry=False).states
    return told(f"concrete interpreter in Python, {managers} managers", len(seen), times)


class _Managers(State):
    """A state whose holders are the resource managers, mentioned by some relation or not."""

    managers: list[int]

    def holders(self) -> list[int]:
        return self.managers


def spin(managers: int) -> Row:
    """Spin on the same transition system; its own time, without compiling."""
    what = f"Spin, two-phase commit, {managers} managers"
    missing = [tool for tool in ("spin", "gcc") if shutil.which(tool) is None]
    if missing:
        return {"what": what, "skipped": f"there is no {' and no '.join(missing)} here"}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model.pml").write_text(promela(managers))
        for command in (["spin", "-a", "model.pml"], ["gcc", "-O2", "-o", "pan", "pan.c"]):
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
        watch = Watch()
        done = subprocess.run(["./pan", "-E", "-m1000000"], cwd=folder, check=True, capture_output=True, text=True)
        times = watch.stop()
    match = re.search(r"(\d+) states, stored", done.stdout)
    assert match is not None, done.stdout
    assert int(match.group(1)) == STATES[managers], done.stdout
    return told(what, STATES[managers], times)


def promela(managers: int) -> str:
    """Two-phase commit for Spin, with the guards of `proofs/twophase.py`; every step is atomic."""
    everybody = " && ".join(f"known[{i}]" for i in range(managers))
    lines = [
        f"byte rm[{managers}]; byte tm; bit known[{managers}]; bit sent[{managers}]; bit commit; bit abort;",
        "active proctype system() {",
        "do",
        f":: d_step {{ tm == 0 && {everybody} -> tm = 1; commit = 1 }}",
        ":: d_step { tm == 0 -> tm = 2; abort = 1 }",
    ]
    for i in range(managers):
        lines += [
            f":: d_step {{ tm == 0 && sent[{i}] -> known[{i}] = 1 }}",
            f":: d_step {{ rm[{i}] == 0 -> rm[{i}] = 1; sent[{i}] = 1 }}",
            f":: d_step {{ rm[{i}] == 0 -> rm[{i}] = 3 }}",
            f":: d_step {{ commit -> rm[{i}] = 2 }}",
            f":: d_step {{ abort -> rm[{i}] = 3 }}",
        ]
    return "\n".join([*lines, "od", "}", ""])


if __name__ == "__main__":
    main()
