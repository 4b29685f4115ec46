"""What has to be proven about an instance of the protocol: every obligation, with a stable id.

The obligations of one action form a `Script`: what may be assumed so far, and what must follow from it. Proving,
exporting and rechecking with another solver are three folds over the same script.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from typing import Literal

import z3

from ..model.algebra import (
    HOLDER,
    NODE,
    Action,
    And,
    Assign,
    Formula,
    Guard,
    Inherit,
    Not,
    Or,
    Parameter,
    Relation,
    Var,
    conjuncts,
)
from ..model.instance import Instance
from ..model.properties import Property
from ..model.protocol import Setting
from ..model.vocabulary import PHASES, WRITE_THROUGH, busy, device_arrived, filling, host_arrived, reserved, stored
from .symbolic import ROOT_TERM, Reader, Run, State, Truth, arbitrary_state, constant, initial_state

Kind = Literal[
    "initiation", "consecution", "promise", "never", "necessity", "release", "foreign", "failure", "redundancy",
    "vacuity",
]  # fmt: skip
"""What kind of claim it is.

initiation  the property holds of the empty cache
consecution the property holds after the action, if every property held before it
promise     an obligation of a step: nobody uses what is freed, what is read has arrived, …
never       an assertion of real code cannot fire
necessity   whenever the protection refuses, its danger is there: no false conflicts
release     an operation that has ended holds nothing any more
foreign     what other operations hold stays as it was
failure     an operation that fails, is aborted or is refused makes no bytes count as arrived or stored
redundancy  a second line of defence never has to refuse (see SECOND_LINE)
vacuity     the claim says something: the action can happen, the refusal too, the property's antecedent occurs
"""
KINDS: tuple[Kind, ...] = (
    "initiation", "consecution", "promise", "never", "necessity", "release", "foreign", "failure", "redundancy",
    "vacuity",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Assume:
    """From here on this may be relied on. Properties of the state before carry their id."""

    formula: Truth
    name: str = ""


@dataclass(frozen=True, slots=True)
class Obligation:
    """A claim about what has been assumed so far: that it follows, or for `vacuity` that it is consistent.

    `subject` is what the claim is about: a property's id, a guard's name, a relation. `holders` and `nodes` name the
    constants that stand for the claim's variables, for whoever wants to show how it fails.
    """

    id: str
    kind: Kind
    subject: str
    claim: Truth
    variables: tuple[Var, ...] = ()

    @property
    def possible(self) -> bool:
        """The claim need only be consistent (a *sometimes*), not follow (an *always*)."""
        return self.kind == "vacuity"

    @property
    def query(self) -> Truth:
        """What is handed to a solver: its answer must be `expected`."""
        return self.claim if self.possible else z3.Not(self.claim)

    @property
    def expected(self) -> Literal["sat", "unsat"]:
        """The answer that discharges the obligation."""
        return "sat" if self.possible else "unsat"


@dataclass(frozen=True, slots=True)
class Script:
    """Assumptions and obligations in the order in which they belong. `before` is the state before the action, `run` has
    the one after it, `scope` names the action's arguments.
    """

    name: str
    entries: tuple[Assume | Obligation, ...]
    before: State
    run: Run | None
    scope: Mapping[str, z3.ExprRef]

    def obligations(self) -> Iterator[Obligation]:
        """The claims alone."""
        for entry in self.entries:
            if isinstance(entry, Obligation):
                yield entry


SECOND_LINE: Mapping[tuple[str, str, str], str] = {
    ("begin_backup", "the bytes to copy have arrived", ""): "visibility.bytes-are-somewhere",
    ("backup_aux", "the bytes to copy have arrived", ""): "visibility.bytes-are-somewhere",
    ("delete_leaf", "no full host lock", ""): "safety.host-locked-slots-stay",
    ("reclaim_duplicate", "not pinned", ""): "tracking.tracked-duplicates-are-settled",
    ("demote", "no backup of # reads it", WRITE_THROUGH): "safety.backup-source-is-locked",
    ("evict_device_aux", "no backup of # reads it", WRITE_THROUGH): "safety.backup-source-is-locked",
}
"""Protections that can never be the one that refuses, by (action, guard, policy; # is any component): the named property
keeps the danger away already. That this is so is an obligation, too: were it not, the protection would be a first line.
"""

FAILURES = frozenset({"fail_backup", "fail_load_back", "fail_storage_backup", "abort_load_back", "refuse_load_back"})
"""Actions by which an operation ends without having done what it was for."""


def script_names(instance: Instance) -> tuple[str, ...]:
    """The scripts of an instance: `start` for what belongs to no action, then one an action."""
    return ("start", *instance.actions)


def script(instance: Instance, name: str) -> Script:
    """The obligations of one action, or those of the initial state and of the properties themselves (`start`)."""
    return _start(instance) if name == "start" else _of_action(instance, instance.actions[name])


def slug(words: str) -> str:
    """Words as part of an id."""
    return re.sub(r"[^\w.]+", "-", words).strip("-")


def _start(instance: Instance) -> Script:
    entries: list[Assume | Obligation] = []
    empty, prefix = initial_state(instance.relations), instance.name
    for rule in instance.properties:
        claim = _at_constants(rule.formula, rule.variables, empty)
        entries.append(Obligation(f"{prefix}/initiation.{rule.id}", "initiation", rule.id, claim, rule.variables))
    before, axioms = _inductive_state(instance)
    entries += axioms
    for rule in instance.properties:
        for number, antecedent in enumerate(antecedents(rule.formula)):
            name = f"{prefix}/vacuity.{rule.id}{f'-{number + 1}' if number else ''}"
            claim = _at_constants(antecedent, rule.variables, before)
            entries.append(Obligation(name, "vacuity", rule.id, claim, rule.variables))
    return Script(f"{prefix}/start", tuple(entries), before, None, {})


def _of_action(instance: Instance, action: Action) -> Script:
    before, axioms = _inductive_state(instance)
    prefix = f"{instance.name}/{action.name}"
    entries: list[Assume | Obligation] = [*axioms]
    scope = {q.var.name: constant(q.var) for q in action.parameters}
    run = Run(before, scope)
    entries += [Assume(formula) for q in action.parameters for formula in _expected_of(q, run, scope)]

    def oblige(kind: Kind, subject: str, claim: Truth, variables: tuple[Var, ...] = ()) -> None:
        entries.append(Obligation(f"{prefix}.{kind}.{slug(subject)}", kind, subject, claim, variables))

    for step in action.steps:
        if not isinstance(step, Guard):
            run.take(step)
            continue
        holds = run.read(step.formula)
        if step.kind == "require":
            assert step.danger is not None
            oblige("necessity", step.name, z3.Or(holds, run.read(step.danger)))
            if _is_second_line(action, step, instance.setting):
                oblige("redundancy", step.name, holds)
            else:
                oblige("vacuity", f"refuses {step.name}", z3.Not(holds))
        elif step.kind in ("never", "promise"):
            oblige(step.kind, step.name, holds)
        entries.append(Assume(holds))
    oblige("vacuity", "happens", z3.BoolVal(True))
    for rule in instance.properties:
        oblige("consecution", rule.id, _at_constants(rule.formula, rule.variables, run.state), rule.variables)
    for kind, subject, claim in _frame(instance, action, before, run):
        oblige(kind, subject, claim)
    return Script(prefix, tuple(entries), before, run, scope)


def _is_second_line(action: Action, guard: Guard, setting: Setting) -> bool:
    name = re.sub(r"\b(full|swa|mamba)\b(?= reads)", "#", guard.name)
    base = action.name.split(".")[0]
    return any((base, name, policy) in SECOND_LINE for policy in ("", setting.policy))


def _frame(instance: Instance, action: Action, before: State, run: Run) -> Iterator[tuple[Kind, str, Truth]]:
    """What an action must leave alone, and what it must leave behind."""
    after, node, other = run.state, constant(_NODE, "!s"), constant(_OTHER, "!s")
    own = [run.scope[q.var.name] for q in action.parameters if q.var.sort == HOLDER]
    fresh = [run.scope[q.var.name] for q in action.parameters if q.kind == "fresh"]
    changed = {s.relation.name for s in action.steps if isinstance(s, Assign | Inherit)}
    if ends_an_operation(action):
        for relation in (r for r in instance.relations if r.sorts == (NODE, HOLDER)):
            yield "release", relation.name, z3.Not(after.relations[relation.name](node, own[0]))
        for relation in (filling, reserved):
            yield "release", relation.name, z3.Not(after.relations[relation.name](own[0]))
        yield "release", "busy", z3.Not(Reader(after, {}).formula(busy(_OTHER), {_OTHER.name: own[0]}))
    somebody_else = [other != h for h in own] + [node != n for n in fresh]
    for relation in instance.relations:
        if relation.name in changed and HOLDER in relation.sorts:
            args = (node, other) if relation.sorts[0] == NODE else (other,)
            same = after.relations[relation.name](*args) == before.relations[relation.name](*args)
            yield "foreign", relation.name, z3.Implies(z3.And(*somebody_else), same)
    if action.name in FAILURES:
        arrivals = [family[c] for family in (device_arrived, host_arrived) for c in instance.setting.components]
        for relation in (*arrivals, stored):
            then = before.relations[relation.name](node)
            yield "failure", relation.name, z3.Implies(after.relations[relation.name](node), then)


_NODE, _OTHER = Var("n", NODE), Var("other", HOLDER)


def ends_an_operation(action: Action) -> bool:
    """The action takes its holder out of a phase and into no other one."""
    phases = [s for s in action.steps if isinstance(s, Assign) and s.relation in PHASES]
    return any(not s.value for s in phases) and not any(s.value for s in phases)


def _expected_of(parameter: Parameter, run: Run, scope: Mapping[str, z3.ExprRef]) -> Iterator[Truth]:
    term, live = scope[parameter.var.name], run.state.relations["live"]
    match parameter.kind:
        case "live":
            yield live(term)
        case "inner":
            yield live(term)
            yield term != ROOT_TERM
        case "fresh":
            yield z3.Not(live(term))
        case "idle":
            yield z3.Not(run.read(busy(parameter.var)))


def _inductive_state(instance: Instance) -> tuple[State, tuple[Assume, ...]]:
    """Any state that satisfies every property."""
    state, axioms = _axioms(instance.properties, instance.relations)
    return replace(state, names=count()), axioms


@lru_cache(maxsize=2)
def _axioms(rules: tuple[Property, ...], relations: tuple[Relation, ...]) -> tuple[State, tuple[Assume, ...]]:
    state = arbitrary_state(relations)
    axioms = []
    for rule in rules:
        bound = [constant(v, "!q") for v in rule.variables]
        body = Reader(state, {}).formula(rule.formula, {v.name: c for v, c in zip(rule.variables, bound, strict=True)})
        axioms.append(Assume(z3.ForAll(bound, body) if bound else body, rule.id))
    return state, tuple(axioms)


def _at_constants(formula: Formula, variables: tuple[Var, ...], state: State) -> Truth:
    return Reader(state, {}).formula(formula, {v.name: constant(v, "!s") for v in variables})


def antecedents(formula: Formula) -> Iterator[Formula]:
    """What must be able to be true for the formula to say something: of `a implies b` it is a, of `not (a and b)` both a
    and b.
    """
    for part in conjuncts(formula):
        match part:
            case Or(parts=parts):
                yield from (x.body for x in [x for x in parts if isinstance(x, Not)][:1])
            case Not(body=And(parts=parts)):
                yield from parts
            case _:
                continue
