"""The reference machine: the protocol text, executed on a tree of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import product, takewhile
from typing import Literal

from .algebra import TRUE, Action, Formula, Freeze, Guard, ParameterKind, Relation, Var, conjuncts
from .concrete import compile_action, compile_formula, domain
from .errors import BadArgument, UnknownName
from .instance import Instance, instance
from .properties import Property
from .state import Projection, State, project
from .vocabulary import Component, Policy, busy

Verdict = Literal["done", "refused", "senseless", "unjustified", "violated"]
"""done        the action happened
refused     a protection forbids it (`require`)
senseless   the caller did not keep its side of the bargain (`expect`, or arguments of the wrong kind)
unjustified the action is a refusal that has no reason (`reason`)
violated    an assertion fires (`never`) or a promise is broken: the protocol itself is at fault, the state beyond use
"""

_BY_GUARD: Mapping[str, Verdict] = {
    "require": "refused",
    "expect": "senseless",
    "reason": "unjustified",
    "never": "violated",
    "promise": "violated",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a step: its verdict, the guard that decided (None when done), the nodes it touched."""

    verdict: Verdict
    guard: Guard | None = None
    touched: Set[int] = frozenset()

    def __bool__(self) -> bool:
        return self.verdict == "done"


class ReferenceMachine:
    """Runs one instance of the protocol. Node 0 is the root; nodes and holders are named by integers that the caller
    chooses.

    Args:
        policy: a write policy, or an `Instance` to run (a faulty one, say).
        components: one of the four component sets; left out when an instance is given.
    """

    def __init__(self, policy: Policy | Instance, components: tuple[Component, ...] = ("full",)) -> None:
        self.instance = policy if isinstance(policy, Instance) else instance(policy, components)
        self._plans = _plans(self.instance)
        self.components = self.instance.setting.components
        relations = self.instance.relations
        self.state = State(relations)
        self._busy = _compiled_busy(relations)

    def step(self, name: str, args: Mapping[str, int]) -> Outcome:
        """Do one action, if it may be done; nothing changes unless it is.

        Raises:
            UnknownName: this instance has no such action.
            BadArgument: the arguments are not the action's.
        """
        plan, values = self._prepare(name, args)
        if (misfit := self._misfits(plan, values)) is not None:
            return misfit
        touched: set[int] = set()
        failed = plan.run(self.state, touched, *values)
        if failed < 0:
            touched.update(values[i] for i in plan.nodes)
            return Outcome("done", None, touched)
        return _stopped(plan, failed)

    def allows(self, name: str, args: Mapping[str, int]) -> Outcome:
        """What `step` would decide before it changes anything: done means that nothing stands in the action's way.

        Raises as `step` does.
        """
        plan, values = self._prepare(name, args)
        if (misfit := self._misfits(plan, values)) is not None:
            return misfit
        failed = plan.decide(self.state, set(), *values)
        return Outcome("done") if failed < 0 else _stopped(plan, failed)

    def force(self, name: str, args: Mapping[str, int]) -> bool:
        """Do the action whatever forbids it, to follow somebody who did; the state may be beyond the protocol then.

        False, and nothing done, if its nodes are not there to do it with. Raises as `step` does.
        """
        plan, values = self._prepare(name, args)
        if any(kind != "idle" and self._misfit(kind, values[at]) is not None for at, kind in plan.checked):
            return False
        plan.force(self.state, set(), *values)
        return True

    def _prepare(self, name: str, args: Mapping[str, int]) -> tuple[_Plan, list[int]]:
        plan = self._plans.get(name)
        if plan is None:
            raise UnknownName("action", name, list(self._plans))
        try:
            values = [args[n] for n in plan.names]
        except KeyError:
            values = []
        if len(values) != len(args) or len(values) != len(plan.names):
            raise BadArgument(f"{name} takes ({', '.join(plan.names)}), got ({', '.join(args)})")
        return plan, values

    def _misfits(self, plan: _Plan, values: list[int]) -> Outcome | None:
        live = self.state.marks["live"]
        for at, kind in plan.checked:
            value = values[at]
            if kind == "idle":
                fits = not self._busy(self.state, value)
            else:
                fits = (value in live) != (kind == "fresh") and (value != 0 or kind != "inner")
            if not fits:
                name = plan.names[at]
                return Outcome("senseless", Guard("expect", name, TRUE, f"{name} {self._misfit(kind, value)}"))
        return None

    def _misfit(self, kind: str, value: int) -> str | None:
        in_tree = value in self.state.marks["live"]
        match kind:
            case "live" if not in_tree:
                return "is not in the tree"
            case "inner" if not in_tree or value == 0:
                return "is not in the tree" if not in_tree else "is the root"
            case "fresh" if in_tree:
                return "is in the tree already"
            case "idle" if self._busy(self.state, value):
                return "is busy"
        return None

    def project(self, node: int) -> Projection | None:
        """What an observer sees of `node`."""
        return project(self.state, node, self.components)

    def violations(self) -> Iterator[tuple[Property, dict[str, int]]]:
        """Every property that does not hold in this state, with the nodes and holders for which it fails.

        Looks at every combination: for small trees. That a step of a proven protocol never leads here is what the
        proofs say.
        """
        for rule in self.instance.properties:
            holds = _compiled_rule(rule, self.instance.relations)
            for values in product(*(domain(self.state, v.sort) for v in rule.variables)):
                if not holds(self.state, *values):
                    yield rule, {v.name: value for v, value in zip(rule.variables, values, strict=True)}

    def false_conjuncts(self, formula: Formula, args: Mapping[str, int]) -> list[Formula]:
        """Those parts of a conjunction that do not hold here."""
        variables = tuple(Var(name, _SORTS.get(name, "node")) for name in args)
        return [
            part
            for part in conjuncts(formula)
            if not compile_formula(part, variables, self.instance.relations)(self.state, *args.values())
        ]


_HOLDER = Var("holder", "holder")
_SORTS: Mapping[str, Literal["node", "holder"]] = {"holder": "holder"}


@cache
def _compiled_busy(relations: tuple[Relation, ...]) -> Callable[..., bool]:
    return compile_formula(busy(_HOLDER), (_HOLDER,), relations)


@cache
def _compiled_rule(rule: Property, relations: tuple[Relation, ...]) -> Callable[..., bool]:
    return compile_formula(rule.formula, rule.variables, relations)


@dataclass(frozen=True, slots=True)
class _Plan:
    """An action, ready to run: `decide` is its guards up to the first change, `force` its changes without guards."""

    action: Action
    names: tuple[str, ...]
    checked: tuple[tuple[int, ParameterKind], ...]
    nodes: tuple[int, ...]
    run: Callable[..., int]
    decide: Callable[..., int]
    force: Callable[..., int]


@lru_cache(maxsize=64)
def _plans(known: Instance) -> dict[str, _Plan]:
    """The actions, ready to run: machines are made by the thousand."""
    return {name: _plan(action, known.relations) for name, action in known.actions.items()}


def _plan(action: Action, relations: tuple[Relation, ...]) -> _Plan:
    parameters = action.parameters
    decision = tuple(takewhile(lambda s: isinstance(s, Guard | Freeze), action.steps))
    changes = tuple(s for s in action.steps if not isinstance(s, Guard))
    return _Plan(
        action,
        tuple(q.var.name for q in parameters),
        tuple((i, q.kind) for i, q in enumerate(parameters) if q.kind != "any"),
        tuple(i for i, q in enumerate(parameters) if q.var.sort == "node"),
        compile_action(action, relations),
        compile_action(replace(action, steps=decision), relations),
        compile_action(replace(action, steps=changes), relations),
    )


def _stopped(plan: _Plan, at: int) -> Outcome:
    guard = plan.action.steps[at]
    assert isinstance(guard, Guard)
    return Outcome(_BY_GUARD[guard.kind], guard)
