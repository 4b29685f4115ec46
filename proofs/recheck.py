"""Every obligation once more, with another solver: cvc5 reads what is exported and must give the same answers."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import cvc5  # type: ignore[import-untyped]

from ..model.instance import instance
from ..model.vocabulary import COMPONENT_SETS, POLICIES, Component, Policy
from .obligations import script, script_names
from .pool import Progress, spread
from .prove import Task, choose
from .smtlib import lines

EFFORT = {"rlimit-per": "3000000", "seed": "0"}
"""cvc5's effort on one query is bounded in its own unit, which unlike seconds is the same on any machine."""

OPTIONS: Mapping[str, Mapping[str, str]] = {"unsat": EFFORT, "sat": EFFORT | {"finite-model-find": "true"}}
"""By expected answer: an *always* takes instances of what is assumed, a *sometimes* a finite model."""

Agreement = Literal["agrees", "disagrees", "unknown"]
"""agrees: cvc5 gives the expected answer · disagrees: the opposite one · unknown: it gave up."""


@dataclass(frozen=True, slots=True)
class Recheck:
    """cvc5's answer to one obligation."""

    id: str
    agreement: Agreement
    seconds: float


@dataclass(frozen=True, slots=True)
class RecheckReport:
    """All answers, in a stable order."""

    results: tuple[Recheck, ...]
    seconds: float

    def with_agreement(self, agreement: Agreement) -> tuple[Recheck, ...]:
        """The results of that kind."""
        return tuple(r for r in self.results if r.agreement == agreement)

    @property
    def verdict(self) -> Literal["holds", "violated", "unknown"]:
        """One word for the whole: a disagreement decides, then a query that cvc5 gave up on."""
        if self.with_agreement("disagrees"):
            return "violated"
        return "unknown" if self.with_agreement("unknown") or not self.results else "holds"


def recheck(
    policies: Iterable[Policy] = POLICIES,
    components: Iterable[tuple[Component, ...]] = COMPONENT_SETS,
    *,
    folder: Path | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> RecheckReport:
    """Ask cvc5 about every obligation of these policies and component sets.

    Args:
        policies: write_through_selective shares the obligations of write_through.
        components: which of the four component sets.
        folder: where `export` has written them; nothing is written, and they are put together anew, if None.
        jobs: number of processes, one a core if None.
        progress: called with (done, total, name) after each script.

    Raises:
        UnknownName: not a policy or not a component set.
        FileNotFoundError: the folder lacks the file of an action.
    """
    started = time.perf_counter()
    chosen, _ = choose(policies, components)
    tasks = [_Task(Task(i.setting.policy, i.setting.components, n), folder) for i in chosen for n in script_names(i)]
    order = {str(t): number for number, t in enumerate(tasks)}
    heavy = sorted(tasks, key=lambda t: (-len(t.task.components), t.task.script != "start"))
    found = dict(spread(_recheck_task, heavy, jobs, progress))
    results = tuple(r for name in sorted(found, key=order.__getitem__) for r in found[name])
    return RecheckReport(results, time.perf_counter() - started)


def answers(text: str) -> Iterator[Recheck]:
    """cvc5's answers to the queries of one SMT-LIB text that `export` has written, in order.

    Raises:
        ValueError: the text does not ask what it announces.
    """
    order = [identifier for identifier, _ in _QUERY.findall(text)]
    found: dict[str, Recheck] = {}
    for status in ("unsat", "sat"):
        part = _QUERY.sub(lambda query, kept=status: query[0] if query[2] == kept else "", text)  # type: ignore[misc]
        found |= {result.id: result for result in _ask(part, status)}
    if len(found) != len(order):
        raise ValueError(f"the text announces {len(order)} queries and asks {len(found)}")
    yield from (found[identifier] for identifier in order)


def _ask(text: str, status: str) -> Iterator[Recheck]:
    pending = iter(_QUERY.findall(text))
    solver = cvc5.Solver(cvc5.TermManager())
    for option, value in OPTIONS[status].items():
        solver.setOption(option, value)
    parser = cvc5.InputParser(solver)
    symbols = parser.getSymbolManager()
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "obligations")
    while not (command := parser.nextCommand()).isNull():
        started = time.perf_counter()
        answer = str(command.invoke(solver, symbols)).strip()
        if str(command).startswith("(check-sat"):
            yield Recheck(next(pending)[0], _agreement(answer, status), time.perf_counter() - started)


_QUERY = re.compile(r"^\(push 1\) ; (\S+)\n\(set-info :status (unsat|sat)\)\n.*?^\(pop 1\)$", re.MULTILINE | re.DOTALL)
"""One query of an exported file: its id and the answer that it should get."""


def _agreement(answer: str, expected: str) -> Agreement:
    if answer not in ("sat", "unsat"):
        return "unknown"
    return "agrees" if answer == expected else "disagrees"


@dataclass(frozen=True, slots=True)
class _Task:
    task: Task
    folder: Path | None

    def __str__(self) -> str:
        return str(self.task)


def _recheck_task(task: _Task) -> tuple[str, tuple[Recheck, ...]]:
    if task.folder is not None:
        text = (task.folder / f"{task}.smt2").read_text(encoding="utf-8")
    else:
        found = instance(task.task.policy, task.task.components)
        text = "\n".join(lines(script(found, task.task.script), found))
    return str(task), tuple(answers(text))
