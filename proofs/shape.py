"""The tree of a state: which nodes are in it and who is above whom. States are grouped by it, so that in a group it
is constant.

A shape is general (nothing says that it is a tree: a faulty protocol may leave orphans), and changes just as the
symbolic interpreter says. With symmetry, the shapes that differ in node names only have one representative.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import permutations


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """`live` is the set of nodes in the tree, `up[n]` the set of nodes above `n` and `n` itself, both as bit masks."""

    live: int
    up: tuple[int, ...]

    @property
    def nodes(self) -> range:
        """All node names of the universe, the root first."""
        return range(len(self.up))

    def is_live(self, node: int) -> bool:
        """The node is in the tree."""
        return bool(self.live >> node & 1)

    def above(self, upper: int, lower: int) -> bool:
        """`upper` is `lower` or one of its ancestors."""
        return bool(self.up[lower] >> upper & 1)

    def with_live(self, node: int, value: bool) -> Shape:
        """The same, but for one node's being in the tree."""
        mask = 1 << node
        return Shape(self.live | mask if value else self.live & ~mask, self.up)

    def grown(self, leaf: int, parent: int) -> Shape:
        """`leaf` becomes a child of `parent`."""
        mask = 1 << leaf
        up = [u & ~mask for u in self.up]
        up[leaf] = mask | self.up[parent]
        return Shape(self.live, tuple(up))

    def cut(self, node: int, prefix: int) -> Shape:
        """`prefix` comes to lie between `node` and its parent."""
        mask = 1 << prefix
        up = [(u & ~mask) | (mask if u >> node & 1 else 0) for u in self.up]
        up[prefix] = mask | (self.up[node] & ~(1 << node))
        return Shape(self.live, tuple(up))

    def pruned(self, gone: int) -> Shape:
        """The nodes of the mask `gone` lose all relatives."""
        up = [1 << n if gone >> n & 1 else u & (~gone | 1 << n) for n, u in enumerate(self.up)]
        return Shape(self.live, tuple(up))

    def renamed(self, names: tuple[int, ...]) -> Shape:
        """Node `n` is called `names[n]`."""
        up = [0] * len(self.up)
        for node, mask in enumerate(self.up):
            up[names[node]] = _renamed(mask, names)
        return Shape(_renamed(self.live, names), tuple(up))

    def parent(self, node: int) -> int | None:
        """The nearest strict ancestor, None where there is none or it is not unique."""
        above = self.up[node] & ~(1 << node)
        nearest = [m for m in self.nodes if above >> m & 1 and self.up[m] == above]
        return nearest[0] if len(nearest) == 1 else None

    def children(self, node: int) -> list[int]:
        """The nodes whose parent it is."""
        return [m for m in self.nodes if m != node and self.parent(m) == node]

    def is_tree(self) -> bool:
        """Every live node but the root has a parent, and nothing else has relatives."""
        return all(
            self.parent(n) is not None if self.is_live(n) else self.up[n] == 1 << n for n in self.nodes if n
        ) and self.is_live(0)


def root_only(nodes: int) -> Shape:
    """The initial tree in a universe of `nodes` nodes besides the root."""
    return Shape(1, tuple(1 << n for n in range(nodes + 1)))


def _renamed(mask: int, names: tuple[int, ...]) -> int:
    found = 0
    for node, name in enumerate(names):
        if mask >> node & 1:
            found |= 1 << name
    return found


def namings(nodes: int) -> Iterator[tuple[int, ...]]:
    """Every renaming of the nodes, the root being always 0."""
    for rest in permutations(range(1, nodes + 1)):
        yield (0, *rest)


@cache
def canonical(shape: Shape) -> tuple[Shape, tuple[int, ...]]:
    """The representative of all shapes that differ in names only, and the renaming that leads there.

    In a tree it numbers the nodes depth first, siblings with equal subtrees next to each other, dead nodes last.
    """
    if not shape.is_tree():
        return min((shape.renamed(names), names) for names in namings(len(shape.up) - 1))
    order = list(_preorder(shape, 0))
    order += [n for n in shape.nodes if not shape.is_live(n)]
    names = [0] * len(order)
    for place, node in enumerate(order):
        names[node] = place
    return shape.renamed(tuple(names)), tuple(names)


def _preorder(shape: Shape, node: int) -> Iterator[int]:
    yield node
    for child in sorted(shape.children(node), key=lambda c: subtree_form(shape, c)):
        yield from _preorder(shape, child)


Form = tuple["Form", ...]


@cache
def subtree_form(shape: Shape, node: int) -> Form:
    """The subtree without its names: equal forms are the same subtrees."""
    return tuple(sorted(subtree_form(shape, c) for c in shape.children(node)))
