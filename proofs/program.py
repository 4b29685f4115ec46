"""All that can happen to the states of one shape, compiled: which actions fire, what is wrong with a state, what
each action does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

from ..model.algebra import HOLDER, Action, Formula, Parameter, Relation, Var
from ..model.instance import Instance
from ..model.properties import Property
from ..model.vocabulary import busy
from .arrays import signed
from .batched import Branch, Broken, Ground, Run, ground
from .bits import FALSE, TRUE, Bits, Plane
from .layout import WORD, Layout
from .shape import Shape, canonical, root_only

AT_ROOT = frozenset({"live", "device.full", "host.full", "device_arrived.full", "host_arrived.full"})
"""What holds of the root in the initial state of a cache."""


@dataclass(frozen=True, slots=True)
class System:
    """What is explored: a text in the algebra, and what must hold in every state that it reaches."""

    name: str
    relations: tuple[Relation, ...]
    actions: Mapping[str, Action]
    properties: tuple[Property, ...]
    at_root: frozenset[str] = AT_ROOT

    @classmethod
    def of(cls, instance: Instance) -> System:
        """The system of one instance of the protocol."""
        return cls(instance.name, instance.relations, instance.actions, instance.properties)


@dataclass(frozen=True, slots=True)
class Call:
    """An action with its arguments: node and holder names of the universe."""

    action: str
    args: tuple[int, ...]


class Universe:
    """A system over so many nodes and holders: the layout of its states, its calls, and a program for each shape.

    Args:
        nodes: node names besides the root.
        holders: holder names.
        symmetry: names are interchangeable: one shape for all that differ in names, one fresh name, one idle holder.
        witness: a closed formula to look for.
    """

    def __init__(
        self, system: System, nodes: int, holders: int, *, symmetry: bool, witness: Formula | None = None
    ) -> None:
        self.system = system
        self.nodes = nodes
        self.holders = holders
        self.symmetry = symmetry
        self.witness = witness
        self.layout = Layout(system.relations, system.actions.values(), nodes, holders, system.at_root)
        self.calls: list[Call] = []
        self.numbers: dict[Call, int] = {}
        for action in system.actions.values():
            domains = [range(holders) if q.var.sort == HOLDER else range(nodes + 1) for q in action.parameters]
            for args in product(*domains):
                call = Call(action.name, args)
                self.numbers[call] = len(self.calls)
                self.calls.append(call)
        self._programs: dict[Shape, Program] = {}

    @property
    def start(self) -> Shape:
        """The shape of the initial state."""
        return root_only(self.nodes)

    def program(self, shape: Shape) -> Program:
        """The program of a shape, compiled when first asked for."""
        found = self._programs.get(shape)
        if found is None:
            found = self._programs[shape] = Program(self, shape)
        return found


@dataclass(slots=True)
class Effect:
    """What a call does to the words of a state.

    New word `w` is `(old & keep[w]) | always[w]`, plus for each move `(source, shift, mask)` in `moves[w]` the bits
    of `old[source] & mask` shifted up by `shift` (down if negative), plus the bits in `sometimes`. Then the words
    are put in `order`.
    """

    shape: Shape
    given: int
    keep: dict[int, int]
    always: dict[int, int]
    moves: dict[int, list[tuple[int, int, int]]]
    sometimes: list[tuple[int, int]]
    """(word, bit in it) for each value that has to be computed, in the order of `literals`."""
    literals: list[int]
    order: list[int]
    names: tuple[int, ...]
    """Node `n` of the state before is called `names[n]` afterwards."""


@dataclass(slots=True)
class Firing:
    """A call that is possible in a shape."""

    number: int
    ground: Ground
    effects: list[Effect] = field(default_factory=list)
    compute: Callable[[Mapping[int, Plane], Plane], list[Plane]] | None = None
    """Planes of `given` of each effect, then of all `literals` of each; made when first used."""


class Program:
    """One shape's calls, and one function that finds out which of them fire."""

    def __init__(self, universe: Universe, shape: Shape) -> None:
        self.universe = universe
        self.shape = shape
        self.bits = Bits()
        self.firings = [Firing(universe.numbers[Call(g.action.name, g.args)], g) for g in self._grounds()]
        self.bad = [(literal, prop, values) for prop, values, literal in self._failures()]
        bits = self.bits
        self.outputs = [f.ground.fires for f in self.firings] + [f.ground.refused for f in self.firings]
        self.outputs.append(bits.any(literal for literal, _, _ in self.bad))
        self.outputs.append(bits.any(literal for f in self.firings for literal, _ in f.ground.broken))
        self.outputs.append(FALSE if universe.witness is None else self._run().read(universe.witness, {}))

    @cached_property
    def decide(self) -> Callable[[Mapping[int, Plane], Plane], list[Plane]]:
        """Planes -> [fires of each call…, refused of each call…, lacks a property, breaks a rule, is a witness]."""
        return self.bits.function("decide", self.outputs)

    @cached_property
    def needed(self) -> list[list[int]]:
        """For each word, the bits that any expression of this shape speaks of."""
        found: list[list[int]] = [[] for _ in range(self.universe.layout.width)]
        for node in range(1, len(self.bits.left)):
            if self.bits.left[node] < 0:
                bit = self.bits.right[node]
                found[bit // WORD].append(bit % WORD)
        return [sorted(bits) for bits in found]

    def effects(self, firing: Firing) -> list[Effect]:
        """What a call does here; compiled when first asked for."""
        if not firing.effects:
            firing.effects = [self._effect(branch) for branch in firing.ground.branches]
            outputs = [e.given for e in firing.effects] + [x for e in firing.effects for x in e.literals]
            if len(firing.effects) > 1 or len(outputs) > 1:
                firing.compute = self.bits.function("effect", outputs)
        return firing.effects

    def broken(self) -> Iterator[tuple[int, Broken, Ground]]:
        """Every (expression, rule, call) that must never be true."""
        for firing in self.firings:
            for literal, broken in firing.ground.broken:
                yield literal, broken, firing.ground

    def _run(self) -> Run:
        return Run(self.bits, self.universe.layout, self.shape, {})

    def _grounds(self) -> Iterator[Ground]:
        universe, run = self.universe, self._run()
        idle = [run.read(busy(_HOLDER), {"h": h}) ^ 1 for h in range(universe.holders)]
        if universe.symmetry:
            idle = [self.bits.all((now, *(x ^ 1 for x in idle[:h]))) for h, now in enumerate(idle)]
        for action in universe.system.actions.values():
            for args in product(*(self._domain(q) for q in action.parameters)):
                fits = self.bits.all(
                    idle[v] if q.kind == "idle" else idle[v] ^ 1 if q.kind == "busy" else TRUE
                    for q, v in zip(action.parameters, args, strict=True)
                )
                found = ground(self.bits, universe.layout, self.shape, action, args, fits)
                if found is not None:
                    yield found

    def _domain(self, parameter: Parameter) -> list[int]:
        shape = self.shape
        match parameter.kind:
            case "live":
                return [n for n in shape.nodes if shape.is_live(n)]
            case "inner":
                return [n for n in shape.nodes if n and shape.is_live(n)]
            case "fresh":
                dead = [n for n in shape.nodes if not shape.is_live(n)]
                return dead[:1] if self.universe.symmetry else dead
            case _ if parameter.var.sort == HOLDER:
                return list(range(self.universe.holders))
            case _:
                return list(shape.nodes)

    def _failures(self) -> Iterator[tuple[Property, dict[str, int], int]]:
        run = self._run()
        for prop in self.universe.system.properties:
            domains = [
                range(self.universe.holders) if v.sort == HOLDER else range(self.universe.nodes + 1)
                for v in prop.variables
            ]
            for values in product(*domains):
                scope = {v.name: value for v, value in zip(prop.variables, values, strict=True)}
                literal = run.read(prop.formula, scope) ^ 1
                if literal != FALSE:
                    yield prop, scope, literal

    def _effect(self, branch: Branch) -> Effect:
        layout, bits = self.universe.layout, self.bits
        effect = Effect(branch.shape, branch.given, {}, {}, {}, [], [], [], tuple(branch.shape.nodes))
        moves: dict[int, dict[tuple[int, int], int]] = {}
        for bit, literal in sorted(branch.changed.items()):
            word, place = divmod(bit, WORD)
            if literal == bits.var(bit):
                continue
            effect.keep[word] = effect.keep.get(word, -1) & ~(1 << place)
            if literal == TRUE:
                effect.always[word] = effect.always.get(word, 0) | 1 << place
            elif (source := bits.bit_of(literal)) is not None and not literal & 1:
                other, there = divmod(source, WORD)
                by_source = moves.setdefault(word, {})
                by_source[other, place - there] = by_source.get((other, place - there), 0) | 1 << there
            elif literal != FALSE:
                effect.sometimes.append((word, place))
                effect.literals.append(literal)
        effect.moves = {w: [(s, by, signed(m)) for (s, by), m in parts.items()] for w, parts in moves.items()}
        effect.keep = {w: signed(m) for w, m in effect.keep.items()}
        effect.always = {w: signed(m) for w, m in effect.always.items()}
        effect.order = list(range(layout.width))
        if self.universe.symmetry:
            effect.shape, effect.names = canonical(branch.shape)
            for node, name in enumerate(effect.names):
                for source, target in zip(layout.block(node), layout.block(name), strict=True):
                    effect.order[target] = source
        return effect


_HOLDER = Var("h", HOLDER)
