"""Makes a failing run short: fewer operations, then simpler ones, as long as it still fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from .situation import Operation, Pick

Fails = Callable[[Sequence[Operation]], bool]
"""Runs operations on a fresh target and says whether they fail as before."""


def shrink(run: Sequence[Operation], fails: Fails, *, attempts: int = 600, seconds: float = 20.0) -> list[Operation]:
    """The shortest run found that fails, within a budget of attempts and seconds. `run` itself is known to fail."""
    budget = _Budget(fails, attempts, seconds)
    best = _fewer(list(run), budget)
    while budget.left:
        simpler = _simpler(best, budget)
        fewer = _fewer(simpler, budget)
        if fewer == best:
            break
        best = fewer
    return best


def shortest(
    run: Sequence[Operation], ends: Callable[[Sequence[Operation]], int | None], seconds: float
) -> list[Operation] | None:
    """The shortest run found that goes wrong as `run` did; None if that does not come again.

    Args:
        ends: performs operations on a fresh target. How many it took until they went wrong; None if they did not.
    """
    needed = ends(run)
    if needed is None:
        return None
    return shrink(run[:needed], lambda run: ends(run) is not None, seconds=seconds) or list(run[:1])


class _Budget:
    def __init__(self, fails: Fails, attempts: int, seconds: float) -> None:
        self._fails = fails
        self._attempts = attempts
        self._end = time.monotonic() + seconds
        self._known: dict[str, bool] = {}

    @property
    def left(self) -> bool:
        return self._attempts > 0 and time.monotonic() < self._end

    def fails(self, run: Sequence[Operation]) -> bool:
        if not self.left:
            return False
        key = "\n".join(map(str, run))
        if key not in self._known:
            self._attempts -= 1
            self._known[key] = self._fails(run)
        return self._known[key]


def _fewer(run: list[Operation], budget: _Budget) -> list[Operation]:
    """Leave out ever smaller pieces."""
    size = max(1, len(run) // 2)
    while budget.left:
        at, changed = len(run), False
        while at > 0:
            start = max(0, at - size)
            shorter = run[:start] + run[at:]
            if len(shorter) < len(run) and budget.fails(shorter):
                run, changed = shorter, True
            at = start
        if size == 1 and not changed:
            break
        if not changed or size > len(run):
            size = max(1, size // 2)
    return run


def _simpler(run: list[Operation], budget: _Budget) -> list[Operation]:
    """Replace arguments by simpler ones, one at a time."""
    for at in range(len(run)):
        for candidate in _variants(run[at]):
            trial = [*run[:at], candidate, *run[at + 1 :]]
            if budget.fails(trial):
                run = trial
                break
    return run


def _variants(asked: Operation) -> Iterator[Operation]:
    for name, value in asked.args.items():
        if isinstance(value, Pick) and value.index:
            for index in dict.fromkeys((0, 1, value.index // 2)):
                if index < value.index:
                    yield Operation(asked.name, {**asked.args, name: Pick(value.among, index)})
        elif name == "choice" and value:
            yield Operation(asked.name, {**asked.args, name: 0})
        elif name == "tokens" and len(value) > 1:
            yield Operation(asked.name, {**asked.args, name: value[: len(value) // 2]})
        elif name == "pages" and isinstance(value, int) and value > 1:
            yield Operation(asked.name, {**asked.args, name: 1})
