"""What has to be proven about an instance of the protocol: every obligation, with a stable id.

The obligations of one action form a `Script`: what may be assumed so far, and what must follow from it. Proving,
exporting and rechecking with another solver are three folds over the same script.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import z3  # type: ignore[import-untyped]

from ..model.algebra import (
    HOLDER,
    NODE,
    Action,
    And,
    Assign,
    Formula,
    Freeze,
    Guard,
    Inherit,
    Not,
    Or,
    Parameter,
    Var,
    conjuncts,
)
from ..model.instance import Instance
from ..model.protocol import Setting
from ..model.vocabulary import WRITE_THROUGH, busy, device_arrived, filling, host_arrived, reserved, stored
from .inductive import Assume, at_constants, inductive_state, known, reading_of
from .symbolic import ROOT_TERM, Reader, Reading, Run, State, Term, Truth, constant, initial_state

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
    scope: Mapping[str, Term]

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
"""Protections that can never be the one that refuses, by (action, guard, policy; # is any component): the named
property keeps the danger away already. That this is so is an obligation, too: else the protection is a first line.
"""

REFUSES: Mapping[str, str] = {"refuse_load_back": "commit_load_back"}
"""Actions that are a refusal, and what they refuse with the same arguments: where one is allowed, the other is not."""

FAILURES = frozenset({"fail_backup", "fail_load_back", "fail_storage_backup", "abort_load_back", "refuse_load_back"})
"""Actions by which an operation ends without having done what it was for."""

ENDS = FAILURES | {"unlock", "ack_backup", "ack_load_back", "end_prefetch", "ack_storage_backup"}
"""Actions by which an operation ends: afterwards it is idle and holds nothing."""


def script_names(instance: Instance) -> tuple[str, ...]:
    """The scripts of an instance: `start` for what belongs to no action, then one an action."""
    return ("start", *instance.actions)


Wanted = Callable[[Kind, str, str], bool]
"""Given an obligation's kind, subject and id: whether to write it down."""


def script(instance: Instance, name: str, wanted: Wanted | None = None) -> Script:
    """The obligations of one action, or those of the initial state and of the properties themselves (`start`).

    Args:
        instance: any instance, a faulty one too.
        name: one of its `script_names`.
        wanted: leaves out the obligations for which it is false (assumptions stay).
    """
    asked = wanted or (lambda kind, subject, identifier: True)
    return _start(instance, asked) if name == "start" else _of_action(instance, instance.actions[name], asked)


def slug(words: str) -> str:
    """Words as part of an id."""
    return re.sub(r"[^\w.]+", "-", words).strip("-")


@dataclass(slots=True)
class _Writer:
    """Collects the entries of a script."""

    prefix: str
    wanted: Wanted
    entries: list[Assume | Obligation]

    def oblige(self, kind: Kind, subject: str, claim: Callable[[], Truth], variables: tuple[Var, ...] = ()) -> None:
        """Write an obligation down, if it is wanted: only then is its claim put together."""
        identifier = f"{self.prefix}{kind}.{slug(subject)}"
        if self.wanted(kind, subject, identifier):
            self.entries.append(Obligation(identifier, kind, subject, claim(), variables))


def _start(instance: Instance, wanted: Wanted) -> Script:
    before, axioms = inductive_state(instance)
    empty = initial_state(instance.relations)
    writer = _Writer(f"{instance.name}/", wanted, [])
    for rule in instance.properties:
        writer.oblige("initiation", rule.id, partial(at_constants, rule, empty), rule.variables)
    writer.entries += axioms
    for rule in instance.properties:
        for number, part in enumerate(antecedents(rule.formula), 1):
            subject = rule.id if number == 1 else f"{rule.id}-{number}"
            writer.oblige("vacuity", subject, partial(at_constants, rule, before, part), rule.variables)
    return Script(f"{instance.name}/start", tuple(writer.entries), before, None, {})


def _of_action(instance: Instance, action: Action, wanted: Wanted) -> Script:
    before, axioms = inductive_state(instance)
    writer = _Writer(f"{instance.name}/{action.name}.", wanted, [*axioms])
    scope = {q.var.name: constant(q.var) for q in action.parameters}
    run = Run(before, scope)
    writer.entries += [Assume(formula) for q in action.parameters for formula in _expected_of(q, run, scope)]
    for step in action.steps:
        if isinstance(step, Guard):
            writer.entries.append(Assume(_guard(writer, instance, action, step, run)))
        else:
            run.take(step)
    writer.oblige("vacuity", "happens", lambda: z3.BoolVal(True))
    if action.name in REFUSES:
        refused = instance.actions[REFUSES[action.name]]
        writer.oblige("necessity", f"{refused.name} is impossible", lambda: z3.Not(_possible(refused, before, scope)))
    for rule, (names, claim) in zip(instance.properties, known(instance).claims, strict=True):
        changed = any(reading_of(run.state, name) is not reading_of(before, name) for name in names)
        put = partial(at_constants, rule, run.state) if changed else partial(_as_before, claim)
        writer.oblige("consecution", rule.id, put, rule.variables)
    for kind, subject, frame_claim in _frame(instance, action, before, run):
        writer.oblige(kind, subject, frame_claim)
    return Script(f"{instance.name}/{action.name}", tuple(writer.entries), before, run, scope)


def _guard(writer: _Writer, instance: Instance, action: Action, guard: Guard, run: Run) -> Truth:
    """Write down what a guard obliges to, and return what may be assumed after it."""
    holds = run.read(guard.formula)
    if guard.kind == "require":
        danger = guard.danger
        assert danger is not None
        writer.oblige("necessity", guard.name, lambda: z3.Or(holds, run.read(danger)))
        if _is_second_line(action, guard, instance.setting):
            writer.oblige("redundancy", guard.name, lambda: holds)
        else:
            writer.oblige("vacuity", f"refuses {guard.name}", lambda: z3.Not(holds))
    elif guard.kind in ("never", "promise"):
        writer.oblige(guard.kind, guard.name, lambda: holds)
    return holds


def _possible(action: Action, state: State, scope: Mapping[str, Term]) -> Truth:
    """Whether the action may be done in that state, with those arguments: an action decides before it acts."""
    run, holds = Run(state, scope), []
    for step in action.steps:
        if isinstance(step, Freeze):
            run.take(step)
        elif isinstance(step, Guard) and step.kind in ("expect", "require", "reason"):
            holds.append(run.read(step.formula))
    return z3.And(*holds)


def _as_before(claim: Truth) -> Truth:
    return claim


def _is_second_line(action: Action, guard: Guard, setting: Setting) -> bool:
    name = re.sub(r"\b(full|swa|mamba)\b(?= reads)", "#", guard.name)
    base = action.name.split(".")[0]
    return any((base, name, policy) in SECOND_LINE for policy in ("", setting.policy))


def _frame(
    instance: Instance, action: Action, before: State, run: Run
) -> Iterator[tuple[Kind, str, Callable[[], Truth]]]:
    """What an action must leave alone, and what it must leave behind."""
    after, node, other = run.state.relations, constant(_NODE, "!s"), constant(_OTHER, "!s")
    own = [run.scope[q.var.name] for q in action.parameters if q.var.sort == HOLDER]
    fresh = [run.scope[q.var.name] for q in action.parameters if q.kind == "fresh"]
    changed = {s.relation.name for s in action.steps if isinstance(s, Assign | Inherit)}
    if action.name in ENDS:
        (holder,) = own
        for relation in (r for r in instance.relations if r.sorts == (NODE, HOLDER)):
            yield "release", relation.name, lambda r=after[relation.name]: z3.Not(r(node, holder))  # type: ignore[misc]
        for relation in (filling, reserved):
            yield "release", relation.name, lambda r=after[relation.name]: z3.Not(r(holder))  # type: ignore[misc]
        idle = Reader(run.state, {}).formula(~busy(_OTHER), {_OTHER.name: holder})
        yield "release", "busy", lambda: idle
    somebody_else = [other != h for h in own] + [node != n for n in fresh]
    for relation in instance.relations:
        if relation.name in changed and HOLDER in relation.sorts:
            args = (node, other) if relation.sorts[0] == NODE else (other,)
            yield (
                "foreign",
                relation.name,
                partial(_unchanged, before.relations[relation.name], after[relation.name], args, somebody_else),
            )
    if action.name in FAILURES:
        arrivals = [family[c] for family in (device_arrived, host_arrived) for c in instance.setting.components]
        for relation in (*arrivals, stored):
            yield (
                "failure",
                relation.name,
                partial(_only_less, before.relations[relation.name], after[relation.name], node),
            )


def _unchanged(before: Reading, after: Reading, args: tuple[Term, ...], where: list[Truth]) -> Truth:
    return z3.Implies(z3.And(*where), after(*args) == before(*args))


def _only_less(before: Reading, after: Reading, node: Term) -> Truth:
    return z3.Implies(after(node), before(node))


_NODE, _OTHER = Var("n", NODE), Var("other", HOLDER)


def _expected_of(parameter: Parameter, run: Run, scope: Mapping[str, Term]) -> Iterator[Truth]:
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


def antecedents(formula: Formula) -> Iterator[Formula]:
    """What must be able to be true for the formula to say something: of `a implies b` it is a, of `not (a and b)`
    both a and b.
    """
    for part in conjuncts(formula):
        match part:
            case Or(parts=parts):
                yield from (x.body for x in [x for x in parts if isinstance(x, Not)][:1])
            case Not(body=And(parts=parts)):
                yield from parts
            case _:
                continue
