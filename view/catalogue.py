"""What a name means: properties, actions, guards, faulty protocols, kinds of violations, exit codes.

Everything is read from the code that it is about, so it cannot drift: words from docstrings, formulas from the text,
places from the sources.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..model.algebra import Action, Formula, Freeze, Guard
from ..model.errors import UnknownName
from ..model.instance import Instance, instances
from ..model.mutants import MUTANTS, SHAPES, Mutant
from ..model.properties import CATALOGUE
from ..model.protocol import TEXT
from ..model.words import in_words, where
from .formula import text
from .judge import TITLES

ROOT = Path(__file__).resolve().parents[1]

EXIT_CODES: dict[int, tuple[str, str]] = {
    0: ("holds", "Everything that was asked for holds."),
    1: ("violated", "Something is wrong: a property fails, a target breaks a rule, a faulty protocol was not noticed."),
    2: ("usage", "What was asked for cannot be: an unknown name, a bad argument, a file that cannot be read."),
    3: ("vacuous", "Nothing was violated, but nothing was shown either: what should be reachable was never reached."),
    4: ("unknown", "There is no answer: a solver gave up, a budget was spent, a search was cut short."),
    70: ("internal", "A mistake of pinproof itself. The traceback is what to report."),
}
"""What the program's exit codes say."""

GUARD_KINDS: dict[str, str] = {
    "expect": "the caller's side of the bargain: without it the action makes no sense",
    "require": "a protection: the action is refused without it",
    "reason": "the only excuse for this refusal",
    "never": "an assertion of real code, which must not be able to fire",
    "promise": "an obligation of the step itself",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of a name: `rows` are label and lines, in the order in which they are read."""

    id: str
    kind: str
    words: str
    rows: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"id": self.id, "kind": self.kind, "words": self.words, **{k: list(v) for k, v in self.rows}}


def known() -> dict[str, list[str]]:
    """Every id that `explain` takes, by kind."""
    return {
        "properties": list(CATALOGUE),
        "actions": list(TEXT),
        "guards": sorted({f"{a}/{g.name}" for a, g, _ in _guards()}),
        "mutants": list(MUTANTS),
        "violations": list(TITLES),
        "exit codes": [str(code) for code in EXIT_CODES],
    }


def explain(name: str) -> Entry:
    """The entry of an id: `safety.full-source-is-pinned`, `demote`, `demote/no device lock`, a mutant, `3`, …

    Ids of proof obligations (`write_back/full/demote.necessity.no-device-lock`) lead to what they are about.

    Raises:
        UnknownName: nothing has that name.
    """
    wanted = re.sub(r"^(write_\w+)/[a-z+]+/", "", name.strip())
    wanted = re.sub(r"^(?:[\w.]+\.)?(?:initiation|consecution|vacuity|redundancy)\.", "", wanted)
    for find in (_property, _action, _guard, _mutant, _exit_code, _violation):
        entry = find(wanted)
        if entry is not None:
            return entry
    names = [x for group in known().values() for x in group]
    close = difflib.get_close_matches(wanted, names, 3) or [x for x in names if wanted and wanted in x][:3]
    raise UnknownName("id", name, close or [*list(CATALOGUE)[:3], "…: pinproof explain lists them"])


# The kinds ----------------------------------------------------------------------------------------------------------
def _property(name: str) -> Entry | None:
    family = CATALOGUE.get(name) or CATALOGUE.get(name.rpartition(".")[0])
    if family is None:
        return None
    members = [(i, p) for i in instances() for p in i.properties if p.family == family.id]
    chosen, rule = next(((i, p) for i, p in members if p.id == name), members[-1])
    variables = " ".join(v.name for v in rule.variables)
    caught = [m.id for m in MUTANTS.values() if m.caught_by == family.id]
    parts = "+".join(chosen.setting.components)
    rows = [
        ("class", (family.kind,)),
        ("source", (family.source or "–",)),
        ("policies", family.policies),
        (
            "holds for",
            ({"once": "the whole cache", "component": "each component", "aux": "swa and mamba"}[family.per],),
        ),
        ("formula", (f"every {variables}: {text(rule.formula)}" if variables else text(rule.formula),)),
        ("in words", (in_words(rule.formula),)),
        ("modelled", (_place(family.build),)),
        ("proven", (f"pinproof prove --policy {family.policies[0]} --components {parts}",)),
        ("explored", ("pinproof explore checks it in every reachable state",)),
        ("notices", tuple(caught) or ("no faulty protocol of the collection is caught by it alone",)),
        ("tested", tuple(_tests(family.id))),
    ]
    return Entry(family.id, "property", family.words, _filled(rows))


_PER = {"once": "the whole cache", "component": "each component", "aux": "swa and mamba, each"}


def _action(name: str) -> Entry | None:
    base = name.partition(".")[0]
    if base not in TEXT or "/" in name or name.count(".") > 1:
        return None
    found = _instance_of(name) or _instance_of(f"{base}.swa") or _instance_of(f"{base}.mamba")
    if found is None or ("." in name and name not in found[0].actions):
        return None
    entry, (chosen, action) = TEXT[base], found
    guards = [f"{_KIND[g.kind]} {g.words}" for g in action.guards("expect", "require", "reason", "never")]
    rows = [
        ("arguments", (", ".join(f"{q.var.name}: {q.kind} {q.var.sort}" for q in action.parameters) or "none",)),
        ("policies", entry.policies),
        ("source", (_reports(inspect.getdoc(entry.text) or ""),)),
        ("guards", tuple(guards)),
        ("text", tuple(inspect.getsource(entry.text).rstrip().splitlines())),
        ("modelled", (_place(entry.text),)),
        ("proven", (f"pinproof prove --policy {chosen.setting.policy}",)),
        ("mutants", tuple(m.id for m in MUTANTS.values() if base in m.actions())),
        ("tested", tuple(_tests(base))),
    ]
    return Entry(name, "action", _line(inspect.getdoc(entry.text) or ""), _filled(rows))


def _guard(name: str) -> Entry | None:
    for action, guard, chosen in _guards():
        if name not in (f"{action}/{guard.name}", f"{action}.{guard.kind}.{_slug(guard.name)}") and not (
            guard.kind == "require" and name == f"{action}.necessity.{_slug(guard.name)}"
        ):
            continue
        told = chosen.actions[action]
        names = _regions(told)
        rows = [
            ("action", (action, _line(told.words))),
            ("is", (f"{guard.kind}: {GUARD_KINDS[guard.kind]}",)),
            ("formula", (text(guard.formula, None, told),)),
            ("in words", (in_words(guard.formula, names),)),
            ("danger", (in_words(guard.danger, names),) if isinstance(guard.danger, Formula) else ()),
            ("as in", (chosen.name,)),
            ("modelled", (_place(TEXT[action.partition(".")[0]].text),)),
            ("proven", (f"pinproof prove --policy {chosen.setting.policy}",) if guard.kind != "expect" else ()),
        ]
        return Entry(f"{action}/{guard.name}", "guard", f"{action} only when: {guard.words}", _filled(rows))
    action, _, check = name.partition("/")
    if action in TEXT and check in _CHECKS:
        rows = [("action", (action, _line(inspect.getdoc(TEXT[action].text) or ""))), ("found by", ("the checker",))]
        return Entry(name, "check", _CHECKS[check], _filled(rows))
    return None


_CHECKS = {
    "refusal": "A refusal needs something that stands in the way: without it the target turns down what is safe.",
    "slots": "Every slot has one owner, and what a node owns is what the protocol says it has.",
    "shown": "An event shows every node that it changes.",
    "node": "A node is in the tree exactly when the protocol says so.",
    "full": "The FULL copies of a node are where the protocol says they are.",
    "swa": "The SWA copies of a node are where the protocol says they are.",
    "mamba": "The MAMBA copies of a node are where the protocol says they are.",
    "lock_ref": "A node's device locks are as many as there are holders.",
    "host_lock_ref": "A node's host locks are as many as there are holders.",
    "load_back_pending_id": "A node is pinned by the load-back that reads its FULL host slots, and by nobody else.",
    "write_through_pending_id": "A node is marked by the backup that copies its FULL slots, and by nobody else.",
    "duplicate": "A node is tracked as a duplicate exactly when both its FULL copies have settled.",
    "stored": "A node counts as stored exactly when storage has it.",
}
"""What the checker asks beside the guards; its rules are called `action/check`."""


def _mutant(name: str) -> Entry | None:
    mutant: Mutant | None = MUTANTS.get(name)
    if mutant is None:
        return None
    policy, components = next(iter(mutant.bites()))
    where_ = f"--policy {policy} --components {'+'.join(components)}"
    rows = [
        ("source", (mutant.report,)),
        ("shape", (SHAPES[mutant.shape],)),
        ("changes", tuple(sorted(mutant.actions()))),
        ("caught by", (mutant.caught_by,)),
        ("under", tuple(sorted({f"{p}/{'+'.join(c)}" for p, c in mutant.bites()}))),
        ("proven", (f"pinproof mutants {mutant.id}",)),
        ("see it", (f"pinproof explore {where_} --nodes 2 --holders 2 --mutant {mutant.id}",)),
    ]
    return Entry(name, "mutant", mutant.words, _filled(rows))


def _exit_code(name: str) -> Entry | None:
    digits = name.removeprefix("exit").strip(" -")
    if not digits.isdigit() or int(digits) not in EXIT_CODES:
        return None
    verdict, words = EXIT_CODES[int(digits)]
    return Entry(digits, "exit code", words, (("called", (verdict,)),))


def _violation(name: str) -> Entry | None:
    return Entry(name, "violation", TITLES[name] + ".") if name in TITLES else None


# Pieces -------------------------------------------------------------------------------------------------------------
_KIND = {"expect": "expects:", "require": "refused unless:", "reason": "only because:", "never": "never:"}


@cache
def _guards() -> tuple[tuple[str, Guard, Instance], ...]:
    """Every guard once, with its action and an instance that has it."""
    return tuple(_each_guard())


def _each_guard() -> Iterator[tuple[str, Guard, Instance]]:
    taken: set[tuple[str, str]] = set()
    for found in instances():
        for action in found.actions.values():
            for guard in action.guards(*GUARD_KINDS):  # type: ignore[arg-type]
                if (action.name, guard.name) not in taken:
                    taken.add((action.name, guard.name))
                    yield action.name, guard, found


def _instance_of(name: str) -> tuple[Instance, Action] | None:
    found = [(i, i.actions[name]) for i in instances() if name in i.actions]
    return max(found, key=lambda pair: len(pair[0].setting.components), default=None)


def _regions(action: Action) -> dict[str, str]:
    names: dict[str, str] = {}
    for step in action.steps:
        if isinstance(step, Freeze):
            names[f"r{step.index}"] = where(step.region, names)
    return names


def _place(function: Callable[..., Any]) -> str:
    _, line = inspect.getsourcelines(function)
    return f"{Path(inspect.getfile(function)).resolve().relative_to(ROOT)}:{line}"


def _tests(name: str) -> Iterator[str]:
    """Test files that speak of it, where the tests are there (an installed package has none)."""
    word = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    return (file for file, content in _test_files() if word.search(content))


@cache
def _test_files() -> tuple[tuple[str, str], ...]:
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return tuple((str(file.relative_to(ROOT)), file.read_text("utf-8")) for file in files)


def _reports(words: str) -> str:
    return ", ".join(dict.fromkeys(re.findall(r"(?:SGLang|vLLM|InferenceX) #\d+(?:, #\d+)*", _line(words))))


def _filled(rows: list[tuple[str, tuple[str, ...]]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((label, tuple(lines)) for label, lines in rows if any(lines))


def _line(words: str) -> str:
    return " ".join(words.replace("-\n", "-").split())


def _slug(words: str) -> str:
    return re.sub(r"[^\w.]+", "-", words).strip("-")


__all__ = ["EXIT_CODES", "Entry", "explain", "known"]
