"""What the state of the cache consists of: components, tiers, and who holds what.

State is *relations*, not counters. `lock_ref` of a node is the number of holders in `device_lock`, `host_lock_ref` the
number in `host_lock`; a counter alone cannot say whose lock was given back (SGLang #24972, #36350).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from .algebra import FALSE, HOLDER, NODE, ROOT, Formula, Relation, Var, any_of, same, someone

Component = Literal["full", "swa", "mamba"]
FULL: Component = "full"
SWA: Component = "swa"
MAMBA: Component = "mamba"
COMPONENTS: tuple[Component, ...] = (FULL, SWA, MAMBA)
"""full: KV of every token · swa: KV of a sliding window · mamba: the recurrent state at the end of a node."""

COMPONENT_SETS: tuple[tuple[Component, ...], ...] = ((FULL,), (FULL, SWA), (FULL, MAMBA), (FULL, SWA, MAMBA))

Policy = Literal["write_back", "write_through", "write_through_selective"]
POLICIES: tuple[Policy, ...] = ("write_back", "write_through", "write_through_selective")
WRITE_BACK: Policy = "write_back"
WRITE_THROUGH: Policy = "write_through"
SELECTIVE: Policy = "write_through_selective"


def ownership_policy(policy: Policy) -> Policy:
    """The policy whose ownership rules `policy` follows: selective differs from write_through only in *when* it backs
    up.
    """
    return WRITE_THROUGH if policy == SELECTIVE else policy


PerComponent = Mapping[Component, Relation]


def _each(name: str, words: str, *sorts: str, closed: tuple[Component, ...] = ()) -> PerComponent:
    kinds = tuple(NODE if s == "node" else HOLDER for s in sorts)
    return {c: Relation(f"{name}.{c}", kinds, words.format(c=c), c in closed) for c in COMPONENTS}


def _node(name: str, words: str, *, closed: bool = False) -> Relation:
    return Relation(name, (NODE,), words, closed)


def _held(name: str, words: str) -> Relation:
    return Relation(name, (NODE, HOLDER), words)


def _holder(name: str, words: str) -> Relation:
    return Relation(name, (HOLDER,), words)


# The tree and the copies its nodes own ------------------------------------------------------------------------------
live = _node("live", "is in the tree", closed=True)
device = _each("device", "has {c} slots on the device", "node", closed=(FULL,))
host = _each("host", "has {c} slots on the host", "node")
device_arrived = _each("device_arrived", "has its {c} bytes on the device", "node")
host_arrived = _each("host_arrived", "has its {c} bytes on the host", "node")
stored = _node("stored", "is in the storage tier")
tracked_duplicate = _node("tracked_duplicate", "is tracked in full_host_duplicates")

# Who holds what -----------------------------------------------------------------------------------------------------
device_lock = _each("device_lock", "{c} device slots are locked by", "node", "holder")
host_lock = _each("host_lock", "{c} host slots are locked by", "node", "holder")
load_back_pending = _held("load_back_pending", "is pinned by load-back")
write_through_pending = _held("write_through_pending", "is marked by write-through")
anchor = _held("anchor", "is the anchor of")

# What is being copied -----------------------------------------------------------------------------------------------
reads = _each("reads", "{c} host slots are copied to its device slots by load-back", "node", "holder")
writes = _each("writes", "{c} device slots are copied to its host slots by backup", "node", "holder")
storage_reads = _held("storage_reads", "full host slots are copied to storage by")
filling = _holder("filling", "has a storage read under way into the host slots it reserved")
reserved = _holder("reserved", "owns host slots that are not in the tree yet")

# What a holder is doing ---------------------------------------------------------------------------------------------
request = _holder("request", "is a request")
backup = _holder("backup", "is a backup in flight")
loading = _holder("loading", "is a load-back that has been begun")
load_back = _holder("load_back", "is a load-back in flight")
prefetch = _holder("prefetch", "is a prefetch")
storing = _holder("storing", "is a storage backup in flight")
PHASES: tuple[Relation, ...] = (request, backup, loading, load_back, prefetch, storing)

# Namespaces ---------------------------------------------------------------------------------------------------------
watched = _node("watched", "is of the watched namespace")
watched_by = _holder("watched_by", "works for the watched namespace")
"""One namespace is watched, any one: what keeps it apart from all others keeps any two apart. Nodes and operations are
of their namespace by birth: no action changes these two.
"""
BY_BIRTH: tuple[Relation, ...] = (watched, watched_by)

_SHARED: tuple[Relation, ...] = (
    live, stored, tracked_duplicate, load_back_pending, write_through_pending, anchor, storage_reads, filling,
    reserved, *BY_BIRTH, *PHASES,
)  # fmt: skip
_PER_COMPONENT = (device, host, device_arrived, host_arrived, device_lock, host_lock, reads, writes)


def relations(components: tuple[Component, ...]) -> Iterator[Relation]:
    """Every relation of a cache that has these components, in a stable order."""
    yield from _SHARED
    for family in _PER_COMPONENT:
        for component in components:
            yield family[component]


def aux(components: tuple[Component, ...]) -> tuple[Component, ...]:
    """The components that come on top of FULL."""
    return tuple(c for c in components if c != FULL)


def arrived_of(copy: Relation) -> Relation:
    """The flag that says the bytes of `copy` are there, not only their reservation."""
    return _ARRIVED[copy.name]


def users_of(copy: Relation) -> tuple[Relation, ...]:
    """The relations in which a holder uses the slots of `copy`: while one holds, the slots must not be freed."""
    return _USERS[copy.name]


def busy(holder: Var) -> Formula:
    """The holder is doing something."""
    return any_of(*(phase(holder) for phase in PHASES))


def same_namespace(parent: Var, node: Var) -> Formula:
    """The two nodes are of one namespace; the root is of every namespace."""
    return same(parent, ROOT) | alike(watched(parent), watched(node))


def of_its_namespace(node: Var, holder: Var) -> Formula:
    """The operation works for the namespace that the node is of; the root is of every namespace."""
    return same(node, ROOT) | alike(watched(node), watched_by(holder))


def alike(left: Formula, right: Formula) -> Formula:
    """Both or neither."""
    return (left & right) | (~left & ~right)


def held(node: Var, *held_relations: Relation) -> Formula:
    """Someone stands in one of these relations to the node."""
    return any_of(*(someone(r, node) for r in held_relations)) if held_relations else FALSE


_ARRIVED = {device[c].name: device_arrived[c] for c in COMPONENTS} | {host[c].name: host_arrived[c] for c in COMPONENTS}
_USERS: dict[str, tuple[Relation, ...]] = {}
for _c in COMPONENTS:
    _USERS[device[_c].name] = (device_lock[_c], reads[_c], writes[_c])
    _USERS[host[_c].name] = (host_lock[_c], reads[_c], writes[_c])
_USERS[host[FULL].name] += (storage_reads,)
