"""Where each boolean of a state lives: ground atoms packed into 64-bit words, so that renaming is moving words and
fields.

A universe has nodes `0..nodes` (0 is the root) and holders `0..holders-1`. The words of a state are blocks: first
what belongs to the root and to no node, then one block for each further node, all of the same make. In a word first
come the bits that no holder takes part in, then one field for each holder, all of the same width. Renaming nodes
permutes blocks; renaming holders permutes fields.

The tree itself (`live`, who is above whom) is not in the words: states are grouped by it, see `shape.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..model.algebra import HOLDER, NODE, Action, Assign, Inherit, Relation

WORD = 64
STRUCTURE = "live"
"""The one relation that belongs to the shape."""

Atom = tuple[str, tuple[int, ...]]
"""A relation's name and the numbers of its arguments."""


@dataclass(frozen=True, slots=True)
class Word:
    """How one word is divided: bits `0..plain-1`, then `holders` fields of `width` bits."""

    plain: int
    width: int

    def field(self, holder: int) -> int:
        """The first bit of a holder's field."""
        return self.plain + holder * self.width


class Layout:
    """The places of all ground atoms that can ever be true.

    Attributes:
        root_words: the number of words of the first block; they also hold what belongs to no node.
        node_words: the number of words of each further node's block.
        initial: the words of the initial state: the root alone.
    """

    def __init__(
        self,
        relations: Sequence[Relation],
        actions: Iterable[Action],
        nodes: int,
        holders: int,
        at_root: frozenset[str],
    ) -> None:
        self.nodes = nodes
        self.holders = holders
        changing = _ever_true(actions) | at_root
        kept = [r for r in relations if r.name in changing and r.name != STRUCTURE]
        self.sorts = {r.name: r.sorts for r in relations}
        self.words: list[Word] = []
        self.place: dict[Atom, int] = {}
        """Bit number (64 times the word, plus the bit in the word) of each atom; others are false for ever."""
        self.atoms: dict[int, Atom] = {}
        self._block(0, kept, root=True)
        self.root_words = len(self.words)
        for node in range(1, nodes + 1):
            self._block(node, kept, root=False)
        self.node_words = (len(self.words) - self.root_words) // nodes if nodes else 0
        self.initial = [0] * len(self.words)
        for name in at_root - {STRUCTURE}:
            if (name, (0,)) in self.place:
                bit = self.place[name, (0,)]
                self.initial[bit // WORD] |= 1 << bit % WORD

    @property
    def width(self) -> int:
        """Words a state."""
        return len(self.words)

    @property
    def bits(self) -> int:
        """Bits that mean something."""
        return len(self.place)

    def block(self, node: int) -> range:
        """The words of a node's block."""
        if node == 0:
            return range(self.root_words)
        first = self.root_words + (node - 1) * self.node_words
        return range(first, first + self.node_words)

    def _block(self, node: int, kept: Sequence[Relation], *, root: bool) -> None:
        plain: list[Atom] = [(r.name, (node,)) for r in kept if r.sorts == (NODE,)]
        fields: list[tuple[str, bool]] = [(r.name, True) for r in kept if r.sorts == (NODE, HOLDER)]
        if root:
            plain += [(r.name, ()) for r in kept if r.sorts == ()]
            fields += [(r.name, False) for r in kept if r.sorts == (HOLDER,)]
        while plain or (fields and self.holders):
            now, plain = plain[:WORD], plain[WORD:]
            fit = (WORD - len(now)) // self.holders if self.holders else 0
            here, fields = fields[:fit], fields[fit:]
            word = Word(len(now), len(here))
            first = WORD * len(self.words)
            for i, atom in enumerate(now):
                self._put(atom, first + i)
            for holder in range(self.holders):
                for i, (name, of_node) in enumerate(here):
                    self._put((name, (node, holder) if of_node else (holder,)), first + word.field(holder) + i)
            self.words.append(word)

    def _put(self, atom: Atom, bit: int) -> None:
        self.place[atom] = bit
        self.atoms[bit] = atom


def _ever_true(actions: Iterable[Action]) -> frozenset[str]:
    found = set()
    for action in actions:
        for step in action.steps:
            if isinstance(step, Assign) and step.value:
                found.add(step.relation.name)
    for action in actions:
        for step in action.steps:
            if isinstance(step, Inherit) and step.relation.name in found:
                found.add(step.relation.name)
    return frozenset(found)
