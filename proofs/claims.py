"""What the pure functions of the model promise, as functions that CrossHair tries to make return False.

Each takes plain data, builds what it needs from it, and returns whether the promise is kept. `parents` is a tree: the
parent of node i + 1 is `parents[i]`.
"""

from __future__ import annotations

from itertools import pairwise

from ..model.algebra import FALSE, TRUE, And, Formula, all_of, conjuncts
from ..model.state import Pairs, State


def is_tree(parents: list[int], size: int) -> bool:
    """Every parent comes before its child, and there are at most `size` of them."""
    return len(parents) <= size and all(0 <= parent <= child for child, parent in enumerate(parents))


def tree(parents: list[int]) -> State:
    """A state without relations, of that shape."""
    state = State(())
    for child, parent in enumerate(parents, 1):
        state.grow(child, parent)
    return state


def a_path_ends_at_the_root(parents: list[int], node: int) -> bool:
    """A path starts at its node, ends at the root, and goes from child to parent.

    pre: is_tree(parents, 3) and 0 <= node <= len(parents)
    post: _
    """
    path = list(tree(parents).path(node))
    steps = pairwise(path)
    return path[0] == node and path[-1] == 0 and all(parents[lower - 1] == upper for lower, upper in steps)


def above_and_below_are_converse(parents: list[int], node: int, other: int) -> bool:
    """`other` is below `node` exactly if `node` is above `other`.

    pre: is_tree(parents, 3) and 0 <= node <= len(parents) and 0 <= other <= len(parents)
    post: _
    """
    state = tree(parents)
    below = other in set(state.below(node))
    return below == (node in set(state.above(other))) and state.is_above(node, other) == (below or node == other)


def a_segment_is_the_lower_part_of_a_path(parents: list[int], node: int, top: int) -> bool:
    """A segment is the path cut off after its top, and empty if the top is not on the path.

    pre: is_tree(parents, 3) and 0 <= node <= len(parents) and 0 <= top <= len(parents)
    post: _
    """
    state = tree(parents)
    path, segment = list(state.path(node)), list(state.segment(node, top))
    return segment == (path[: path.index(top) + 1] if top in path else [])


def a_split_adds_one_step(parents: list[int], node: int) -> bool:
    """A split puts the prefix on every path that goes through the node, right above it, and on no other.

    pre: is_tree(parents, 3) and 1 <= node <= len(parents)
    post: _
    """
    state, prefix = tree(parents), len(parents) + 1
    paths = [list(state.path(n)) for n in range(prefix)]
    state.cut(node, prefix)
    grown = [[m for n in path for m in ((n, prefix) if n == node else (n,))] for path in paths]
    return [list(state.path(n)) for n in range(prefix)] == grown


def pruning_a_subtree_leaves_the_rest(parents: list[int], node: int) -> bool:
    """Without a subtree, every other node keeps its path.

    pre: is_tree(parents, 3) and 1 <= node <= len(parents)
    post: _
    """
    state = tree(parents)
    gone = set(state.subtree(node))
    kept = {n: list(state.path(n)) for n in range(len(parents) + 1) if n not in gone}
    state.prune(gone)
    return all(list(state.path(n)) == path for n, path in kept.items()) and not gone & set(state.nodes())


def pairs_are_what_was_added_last(rows: list[tuple[int, int, bool]], node: int, holder: int) -> bool:
    """A pair is related exactly if the last word about it was to relate it, and both sides see the same.

    pre: len(rows) <= 3
    post: _
    """
    pairs, expected = Pairs(), False
    for one, other, add in rows:
        (pairs.add if add else pairs.discard)(one, other)
        if (one, other) == (node, holder):
            expected = add
    sides = (pairs.has(node, holder), holder in pairs.holders(node), node in pairs.nodes(holder))
    return sides == (expected, expected, expected)


def an_heir_has_what_the_node_has(holders: list[int], node: int, heir: int) -> bool:
    """After a copy, the heir has every holder of the node, and the node has kept its own.

    pre: len(holders) <= 3 and node != heir
    post: _
    """
    pairs = Pairs()
    for holder in holders:
        pairs.add(node, holder)
    pairs.copy(node, heir)
    return set(pairs.holders(heir)) == set(pairs.holders(node)) == set(holders)


def conjuncts_are_what_was_joined(which: list[bool]) -> bool:
    """Taking a conjunction apart gives back its parts, however they were joined; TRUE has none.

    pre: len(which) <= 4
    post: _
    """
    parts: list[Formula] = [FALSE if bit else TRUE for bit in which]
    joined: Formula = TRUE
    for part in parts:
        joined = joined & part
    nested = And((all_of(*parts), TRUE))
    wanted = [p for p in parts if p != TRUE]
    return list(conjuncts(joined)) == list(conjuncts(nested)) == wanted
