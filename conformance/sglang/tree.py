"""The controller's picture of the tree: our node names, slots and states (runs inside the environment).

The core names nodes in its own way, differently in each core. Here a node has an id of ours that is never reused, the
tokens it spans, and the slots of each component on each tier. The picture changes only by what was observed in the
core (`eyes.py`), so its states can be shown as the observed ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Slots = list[int]

MASK = (1 << 62) - 1


def content(previous: int, token: int) -> int:
    """What the bytes of a token's slot say, given those of the token before it (0 at the start)."""
    return (previous * 1_000_003 + token * 97 + 12_345) & MASK | 1


class Node:
    """A node of the tree.

    `handle` is the core's name for it, `key` what the observation names it by. `device` and `host` map a component to
    its slots there. `lock` and `host_lock` are the observed counts by component (no entry: zero or not observable).
    `pin` and `pending` are holder ids of ours. `shown` is the state that an event showed last.
    """

    __slots__ = (
        "children",
        "codes",
        "device",
        "handle",
        "host",
        "host_lock",
        "id",
        "key",
        "lock",
        "parent",
        "pending",
        "pin",
        "shown",
        "start",
        "stored",
        "tokens",
        "tracked",
    )  # fmt: skip

    def __init__(self, number: int, handle: Any, key: Any, parent: Node | None, tokens: tuple[int, ...]) -> None:
        self.id, self.handle, self.key, self.parent, self.tokens = number, handle, key, parent, tokens
        self.start = parent.end if parent else 0
        self.children: dict[Any, Node] = {}
        self.device: dict[str, Slots] = {}
        self.host: dict[str, Slots] = {}
        self.lock: dict[str, int] = {}
        self.host_lock: dict[str, int] = {}
        self.pin: int | None = None
        self.pending: int | None = None
        self.tracked = False
        self.stored = False
        self.shown: dict[str, Any] | None = None
        self.codes: list[int] = []
        """What the bytes of each token of the node must say."""
        if parent is not None:
            code = parent.codes[-1] if parent.codes else 0
            for token in tokens:
                code = content(code, token)
                self.codes.append(code)

    @property
    def end(self) -> int:
        """Tokens from the root to the end of the node."""
        return self.start + len(self.tokens)

    def path(self) -> Iterator[Node]:
        """The node and its ancestors, the root excluded."""
        node: Node | None = self
        while node is not None and node.parent is not None:
            yield node
            node = node.parent

    def prefix(self) -> tuple[int, ...]:
        """All tokens from the root to the end of the node."""
        return tuple(token for node in reversed(list(self.path())) for token in node.tokens)

    def expected(self, component: str) -> list[int]:
        """What the bytes of the component's slots must say, slot by slot."""
        if component == "mamba":
            return [content(self.codes[-1], -7)]
        if component == "swa":
            return [code ^ 2 for code in self.codes]
        return self.codes

    def window(self, size: int) -> Iterator[Node]:
        """The node and its ancestors up to the one where `size` tokens are covered."""
        covered = 0
        for node in self.path():
            yield node
            covered += len(node.tokens)
            if covered >= size:
                return


class Tree:
    """All nodes, by id, by the core's handle and by what the observation names them by."""

    def __init__(self, handle: Any, key: Any) -> None:
        self.root = Node(0, handle, key, None, ())
        self.nodes: dict[int, Node] = {0: self.root}
        self.handles: dict[Any, Node] = {handle: self.root}
        self.keys: dict[Any, Node] = {key: self.root}
        self._next = 1

    def add(self, key: Any, parent: Node, tokens: tuple[int, ...]) -> Node:
        """A new leaf below `parent`."""
        node = Node(self._next, None, key, parent, tokens)
        self._next += 1
        self.nodes[node.id] = self.keys[key] = node
        parent.children[key] = node
        return node

    def split(self, key: Any, child: Node, length: int) -> Node:
        """A new node that takes the first `length` tokens of `child`, with what a split copies."""
        parent = child.parent
        assert parent is not None
        del parent.children[child.key]
        upper = self.add(key, parent, child.tokens[:length])
        upper.children[child.key] = child
        child.parent, child.tokens, child.start = upper, child.tokens[length:], upper.end
        child.codes = child.codes[length:]
        for tier in ("device", "host"):
            kept, given = getattr(child, tier), getattr(upper, tier)
            for component in ("full", "swa"):
                if component in kept:
                    given[component], kept[component] = kept[component][:length], kept[component][length:]
        upper.stored = child.stored
        return upper

    def name(self, node: Node, handle: Any) -> None:
        """Learn the core's handle of `node`."""
        node.handle = handle
        self.handles[handle] = node

    def remove(self, node: Node) -> None:
        """Forget a leaf."""
        assert node.parent is not None
        node.parent.children.pop(node.key, None)
        self.keys.pop(node.key, None)
        self.nodes.pop(node.id, None)
        if node.handle is not None:
            self.handles.pop(node.handle, None)
