"""Why an obligation fails: the smallest tree on which it does, as plain data and as two pictures.

A failed consecution is a *counterexample to induction*: a state that satisfies every property, an action that is
allowed there, and a state after it that does not. Whether the state before is reachable is another question, which a
bounded search may answer (`Search`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, Protocol

import z3  # type: ignore[import-untyped]

from ..model.algebra import HOLDER, NODE, Action, Formula, Freeze, Guard, Relation, Var, conjuncts
from ..model.concrete import compile_action, compile_formula
from ..model.errors import UnknownName
from ..model.instance import Instance
from ..model.properties import Property
from ..model.state import State
from ..model.words import in_words, where
from .inductive import Assume
from .obligations import REFUSES, Kind, Obligation, Script, script, script_names
from .picture import Picture, picture
from .symbolic import HOLDER_SORT, NODE_SORT, ROOT_TERM, Term, constant

SIZES: tuple[tuple[int, int], ...] = tuple(
    sorted(((n, h) for n in range(1, 7) for h in range(1, 4)), key=lambda size: (sum(size), size))
)
"""Numbers of nodes (the root included) and of holders that are tried, smallest first."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """One way in which an obligation fails. `after` is missing where the action never gets that far."""

    obligation: str
    kind: Kind
    policy: str
    components: tuple[str, ...]
    action: str
    args: dict[str, int]
    subject: str
    words: str
    false: tuple[str, ...]
    before: Picture
    after: Picture | None

    def to_json(self) -> dict[str, Any]:
        """Plain data: dictionaries, lists, strings and numbers."""
        return asdict(self) | {"components": list(self.components), "false": list(self.false)}


class Search(Protocol):
    """A bounded search for a way from the empty cache into a given state: the seam for the exhaustive explorer."""

    def __call__(self, instance: Instance, goal: State) -> Sequence[tuple[str, Mapping[str, int]]] | None:
        """The actions that lead there, with their arguments, or None if there are none within the bound."""


def is_reached(
    example: Counterexample, instance: Instance, search: Search
) -> Sequence[tuple[str, Mapping[str, int]]] | None:
    """How the state before the action comes about, as far as `search` can tell."""
    return search(instance, example.before.state(instance.relations))


def find(instance: Instance, obligation: str) -> Counterexample | None:
    """The smallest counterexample to an obligation of this instance, by its id; None if it holds in all small trees.

    Raises:
        UnknownName: the instance has no such obligation.
    """
    text = _script_of(instance, obligation)
    claim = next((o for o in text.obligations() if o.id == obligation), None)
    if claim is None:
        raise UnknownName("obligation", obligation, [o.id for o in text.obligations()])
    if claim.possible:
        return None
    for nodes, holders in SIZES:
        solver, names = _bounded(text, claim, nodes, holders)
        if solver.check() == z3.sat:
            model = _plain(solver, names, instance.relations, text)
            return _Reading(instance, text, claim, model, names).counterexample()
    return None


def _script_of(instance: Instance, obligation: str) -> Script:
    prefix = f"{instance.name}/"
    tail = obligation.removeprefix(prefix)
    fitting = [n for n in script_names(instance) if tail.startswith(f"{n}.")]
    if not obligation.startswith(prefix):
        raise UnknownName("obligation", obligation, [prefix + n for n in script_names(instance)])
    return script(instance, max(fitting, key=len, default="start"))


@dataclass(frozen=True, slots=True)
class _Universe:
    """Constants that stand for all nodes and all holders there are (some may name the same one)."""

    nodes: tuple[Term, ...]
    holders: tuple[Term, ...]


def _bounded(text: Script, claim: Obligation, nodes: int, holders: int) -> tuple[z3.Solver, _Universe]:
    names = _Universe(
        (ROOT_TERM, *(z3.Const(f"node!{i}", NODE_SORT) for i in range(1, nodes))),
        tuple(z3.Const(f"holder!{i}", HOLDER_SORT) for i in range(holders)),
    )
    solver = z3.Solver()
    for sort, terms in ((NODE_SORT, names.nodes), (HOLDER_SORT, names.holders)):
        any_one = z3.Const("any!", sort)
        solver.add(z3.ForAll([any_one], z3.Or(*(any_one == t for t in terms))))
    for entry in text.entries:
        if entry is claim:
            break
        if isinstance(entry, Assume) and claim.kind != "initiation":
            solver.add(entry.formula)
    solver.add(claim.query)
    return solver, names


def _plain(solver: z3.Solver, names: _Universe, relations: Sequence[Relation], text: Script) -> z3.ModelRef:
    """A model in which as little as possible is the case: what can be false, one after the other, is made so."""
    model = solver.model()
    rows = [
        text.before.relations[r.name](*row) for r in relations for row in product(*(_domain(s, names) for s in r.sorts))
    ]
    solver.push()
    while True:
        absent = [row for row in rows if z3.is_false(model.eval(row, model_completion=True))]
        solver.add(*(z3.Not(row) for row in absent))
        rows = [row for row in rows if z3.is_true(model.eval(row, model_completion=True))]
        solver.add(z3.Or(*(z3.Not(row) for row in rows)))
        if not rows or solver.check() != z3.sat:
            solver.pop()
            return model
        model = solver.model()


def _domain(sort: str, names: _Universe) -> tuple[Term, ...]:
    return names.nodes if sort == NODE else names.holders


class _Reading:
    """Turns a z3 model into plain data, and runs the action on it with the concrete interpreter."""

    def __init__(
        self, instance: Instance, text: Script, claim: Obligation, model: z3.ModelRef, names: _Universe
    ) -> None:
        self.instance, self.text, self.claim, self.model = instance, text, claim, model
        self.action: Action | None = instance.actions.get(text.name.removeprefix(f"{instance.name}/"))
        self.nodes = self._numbered(self._by_depth(self._distinct(names.nodes)), 0)
        self.holders = self._numbered(self._distinct(names.holders), 1)

    def counterexample(self) -> Counterexample:
        """The whole story."""
        before = self._before()
        state, after = before.state(self.instance.relations), None
        args = {name: self._number(term) for name, term in self.text.scope.items()}
        if self.action is not None:
            run = compile_action(self.action, self.instance.relations)
            if run(state, set(), *args.values()) < 0:
                after = picture(state)
        words, false = self._failure(state, args)
        return Counterexample(
            obligation=self.claim.id,
            kind=self.claim.kind,
            policy=self.instance.setting.policy,
            components=self.instance.setting.components,
            action=self.action.name if self.action else "",
            args=args,
            subject=self.claim.subject,
            words=words,
            false=tuple(false),
            before=before,
            after=after,
        )

    def _failure(self, after: State, args: Mapping[str, int]) -> tuple[str, list[str]]:
        """The rule that is broken in words, and what of it is false, with names filled in."""
        claim = self.claim
        if claim.kind in ("consecution", "initiation"):
            rule = self.instance.property(claim.subject)
            values = [self._number(constant(v, "!s")) for v in rule.variables]
            return rule.words, list(_false_parts(rule, values, after, self.instance))
        if claim.kind in ("necessity", "promise", "never"):
            assert self.action is not None
            kind = "require" if claim.kind == "necessity" else claim.kind
            guard = next((g for g in self.action.guards(kind) if g.name == claim.subject), None)
            if guard is None:
                refused = REFUSES[self.action.name]
                return "a refusal needs a reason", [f"{refused} with the same arguments is refused here too"]
            return guard.words, [_why(guard, self._called(args))]
        node = self._number(constant(Var("n", NODE), "!s"))
        if claim.kind == "failure":
            return f"a failure makes nothing count as {claim.subject}", [f"{claim.subject} of node {node}"]
        own = claim.kind == "release"
        holder = args["holder"] if own else self._number(constant(Var("other", HOLDER), "!s"))
        words = "an operation that has ended holds nothing" if own else "what others hold stays as it was"
        return words, [f"{claim.subject} of node {node} and holder {holder}"]

    def _called(self, args: Mapping[str, int]) -> dict[str, str]:
        assert self.action is not None
        names = {q.var.name: f"{q.var.sort} {args[q.var.name]}" for q in self.action.parameters}
        for step in self.action.steps:
            if isinstance(step, Freeze):
                names[f"r{step.index}"] = where(step.region, names)
        return names

    def _before(self) -> Picture:
        if self.claim.kind == "initiation":
            return picture(State(self.instance.relations))
        above, live = self.text.before.ancestor, self.text.before.relations["live"]
        in_tree = [t for t in self.nodes if self._true(live(t))]
        parents: dict[int, int] = {}
        for term in in_tree:
            upper = [t for t in in_tree if t is not term and self._true(above(t, term))]
            if upper:
                nearest = max(upper, key=lambda t: sum(self._true(above(u, t)) for u in upper))
                parents[self.nodes[term]] = self.nodes[nearest]
        facts: dict[str, list[list[int]]] = {}
        for relation in self.instance.relations:
            domains = [self.nodes if s == NODE else self.holders for s in relation.sorts]
            reading = self.text.before.relations[relation.name]
            rows = [
                [d[t] for d, t in zip(domains, row, strict=True)]
                for row in product(*domains)
                if self._true(reading(*row))
            ]
            if rows:
                facts[relation.name] = sorted(rows)
        return Picture(parents, facts)

    def _by_depth(self, terms: list[Term]) -> list[Term]:
        if self.claim.kind == "initiation":
            return terms
        above, live = self.text.before.ancestor, self.text.before.relations["live"]

        def place(term: Term) -> tuple[bool, int]:
            return not self._true(live(term)), sum(self._true(above(t, term)) for t in terms)

        return sorted(terms, key=place)

    def _distinct(self, terms: Sequence[Term]) -> list[Term]:
        found: dict[str, Term] = {}
        for term in terms:
            found.setdefault(str(self._value(term)), term)
        return list(found.values())

    @staticmethod
    def _numbered(terms: Sequence[Term], first: int) -> dict[Term, int]:
        return {term: number for number, term in enumerate(terms, first)}

    def _number(self, term: Term) -> int:
        table = self.nodes if term.sort() == NODE_SORT else self.holders
        value = self._value(term)
        return next((number for t, number in table.items() if self._value(t).eq(value)), 0)

    def _value(self, term: Term) -> Term:
        value: Term = self.model.eval(term, model_completion=True)
        return value

    def _true(self, formula: Term) -> bool:
        return bool(z3.is_true(self._value(formula)))


def _false_parts(rule: Property, values: Sequence[int], state: State, instance: Instance) -> Iterator[str]:
    names = {v.name: f"{v.sort} {value}" for v, value in zip(rule.variables, values, strict=True)}
    for part in conjuncts(rule.formula):
        if not compile_formula(part, rule.variables, instance.relations)(state, *values):
            yield in_words(part, names)


def _why(guard: Guard, names: Mapping[str, str]) -> str:
    if guard.kind == "require":
        assert isinstance(guard.danger, Formula)
        return f"refused although there is no danger: {in_words(guard.danger, names)}"
    return in_words(guard.formula, names)
