"""The reference machine: the protocol text, executed on a tree of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Literal

from .algebra import TRUE, Action, Formula, Guard, Relation, Var, conjuncts
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
    touched: frozenset[int] = frozenset()

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
        self.components = self.instance.setting.components
        relations = self.instance.relations
        self.state = State(relations)
        self._run = {name: _compiled_action(a, relations) for name, a in self.instance.actions.items()}
        self._busy = compile_formula(busy(_HOLDER), (_HOLDER,), relations)

    def step(self, name: str, args: Mapping[str, int]) -> Outcome:
        """Do one action, if it may be done; nothing changes unless it is.

        Raises:
            UnknownName: this instance has no such action.
            BadArgument: the arguments are not the action's.
        """
        action = self.instance.actions.get(name)
        if action is None:
            raise UnknownName("action", name, list(self.instance.actions))
        if args.keys() != {q.var.name for q in action.parameters}:
            wanted = ", ".join(q.var.name for q in action.parameters)
            raise BadArgument(f"{name} takes ({wanted}), got ({', '.join(args)})")
        for parameter in action.parameters:
            if (words := self._misfit(parameter.kind, args[parameter.var.name])) is not None:
                return Outcome("senseless", Guard("expect", parameter.var.name, TRUE, f"{parameter.var.name} {words}"))
        touched: set[int] = set()
        failed = self._run[name](self.state, touched, *(args[q.var.name] for q in action.parameters))
        if failed < 0:
            touched.update(args[q.var.name] for q in action.parameters if q.var.sort == "node")
            return Outcome("done", None, frozenset(touched))
        guard = action.steps[failed]
        assert isinstance(guard, Guard)
        return Outcome(_BY_GUARD[guard.kind], guard)

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
def _compiled_rule(rule: Property, relations: tuple[Relation, ...]) -> Callable[..., bool]:
    return compile_formula(rule.formula, rule.variables, relations)


@cache
def _compiled_action(action: Action, relations: tuple[Relation, ...]) -> Callable[..., int]:
    return compile_action(action, relations)
