"""A concrete state of any size: a tree, and for each relation the nodes and holders it relates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from .algebra import HOLDER, NODE, Relation
from .vocabulary import BY_BIRTH, Component, device, device_arrived, device_lock, host, host_arrived, host_lock

ROOT_NODE = 0
"""The root's node id."""

_AT_ROOT = {"live", "device.full", "host.full", "device_arrived.full", "host_arrived.full"}
_NOBODY: frozenset[int] = frozenset()


class Pairs:
    """A relation between nodes and holders, found from either side."""

    __slots__ = ("by_holder", "by_node")

    def __init__(self) -> None:
        self.by_node: dict[int, set[int]] = {}
        self.by_holder: dict[int, set[int]] = {}

    def holders(self, node: int) -> Set[int]:
        """Who stands in the relation to `node`."""
        return self.by_node.get(node, _NOBODY)

    def nodes(self, holder: int) -> Set[int]:
        """What `holder` stands in the relation to."""
        return self.by_holder.get(holder, _NOBODY)

    def has(self, node: int, holder: int) -> bool:
        """The two are related."""
        return holder in self.by_node.get(node, _NOBODY)

    def add(self, node: int, holder: int) -> None:
        """Relate the two; again does no harm."""
        for table, key, other in ((self.by_node, node, holder), (self.by_holder, holder, node)):
            members = table.get(key)
            if members is None:
                table[key] = {other}
            else:
                members.add(other)

    def discard(self, node: int, holder: int) -> None:
        """Unrelate the two, if they were related."""
        for table, key, other in ((self.by_node, node, holder), (self.by_holder, holder, node)):
            members = table.get(key)
            if members is not None:
                members.discard(other)
                if not members:
                    del table[key]

    def release(self, holder: int) -> Set[int]:
        """Unrelate the holder from all its nodes; returns them."""
        nodes = self.by_holder.pop(holder, None)
        if nodes is None:
            return _NOBODY
        for node in nodes:
            holders = self.by_node[node]
            holders.discard(holder)
            if not holders:
                del self.by_node[node]
        return nodes

    def copy(self, node: int, heir: int) -> None:
        """Whoever stands in the relation to `node` now does to `heir` too."""
        for holder in tuple(self.holders(node)):
            self.add(heir, holder)


class State:
    """A tree of integer node ids (the root is 0) and every relation of the vocabulary over it.

    A step costs what it walks: a path upwards, or downwards only as far as a relation reaches that is closed upwards.
    """

    def __init__(self, relations: Iterable[Relation]) -> None:
        self.relations = tuple(relations)
        self.parent: dict[int, int] = {}
        self.children: dict[int, set[int]] = {ROOT_NODE: set()}
        self.marks: dict[str, set[int]] = {}
        self.pairs: dict[str, Pairs] = {}
        for relation in self.relations:
            if relation.sorts == (NODE, HOLDER):
                self.pairs[relation.name] = Pairs()
            else:
                self.marks[relation.name] = {ROOT_NODE} if relation.name in _AT_ROOT else set()

    # Walks
    def path(self, node: int) -> Iterator[int]:
        """`node`, its parent, … the root."""
        yield node
        yield from self.above(node)

    def above(self, node: int) -> Iterator[int]:
        """The ancestors of `node`, nearest first."""
        while node in self.parent:
            node = self.parent[node]
            yield node

    def segment(self, node: int, top: int) -> Iterator[int]:
        """`node` up to `top`, both included; nothing if `top` is not above it."""
        found = []
        for member in self.path(node):
            found.append(member)
            if member == top:
                yield from found
                return

    def below(self, node: int, within: Set[int] | None = None) -> Iterator[int]:
        """Everything below `node`; with `within`, a set closed upwards, only what is in it."""
        stack = list(self.children.get(node, ()))
        while stack:
            member = stack.pop()
            if within is None or member in within:
                yield member
                stack.extend(self.children.get(member, ()))

    def subtree(self, node: int, within: Set[int] | None = None) -> Iterator[int]:
        """`node` and everything below it."""
        if within is None or node in within:
            yield node
            yield from self.below(node, within)

    def is_above(self, upper: int, lower: int) -> bool:
        """`upper` is `lower` or one of its ancestors."""
        return any(member == upper for member in self.path(lower))

    # Changes of the tree
    def grow(self, leaf: int, parent: int) -> None:
        """A new leaf."""
        self.parent[leaf] = parent
        self.children.setdefault(parent, set()).add(leaf)
        self.children[leaf] = set()

    def cut(self, node: int, prefix: int) -> None:
        """`prefix` between `node` and its parent."""
        parent = self.parent[node]
        self.children[parent].discard(node)
        self.grow(prefix, parent)
        self.parent[node] = prefix
        self.children[prefix].add(node)

    def prune(self, nodes: Iterable[int]) -> None:
        """These nodes are gone, with whatever the tree knew of them."""
        for node in nodes:
            for child in self.children.pop(node, set()):
                self.parent.pop(child, None)
            parent = self.parent.pop(node, None)
            if parent in self.children:
                self.children[parent].discard(node)

    # Looking
    def holds(self, name: str, *args: int) -> bool:
        """A relation, by name, of these arguments."""
        return self.pairs[name].has(*args) if name in self.pairs else args[0] in self.marks[name]

    def nodes(self) -> list[int]:
        """Every node that is in the tree, or that some relation still speaks of, in order."""
        seen = {ROOT_NODE, *self.parent}
        for relation in self.relations:
            if relation.sorts == (NODE, HOLDER):
                seen.update(self.pairs[relation.name].by_node)
            elif relation.sorts == (NODE,) and relation not in BY_BIRTH:
                seen |= self.marks[relation.name]
        return sorted(seen)

    def holders(self) -> list[int]:
        """Every holder that some relation speaks of, in order."""
        seen: set[int] = set()
        for relation in self.relations:
            if relation.sorts == (NODE, HOLDER):
                seen.update(self.pairs[relation.name].by_holder)
            elif relation.sorts == (HOLDER,) and relation not in BY_BIRTH:
                seen |= self.marks[relation.name]
        return sorted(seen)


Projection = dict[str, object]
"""What can be seen of one node, as events carry it: see `project`."""


def project(state: State, node: int, components: tuple[Component, ...]) -> Projection | None:
    """What an observer sees of a node; None if it is not in the tree.

    Per component the tiers it is on: `D`/`d` device, its bytes arrived or not; `H`/`h` the same on the host. Then the
    counts `lock_ref` and `host_lock_ref`, the ids that pin and mark it, `duplicate` and `stored`; whatever is empty
    is left out.
    """
    marks, pairs = state.marks, state.pairs
    if node not in marks["live"]:
        return None
    seen: Projection = {}
    lock_ref: dict[str, int] = {}
    host_lock_ref: dict[str, int] = {}
    for c in components:
        tiers = ""
        if node in marks[device[c].name]:
            tiers = "D" if node in marks[device_arrived[c].name] else "d"
        if node in marks[host[c].name]:
            tiers += "H" if node in marks[host_arrived[c].name] else "h"
        if tiers:
            seen[c] = tiers
        locks, host_locks = len(pairs[device_lock[c].name].holders(node)), len(pairs[host_lock[c].name].holders(node))
        if locks:
            lock_ref[c] = locks
        if host_locks:
            host_lock_ref[c] = host_locks
    if lock_ref:
        seen["lock_ref"] = lock_ref
    if host_lock_ref:
        seen["host_lock_ref"] = host_lock_ref
    for name in ("load_back_pending", "write_through_pending"):
        ids = pairs[name].holders(node)
        if ids:
            seen[f"{name}_id"] = min(ids)
    if node in marks["tracked_duplicate"]:
        seen["duplicate"] = True
    if node in marks["stored"]:
        seen["stored"] = True
    return seen
