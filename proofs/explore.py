"""Every reachable state of a small cache: how many there are, what can happen in them, and whether anything is ever
wrong.

`explore` looks at the protocol, `explore_system` at anything written in the algebra. Both check every property in
every state, every promise and assertion in every step, and that every refusal had a danger to avoid. A
counterexample is a shortest one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..model.algebra import HOLDER, Formula
from ..model.errors import BadArgument
from ..model.instance import Instance
from ..model.instance import instance as instance_of
from ..model.vocabulary import Component, Policy
from .arrays import arrays
from .checkpoint import Checkpoint
from .program import System, Universe
from .search import Limits, Progress, Search, Tally
from .spill import Disk
from .traces import Step, Walk, walk_of
from .witness import parse_witness

MEMORY = 4 << 30
"""Bytes, unless asked otherwise."""

BASE = 64 << 20
"""Bytes that Python, its libraries and the compiled programs take before there is a state."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What became of an action, counted over states and arguments.

    With symmetry, of calls that differ in unused names only one is counted as fired or refused, the others as
    impossible.
    """

    fired: int
    refused: int
    impossible: int


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that does not hold, and a shortest way to where it does not.

    Attributes:
        kind: `property`; or of a step: `promise`, `never`, `false conflict` (a refusal without danger), `failure`
            (a failed operation whose bytes count), `foreign` (it changes what another operation holds).
        rule: the property's id, or `action: guard`.
        words: the rule in words.
        args: the nodes and holders for which it fails, in the trace's numbers (-1: one that never appears in it).
        trace: the steps; for anything but a property, the last one is the step that breaks the rule.
    """

    kind: str
    rule: str
    words: str
    args: dict[str, int]
    trace: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Exploration:
    """What a search found.

    Attributes:
        complete: every reachable state was expanded; False after a depth, a budget, a violation or a witness.
        stopped: why it is not complete: `depth`, `budget`, `violation`, `witness`; None if it is.
        depth: the longest of all shortest ways to a state.
        transitions: pairs of a state and a call that fires there.
        named_states: states without symmetry, if asked for; else None.
        witness: a shortest way to a state as asked for; None if there is none, or none was asked for.
    """

    name: str
    nodes: int
    holders: int
    states: int
    transitions: int
    depth: int
    complete: bool
    stopped: str | None
    seconds: float
    coverage: dict[str, Coverage]
    violation: Violation | None
    witness: tuple[Step, ...] | None
    named_states: int | None = None

    @property
    def states_per_second(self) -> float:
        """Distinct states a second, compiling included."""
        return self.states / self.seconds if self.seconds else 0.0


def explore(
    policy: Policy,
    components: tuple[Component, ...],
    nodes: int,
    holders: int,
    *,
    depth: int | None = None,
    budget: float | None = None,
    memory: int = MEMORY,
    symmetry: bool = True,
    checkpoint: Path | None = None,
    instance: Instance | None = None,
    witness: str | Formula | None = None,
    progress: Callable[[Progress], None] | None = None,
    device: str = "cpu",
    count_names: bool = False,
) -> Exploration:
    """Search the protocol under `policy` for `components`, with `nodes` nodes besides the root and `holders` holders.

    Args:
        depth: expand no further than this many steps.
        budget: seconds.
        memory: bytes that the process may take, 128 MiB or more; what does not fit goes to a temporary folder (or to
            the checkpoint's), which is removed at the end.
        symmetry: states that differ in names only count as one.
        checkpoint: a folder to write each level to, and to go on from if it holds one.
        instance: a protocol to search instead of the real one (a mutant).
        witness: an expression (see `witness.py`) or a closed formula; the search ends where it first holds.
        progress: told after every chunk.
        device: `cpu`, or a torch device.
        count_names: also count the states as they would be without symmetry.

    Raises:
        UnknownName: no such policy, component set or device, or a name in `witness`.
        BadArgument: fewer than one node or no holders that make sense; a depth, budget or memory below zero.
        CheckpointMismatch: the checkpoint is of another search.
        DiskFull: there is no room to spill to.
    """
    if nodes < 1:
        raise BadArgument(f"nodes must be at least 1 (besides the root), got {nodes}")
    found = instance_of(policy, tuple(components)) if instance is None else instance
    wanted = parse_witness(witness, found.relations) if isinstance(witness, str) else witness
    return explore_system(
        System.of(found),
        nodes,
        holders,
        depth=depth,
        budget=budget,
        memory=memory,
        symmetry=symmetry,
        checkpoint=checkpoint,
        witness=wanted,
        progress=progress,
        device=device,
        count_names=count_names,
    )


def explore_system(
    system: System,
    nodes: int,
    holders: int,
    *,
    depth: int | None = None,
    budget: float | None = None,
    memory: int = MEMORY,
    symmetry: bool = True,
    checkpoint: Path | None = None,
    witness: Formula | None = None,
    progress: Callable[[Progress], None] | None = None,
    device: str = "cpu",
    count_names: bool = False,
) -> Exploration:
    """Search any system of the algebra; as `explore`, but there may be no node besides the root."""
    for name, value in (
        ("nodes", nodes),
        ("holders", holders),
        ("depth", depth),
        ("budget", budget),
        ("memory", memory),
    ):
        if value is not None and value < 0:
            raise BadArgument(f"{name} must not be negative, got {value}")
    begun = time.monotonic()
    universe = Universe(system, nodes, holders, symmetry=symmetry, witness=witness)
    limits = Limits(depth, None if budget is None else begun + budget, max(memory // 2, memory - BASE))
    disk = Disk()
    saved = None if checkpoint is None else Checkpoint(checkpoint, universe)
    search = Search(
        universe, arrays(device), limits, disk, keep=None if saved is None else saved.disk, count_names=count_names
    )
    try:
        before = 0.0 if saved is None else saved.restore(search)
        if not search.tally.states:
            search.start()

        def level_done() -> None:
            if saved is not None:
                saved.save(search, before + time.monotonic() - begun)

        complete = search.run(progress, level_done)
        return _told(search, universe, complete, before + time.monotonic() - begun)
    finally:
        search.close()
        disk.close()


def _told(search: Search, universe: Universe, complete: bool, seconds: float) -> Exploration:
    tally = search.tally
    violation = None
    if search.lacking is not None:
        violation = _lacking(walk_of(universe, search.calls_to(search.lacking)))
    elif search.broken is not None:
        violation = _broken(walk_of(universe, search.calls_to(search.broken)))
    witness = None
    if search.witness is not None:
        witness = tuple(walk_of(universe, search.calls_to(search.witness)).steps)
    stopped = (
        None if complete
        else "violation" if violation is not None
        else "witness" if witness is not None
        else "budget" if search.stopped
        else "depth"
    )  # fmt: skip
    return Exploration(
        name=universe.system.name,
        nodes=universe.nodes,
        holders=universe.holders,
        states=tally.states,
        transitions=tally.transitions,
        depth=tally.depth,
        complete=complete,
        stopped=stopped,
        seconds=seconds,
        coverage=coverage(universe, tally),
        violation=violation,
        witness=witness,
        named_states=tally.named_states if search.count_names else None,
    )


def coverage(universe: Universe, tally: Tally) -> dict[str, Coverage]:
    """The counts by action."""
    found = {name: [0, 0, 0] for name in universe.system.actions}
    for call, fired, refused in zip(universe.calls, tally.fired, tally.refused, strict=True):
        counts = found[call.action]
        counts[0] += fired
        counts[1] += refused
        counts[2] += tally.states - fired - refused
    return {name: Coverage(*counts) for name, counts in found.items()}


def _lacking(walk: Walk) -> Violation:
    program, planes = walk.program, walk.planes()
    values = program.bits.function("bad", [literal for literal, _, _ in program.bad])(planes.planes, planes.one)
    for value, (_, prop, scope) in zip(values, program.bad, strict=True):
        if planes.holds(value):
            holders = {v.name for v in prop.variables if v.sort == HOLDER}
            return Violation("property", prop.id, prop.words, walk.named(scope, holders), tuple(walk.steps))
    raise AssertionError("a state that lacks a property has them all")


def _broken(walk: Walk) -> Violation:
    program, planes = walk.program, walk.planes()
    broken = list(program.broken())
    values = program.bits.function("broken", [literal for literal, _, _ in broken])(planes.planes, planes.one)
    for value, (_, rule, ground) in zip(values, broken, strict=True):
        if planes.holds(value):
            walk.mention(next(f.number for f in program.firings if f.ground is ground))
            step = walk.steps[-1]
            named = f"{ground.action.name}: {rule.name}"
            return Violation(rule.kind, named, rule.words, dict(step["args"]), tuple(walk.steps))
    raise AssertionError("a step that breaks a rule breaks none")


__all__ = ["MEMORY", "Coverage", "Exploration", "Violation", "coverage", "explore", "explore_system"]
