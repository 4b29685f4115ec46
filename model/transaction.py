"""The transaction `t` that protocol actions speak to: it records what they say as a list of steps.

Regions are frozen when they are formed: `t.path(n).where(...)` has the members that it has at that point of the action,
however the state changes afterwards. A formula is read by the step that it is handed to.
"""

from __future__ import annotations

from dataclasses import dataclass

from .algebra import (
    Assign,
    Cut,
    Formula,
    Freeze,
    Grow,
    Guard,
    GuardKind,
    Inherit,
    Inside,
    Predicate,
    Prune,
    Region,
    Relation,
    Step,
    Var,
    above,
    all_of,
    below,
    every,
    everywhere,
    frozen_in,
    held_by,
    no,
    one,
    path,
    segment,
    some,
    subtree,
)
from .vocabulary import Component, arrived_of, device, held, host, live, users_of


@dataclass(frozen=True, slots=True)
class Nodes:
    """A frozen region of a transaction; `where` forms a smaller one, now."""

    transaction: Transaction
    region: Region

    def where(self, predicate: Predicate) -> Nodes:
        """Those members that satisfy `predicate` at this point of the action."""
        return self.transaction.freeze(self.region.where(predicate))

    def all(self, predicate: Predicate) -> Formula:
        """Every member satisfies `predicate`."""
        return every(self.region, predicate)

    def any(self, predicate: Predicate | None = None) -> Formula:
        """Some member satisfies `predicate`; without one, there is a member."""
        return ~self.none(predicate)

    def none(self, predicate: Predicate | None = None) -> Formula:
        """No member satisfies `predicate`; without one, there is no member."""
        return no(self.region, predicate)


class Transaction:
    """Records one action. The verbs are the algebra of the protocol; each says which obligation it carries."""

    def __init__(self, components: tuple[Component, ...]) -> None:
        self.components = components
        self._steps: list[Step] = []
        self._frozen = 0

    # Regions, frozen here and now
    def freeze(self, region: Region) -> Nodes:
        """`region` with the members that it has at this point."""
        self._steps.append(Freeze(self._frozen, region))
        nodes = Nodes(self, Region("frozen", base=self._frozen, var=region.var))
        self._frozen += 1
        return nodes

    def one(self, node: Var) -> Nodes:
        """`node` alone."""
        return self.freeze(one(node))

    def path(self, node: Var) -> Nodes:
        """`node` to the root."""
        return self.freeze(path(node))

    def above(self, node: Var) -> Nodes:
        """The ancestors of `node`."""
        return self.freeze(above(node))

    def segment(self, node: Var, top: Var) -> Nodes:
        """`node` up to `top`."""
        return self.freeze(segment(node, top))

    def subtree(self, node: Var) -> Nodes:
        """`node` and everything below it."""
        return self.freeze(subtree(node))

    def below(self, node: Var) -> Nodes:
        """Everything below `node`."""
        return self.freeze(below(node))

    def held_by(self, relation: Relation, holder: Var) -> Nodes:
        """What `holder` holds in `relation`: the receipt of whoever took it."""
        return self.freeze(held_by(relation, holder))

    def everywhere(self) -> Nodes:
        """The whole tree."""
        return self.freeze(everywhere())

    # Guards
    def expect(self, formula: Formula, words: str, name: str = "") -> None:
        """The caller's side of the bargain: the action makes no sense without it."""
        self._guard("expect", name or words, formula, words)

    def require(self, formula: Formula, words: str, *, danger: Formula, name: str = "") -> None:
        """Refuse without `formula`. `danger` is what a refusal must have saved us from: no false conflicts."""
        self._guard("require", name or words, formula, words, danger)

    def require_reason(self, formula: Formula, words: str, name: str = "") -> None:
        """This action *is* a refusal, and `formula` its only excuse."""
        self._guard("reason", name or words, formula, words)

    def assert_never(self, formula: Formula, words: str, name: str = "") -> None:
        """An assertion of real code: `formula` must be unreachable here."""
        self._guard("never", name or words, ~formula, words)

    def promise(self, formula: Formula, words: str, name: str = "") -> None:
        """An obligation of this very step: it holds wherever the action is allowed."""
        self._guard("promise", name or words, formula, words)

    # Holders
    def grant(self, relation: Relation, nodes: Nodes, holder: Var) -> None:
        """`holder` takes `relation` on these nodes."""
        self._steps.append(Assign(relation, True, nodes.region, holder))

    def revoke(self, relation: Relation, nodes: Nodes, holder: Var) -> None:
        """`holder` gives `relation` back. Obligation: it holds it there (else somebody else's would be dropped)."""
        self.promise(
            nodes.all(lambda m: relation(m, holder)),
            f"gives back only what it took ({relation.name})",
            f"took {relation.name}",
        )
        self._steps.append(Assign(relation, False, nodes.region, holder))

    def give_back(self, relation: Relation, holder: Var) -> None:
        """`holder` gives back all that it holds in `relation`, by its receipt."""
        self._steps.append(Assign(relation, False, held_by(relation, holder), holder))

    def begin(self, phase: Relation, holder: Var) -> None:
        """`phase` starts for `holder`."""
        self._steps.append(Assign(phase, True, None, holder))

    def end(self, phase: Relation, holder: Var) -> None:
        """`phase` is over for `holder`."""
        self._steps.append(Assign(phase, False, None, holder))

    # Copies
    def fill(self, copy: Relation, nodes: Nodes) -> None:
        """New slots, their bytes already there. Obligation: none there before (they would be lost)."""
        self.publish(copy, nodes)
        self.arrive(copy, nodes)

    def publish(self, copy: Relation, nodes: Nodes) -> None:
        """New slots, reserved but not yet written. Obligation: none there before (they would be lost)."""
        self.promise(nodes.none(lambda m: copy(m)), f"no slots are forgotten ({copy.name})", f"no {copy.name} yet")
        self._steps.append(Assign(copy, True, nodes.region))

    def arrive(self, copy: Relation, nodes: Nodes) -> None:
        """The bytes are there. Obligation: the slots are."""
        self.promise(
            nodes.all(lambda m: copy(m)), f"bytes arrive in slots of its own ({copy.name})", f"has {copy.name}"
        )
        self._steps.append(Assign(arrived_of(copy), True, nodes.region))

    def read(self, copy: Relation, nodes: Nodes) -> None:
        """Somebody reads the bytes. Obligation: they have arrived."""
        self.promise(
            nodes.all(lambda m: arrived_of(copy)(m)),
            f"nothing is read before it arrived ({copy.name})",
            f"arrived {copy.name}",
        )

    def free(self, copy: Relation, nodes: Nodes) -> None:
        """Release the slots, where there are any: the only way to do so. Obligation: nobody is using them."""
        self.promise(
            nodes.none(lambda m: copy(m) & held(m, *users_of(copy))),
            f"nothing is freed while somebody uses it ({copy.name})",
            f"unused {copy.name}",
        )
        self._steps.append(Assign(copy, False, nodes.region))
        self._steps.append(Assign(arrived_of(copy), False, nodes.region))

    def set(self, flag: Relation, nodes: Nodes, value: bool) -> None:
        """A flag of these nodes."""
        self._steps.append(Assign(flag, value, nodes.region))

    # The tree
    def grow(self, leaf: Var, parent: Var) -> None:
        """A new leaf below `parent`."""
        self._steps.append(Grow(leaf, parent))
        self._steps.append(Assign(live, True, one(leaf)))

    def cut(self, node: Var, prefix: Var) -> None:
        """`prefix` comes to lie between `node` and its parent."""
        self._steps.append(Cut(node, prefix))
        self._steps.append(Assign(live, True, one(prefix)))

    def inherit(self, relation: Relation, node: Var, heir: Var) -> None:
        """What `relation` says of `node`, it now says of `heir` too."""
        self._steps.append(Inherit(relation, node, heir))

    def prune(self, nodes: Nodes) -> None:
        """The nodes leave the tree. Obligations: they own no slots any more, and leave no orphans."""
        copies = [tier[c] for c in self.components for tier in (device, host)]
        inside = nodes.region.base
        self.promise(
            all_of(*(nodes.none(lambda m, copy=copy: copy(m)) for copy in copies)),  # type: ignore[misc]
            "a node that leaves the tree owns no slots",
            "owns no slots",
        )
        self.promise(
            nodes.none(lambda m: some(below(m), lambda k: live(k) & ~Inside(inside, k))),
            "no node is left below one that has gone",
            "no orphans",
        )
        self._steps.append(Assign(live, False, nodes.region))
        self._steps.append(Prune(nodes.region))

    def steps(self) -> tuple[Step, ...]:
        """What was said, without the regions that nothing uses."""
        used: set[int] = set()
        kept: list[Step] = []
        for step in reversed(self._steps):
            if isinstance(step, Freeze) and step.index not in used:
                continue
            kept.append(step)
            for term in _terms(step):
                used.update(frozen_in(term))
        return tuple(reversed(kept))

    def _guard(self, kind: GuardKind, name: str, formula: Formula, words: str, danger: Formula | None = None) -> None:
        if kind in _DECISIONS and any(isinstance(s, Assign | Inherit | Grow | Cut | Prune) for s in self._steps):
            raise TypeError(f"an action decides before it acts: {name!r} comes after a change")
        taken = {s.name for s in self._steps if isinstance(s, Guard)}
        unique = next(n for n in (name, *(f"{name} ({i})" for i in range(2, 99))) if n not in taken)
        self._steps.append(Guard(kind, unique, formula, words, danger))


_DECISIONS: tuple[GuardKind, ...] = ("expect", "require", "reason")


def _terms(step: Step) -> tuple[Formula | Region, ...]:
    match step:
        case Guard(formula=formula, danger=danger):
            return (formula,) if danger is None else (formula, danger)
        case Freeze(region=region) | Prune(region=region):
            return (region,)
        case Assign(region=Region() as region):
            return (region,)
        case _:
            return ()
