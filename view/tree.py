"""A tree as plain data, for whoever shows one.

A *tree* here is plain data: `{node: {field: value}}`, where a field that has its default value is left out. Fields:

| field | value |
|---|---|
| parent | node id; a node without one is not in the tree (the root, 0, has none and is always there) |
| full, swa, mamba | where its slots are: `D`/`d` device, bytes there or not yet, `H`/`h` the same on the host |
| lock.C, host_lock.C | how many hold it, for component C |
| pin, mark | the operation of `load_back_pending_id`, `write_through_pending_id` |
| duplicate, stored | 1 |
"""

from __future__ import annotations

from collections.abc import Mapping

from ..conformance.events import NodeState
from ..model.state import ROOT_NODE

Value = str | int
Flat = dict[str, Value]
Tree = dict[int, Flat]
Change = dict[str, tuple[Value | None, Value | None]]
"""Field: value before, value after; None for the default."""

ROOT: Flat = {"full": "DH"}
"""What is always seen of the root."""


def flatten(seen: NodeState | None, parent: int | None) -> Flat:
    """What can be seen of a node as flat fields; nothing of a node that is not in the tree."""
    if seen is None:
        return {}
    flat: Flat = {} if parent is None else {"parent": parent}
    if seen.full is not None:
        flat["full"] = seen.full
    if seen.swa is not None:
        flat["swa"] = seen.swa
    if seen.mamba is not None:
        flat["mamba"] = seen.mamba
    for component, count in seen.lock_ref.items():
        flat[f"lock.{component}"] = count
    for component, count in seen.host_lock_ref.items():
        flat[f"host_lock.{component}"] = count
    if seen.load_back_pending_id is not None:
        flat["pin"] = seen.load_back_pending_id
    if seen.write_through_pending_id is not None:
        flat["mark"] = seen.write_through_pending_id
    if seen.duplicate:
        flat["duplicate"] = 1
    if seen.stored:
        flat["stored"] = 1
    return flat


def difference(before: Flat, after: Flat) -> Change:
    """The fields that differ."""
    if before == after:
        return {}
    found: Change = {n: (v, after.get(n)) for n, v in before.items() if after.get(n) != v}
    found.update((n, (None, v)) for n, v in after.items() if n not in before)
    return found


def apply(tree: Tree, changes: Mapping[int, Change]) -> None:
    """Do what changed to a tree; a node without a parent leaves it."""
    for node, change in changes.items():
        flat = tree.setdefault(node, {})
        for name, (_, value) in change.items():
            if value is None:
                flat.pop(name, None)
            else:
                flat[name] = value
        if node != ROOT_NODE and "parent" not in flat:
            del tree[node]
