"""One representative for all states that differ in names only.

The shape is canonical already (`shape.canonical`), which leaves two freedoms: siblings whose subtrees look alike,
and the holders. Like siblings are put in the order of their words, from the leaves upwards, which settles the nodes
for a given naming of the holders; of all namings of the holders the one with the smallest words wins. Dead nodes
are blank and need no order (a state in which they are not violates `accounting.dead-nodes-own-no-slots`; it would
only be found under more than one name).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from math import factorial

from .arrays import Array, Arrays, signed
from .layout import Layout
from .shape import Shape, namings, subtree_form

Columns = list[Array]
"""One array a word."""


class Canon:
    """Renames a batch of states of one canonical shape to their representatives."""

    def __init__(self, layout: Layout, shape: Shape) -> None:
        self.layout = layout
        self.exchanges = [
            ([w for n in left for w in layout.block(n)], [w for n in right for w in layout.block(n)])
            for left, right in (like_siblings(shape) if shape.is_tree() else ())
        ]
        self.renamings = list(permutations(range(layout.holders)))[1:]

    @property
    def trivial(self) -> bool:
        """There is nothing to choose."""
        return not self.exchanges and not self.renamings

    def __call__(self, xp: Arrays, columns: Columns) -> Columns:
        """The representatives of the states in `columns`."""
        best = self._siblings(xp, columns)
        for names in self.renamings:
            other = self._siblings(xp, [rename_holders(self.layout, w, c, names) for w, c in enumerate(columns)])
            smaller = less(other, best)
            best = [xp.where(smaller, a, b) for a, b in zip(other, best, strict=True)]
        return best

    def _siblings(self, xp: Arrays, columns: Columns) -> Columns:
        if not self.exchanges:
            return columns
        found = list(columns)
        for left, right in self.exchanges:
            if len(left) == 1:
                a, b = found[left[0]], found[right[0]]
                found[left[0]], found[right[0]] = xp.minimum(a, b), xp.maximum(a, b)
                continue
            swap = less([found[w] for w in right], [found[w] for w in left])
            for i, j in zip(left, right, strict=True):
                a, b = found[i], found[j]
                found[i], found[j] = xp.where(swap, b, a), xp.where(swap, a, b)
        return found


def less(a: Columns, b: Columns) -> Array:
    """Where `a` comes before `b`, word by word."""
    found = a[-1] < b[-1]
    for x, y in zip(reversed(a[:-1]), reversed(b[:-1]), strict=True):
        found = (x < y) | ((x == y) & found)
    return found


def rename_holders(layout: Layout, word: int, column: Array, names: tuple[int, ...]) -> Array:
    """One word of a batch after holder `h` has been renamed `names[h]`."""
    made = layout.words[word]
    if not made.width:
        return column
    mask = (1 << made.width) - 1
    moved = [h for h in range(layout.holders) if names[h] != h]
    kept = ~sum(mask << made.field(h) for h in moved)
    found = column & signed(kept)
    for h in moved:
        found |= ((column >> made.field(h)) & mask) << made.field(names[h])
    return found


def rename_nodes(layout: Layout, columns: Columns, names: tuple[int, ...]) -> Columns:
    """The words of a batch after node `n` has been renamed `names[n]`."""
    found = list(columns)
    for node, name in enumerate(names):
        for source, target in zip(layout.block(node), layout.block(name), strict=True):
            found[target] = columns[source]
    return found


def like_siblings(shape: Shape) -> Iterator[tuple[list[int], list[int]]]:
    """Pairs of node lists to compare and exchange, in this order, so that like siblings end up sorted; for a tree."""
    yield from _below(shape, 0)


def _below(shape: Shape, node: int) -> Iterator[tuple[list[int], list[int]]]:
    children = shape.children(node)
    for child in children:
        yield from _below(shape, child)
    by_form: dict[object, list[list[int]]] = {}
    for child in children:
        by_form.setdefault(subtree_form(shape, child), []).append(preorder(shape, child))
    for alike in by_form.values():
        for end in range(len(alike) - 1, 0, -1):
            for i in range(end):
                yield alike[i], alike[i + 1]


def preorder(shape: Shape, node: int) -> list[int]:
    """The nodes of a subtree, parents first, siblings in the order of their names."""
    return [node, *(n for child in shape.children(node) for n in preorder(shape, child))]


def orbit_sizes(xp: Arrays, layout: Layout, shape: Shape, columns: Columns) -> Array:
    """How many differently named states each state stands for: the order of the group by that of the state's
    stabiliser.
    """
    fixed = xp.zeros(int(columns[0].shape[0]))
    for nodes in namings(layout.nodes):
        if shape.renamed(nodes) != shape:
            continue
        renamed = rename_nodes(layout, columns, nodes)
        for holders in permutations(range(layout.holders)):
            equal = None
            for w, column in enumerate(renamed):
                same = rename_holders(layout, w, column, holders) == columns[w]
                equal = same if equal is None else equal & same
            fixed = xp.where(equal, fixed + 1, fixed)
    return factorial(layout.nodes) * factorial(layout.holders) // fixed
