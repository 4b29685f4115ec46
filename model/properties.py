"""What must hold in every state: the catalogue of properties, in seven classes.

Each function is one property, or one family with a member for each component. Its arguments are universally
quantified; its docstring is the rule in words; `source` is the report that taught it. `specs/invariants.toml` lists
the same catalogue for readers, and a test keeps both equal. Obligations that belong to a single step (nobody uses
what is freed, what is read has arrived, what is given back was taken, refusals need a danger) are promises of the
transaction and stand beside these.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, get_type_hints

from .algebra import HOLDER, NODE, ROOT, Formula, Var, all_of, ancestor, any_of, same, someone
from .protocol import Setting, copying_to_host, settled
from .vocabulary import (
    FULL,
    PHASES,
    WRITE_BACK,
    WRITE_THROUGH,
    Component,
    Policy,
    anchor,
    backup,
    busy,
    device,
    device_arrived,
    device_lock,
    filling,
    host,
    host_arrived,
    host_lock,
    live,
    load_back,
    load_back_pending,
    loading,
    of_its_namespace,
    prefetch,
    reads,
    relations,
    request,
    reserved,
    same_namespace,
    storage_reads,
    storing,
    tracked_duplicate,
    write_through_pending,
    writes,
)

Kind = Literal["safety", "visibility", "accounting", "tracking", "release", "permissiveness", "structure"]
KINDS: tuple[Kind, ...] = ("safety", "visibility", "accounting", "tracking", "release", "permissiveness", "structure")


class Node(Var):
    """Annotation: an argument that ranges over nodes."""


class Held(Var):
    """Annotation: an argument that ranges over holders."""


@dataclass(frozen=True, slots=True)
class Property:
    """One rule of one instance: for all `variables`, `formula`."""

    id: str
    family: str
    kind: Kind
    words: str
    source: str
    variables: tuple[Var, ...]
    formula: Formula


@dataclass(frozen=True, slots=True)
class Family:
    """A rule of the catalogue, before policy and components are chosen."""

    id: str
    kind: Kind
    words: str
    source: str
    policies: tuple[Policy, ...]
    per: Literal["once", "component", "aux"]
    build: Callable[..., Formula]

    def members(self, setting: Setting) -> Iterator[Property]:
        """The rule as it reads under `setting`: none, one, or one for each component."""
        if setting.policy not in self.policies:
            return
        choices = {"once": (None,), "component": setting.components, "aux": setting.aux}[self.per]
        for component in choices:
            hints = get_type_hints(self.build)
            first = 1 if self.per == "once" else 2
            names = list(inspect.signature(self.build).parameters)[first:]
            variables = tuple(Var(n, NODE if hints[n] is Node else HOLDER) for n in names)
            static = (setting,) if component is None else (setting, component)
            suffix = "" if component is None else f".{component}"
            yield Property(
                self.id + suffix,
                self.id,
                self.kind,
                self.words,
                self.source,
                variables,
                self.build(*static, *variables),
            )


CATALOGUE: dict[str, Family] = {}
"""Every rule by id, in the order of this file."""

Build = Callable[..., Formula]
_BOTH: tuple[Policy, ...] = (WRITE_BACK, WRITE_THROUGH)


def rule(
    kind: Kind,
    source: str = "",
    *,
    policies: tuple[Policy, ...] = _BOTH,
    per: Literal["once", "component", "aux"] = "once",
) -> Callable[[Build], Build]:
    """Add a rule to the catalogue; its id is the kind and the function's name."""

    def register(build: Build) -> Build:
        identifier = f"{kind}.{build.__name__.replace('_', '-')}"
        words = " ".join((inspect.getdoc(build) or "").split())
        CATALOGUE[identifier] = Family(identifier, kind, words, source, policies, per, build)
        return build

    return register


# Safety: nothing is freed, moved or overwritten while anyone uses it ------------------------------------------------
@rule("safety", "SGLang #27444", per="component")
def load_back_source_stays(p: Setting, c: Component, n: Node, h: Held) -> Formula:
    """The host slots that a load-back reads are there for as long as it reads them."""
    return reads[c](n, h).implies(host[c](n))


@rule("safety", "SGLang #27444", per="component")
def load_back_destination_stays(p: Setting, c: Component, n: Node, h: Held) -> Formula:
    """The device slots that a load-back writes are there, and locked by it."""
    return reads[c](n, h).implies(device[c](n) & device_lock[c](n, h))


@rule("safety", "SGLang #27444, #36317", per="aux")
def auxiliary_source_is_host_locked(p: Setting, c: Component, n: Node, h: Held) -> Formula:
    """The auxiliary host slots that a load-back reads are host-locked by it; no pin is needed."""
    return reads[c](n, h).implies(host_lock[c](n, h))


@rule("safety", "SGLang #33777, #34519", policies=(WRITE_BACK,))
def full_source_is_pinned(p: Setting, n: Node, h: Held) -> Formula:
    """The FULL host slots that a load-back reads are pinned by it, so that duplicate reclaim leaves them."""
    return reads[FULL](n, h).implies(load_back_pending(n, h))


@rule("safety", "SGLang #28468", per="component")
def backup_destination_stays(p: Setting, c: Component, n: Node, h: Held) -> Formula:
    """The host slots that a backup writes are there, and do not count as a copy yet."""
    return writes[c](n, h).implies(copying_to_host(c, n))


@rule("safety", "SGLang #28468", policies=(WRITE_BACK,), per="component")
def backup_destination_is_host_locked(p: Setting, c: Component, n: Node, h: Held) -> Formula:
    """Under write_back the host slots that a backup writes are host-locked by it."""
    return writes[c](n, h).implies(host_lock[c](n, h))


@rule("safety", "SGLang #28468", policies=(WRITE_THROUGH,), per="aux")
def auxiliary_destination_is_host_locked(p: Setting, c: Component, n: Node, h: Held) -> Formula:
    """Under write_through the auxiliary host slots that a backup writes are host-locked by it."""
    return writes[c](n, h).implies(host_lock[c](n, h))


@rule("safety", "SGLang #24585", per="component")
def backup_source_stays(p: Setting, c: Component, n: Node, h: Held) -> Formula:
    """The device slots that a backup reads are there for as long as it reads them."""
    return writes[c](n, h).implies(device[c](n))


@rule("safety", "SGLang #20049", policies=(WRITE_THROUGH,), per="component")
def backup_source_is_locked(p: Setting, c: Component, n: Node, h: Held) -> Formula:
    """Under write_through the device slots that a backup reads are device-locked by it."""
    return writes[c](n, h).implies(device_lock[c](n, h))


@rule("safety", "SGLang #38480")
def stored_source_stays(p: Setting, n: Node, h: Held) -> Formula:
    """The host slots that storage reads are there, and host-locked by the storage backup, on every fragment of a
    split node.
    """
    return storage_reads(n, h).implies(host[FULL](n) & host_lock[FULL](n, h))


@rule("safety", "SGLang #29352", per="component")
def locked_slots_stay(p: Setting, c: Component, n: Node, h: Held) -> Formula:
    """What is device-locked is on the device."""
    return device_lock[c](n, h).implies(device[c](n))


@rule("safety", "SGLang #22592", per="component")
def host_locked_slots_stay(p: Setting, c: Component, n: Node, h: Held) -> Formula:
    """What is host-locked is on the host."""
    return host_lock[c](n, h).implies(host[c](n))


@rule("safety", "SGLang #27631")
def anchor_stays(p: Setting, n: Node, h: Held) -> Formula:
    """The anchor of a load-back or prefetch is in the tree, and locked by it on the tier it counts on."""
    return anchor(n, h).implies(live(n) & (device_lock[FULL](n, h) | host_lock[FULL](n, h)))


@rule("safety", "SGLang #22592")
def locked_path_stays(p: Setting, n: Node, m: Node, h: Held) -> Formula:
    """A FULL device lock covers the whole way to the root, split or not."""
    return (device_lock[FULL](n, h) & ancestor(m, n)).implies(device_lock[FULL](m, h))


@rule("safety", "vLLM #47282", per="component")
def one_writer_per_device_copy(p: Setting, c: Component, n: Node, h: Held, g: Held) -> Formula:
    """Two load-backs never write the same device slots."""
    return (reads[c](n, h) & reads[c](n, g)).implies(same(h, g))


@rule("safety", "SGLang #28468", per="component")
def one_writer_per_host_copy(p: Setting, c: Component, n: Node, h: Held, g: Held) -> Formula:
    """Two backups never write the same host slots."""
    return (writes[c](n, h) & writes[c](n, g)).implies(same(h, g))


@rule("safety", "SGLang #35769", per="component")
def one_direction_at_a_time(p: Setting, c: Component, n: Node, h: Held, g: Held) -> Formula:
    """A copy is never read and written by transfers of opposite directions."""
    return ~(reads[c](n, h) & writes[c](n, g))


@rule("safety", "SGLang #31296")
def filled_slots_are_reserved(p: Setting, h: Held) -> Formula:
    """Storage only fills slots that the prefetch still owns."""
    return filling(h).implies(reserved(h))


@rule("safety", "SGLang #26747", per="component")
def requests_stay_in_their_namespace(p: Setting, c: Component, n: Node, h: Held) -> Formula:
    """A request, and what is loaded or prefetched for it, holds nodes of its own namespace only."""
    works = any_of(*(phase(h) for phase in (request, loading, load_back, prefetch)))
    return (works & (device_lock[c](n, h) | host_lock[c](n, h))).implies(of_its_namespace(n, h))


# Visibility: nothing is read before its bytes arrived ---------------------------------------------------------------
@rule("visibility", "SGLang #35931", per="component")
def load_back_reads_arrived_bytes(p: Setting, c: Component, n: Node, h: Held) -> Formula:
    """A load-back reads host bytes that have arrived."""
    return reads[c](n, h).implies(host_arrived[c](n))


@rule("visibility", "SGLang #35931", per="component")
def load_back_is_awaited(p: Setting, c: Component, n: Node, h: Held) -> Formula:
    """Device bytes count as arrived only when the load-back that brings them has ended."""
    return reads[c](n, h).implies(~device_arrived[c](n))


@rule("visibility", "SGLang #35769", per="component")
def backup_reads_arrived_bytes(p: Setting, c: Component, n: Node, h: Held) -> Formula:
    """A backup reads device bytes that have arrived."""
    return writes[c](n, h).implies(device_arrived[c](n))


@rule("visibility", "vLLM #52360")
def storage_reads_arrived_bytes(p: Setting, n: Node, h: Held) -> Formula:
    """Storage reads host bytes that have arrived."""
    return storage_reads(n, h).implies(host_arrived[FULL](n))


@rule("visibility", "SGLang #22811", per="component")
def missing_device_bytes_are_on_their_way(p: Setting, c: Component, n: Node) -> Formula:
    """Device slots without their bytes are being written by a load-back."""
    return (device[c](n) & ~device_arrived[c](n)).implies(someone(reads[c], n))


@rule("visibility", "SGLang #24585", per="component")
def missing_host_bytes_are_on_their_way(p: Setting, c: Component, n: Node) -> Formula:
    """Host slots without their bytes are being written by a backup."""
    return copying_to_host(c, n).implies(someone(writes[c], n))


@rule("visibility", "SGLang #24585", per="component")
def bytes_are_somewhere(p: Setting, c: Component, n: Node) -> Formula:
    """As long as one tier's bytes have not arrived, the other tier's have."""
    return all_of(
        (device[c](n) & ~device_arrived[c](n)).implies(host_arrived[c](n)),
        (host[c](n) & ~host_arrived[c](n)).implies(device_arrived[c](n)),
    )


@rule("visibility", "SGLang #27444", per="component")
def host_locked_bytes_have_arrived(p: Setting, c: Component, n: Node, h: Held) -> Formula:
    """What is host-locked has its bytes, or the lock's holder is the backup that brings them."""
    return host_lock[c](n, h).implies(host_arrived[c](n) | writes[c](n, h))


# Accounting: every slot has one owner, every count its holders ------------------------------------------------------
@rule("accounting", "SGLang #35769", per="component")
def arrived_bytes_have_slots(p: Setting, c: Component, n: Node) -> Formula:
    """Bytes that have arrived are in slots that the node owns."""
    return device_arrived[c](n).implies(device[c](n)) & host_arrived[c](n).implies(host[c](n))


@rule("accounting", "SGLang #38352", per="component")
def dead_nodes_own_no_slots(p: Setting, c: Component, n: Node) -> Formula:
    """A node that has left the tree owns no slots."""
    return (device[c](n) | host[c](n)).implies(live(n))


@rule("accounting", "SGLang #22592")
def dead_nodes_are_held_by_nobody(p: Setting, n: Node, h: Held) -> Formula:
    """Nobody holds anything on a node that has left the tree."""
    return any_of(*(r(n, h) for r in relations(p.components) if r.sorts == (NODE, HOLDER))).implies(live(n))


@rule("accounting", "SGLang #34975", policies=(WRITE_BACK,))
def one_pin_per_node(p: Setting, n: Node, h: Held, g: Held) -> Formula:
    """A node is pinned by one load-back at a time: `load_back_pending_id` is a scalar."""
    return (load_back_pending(n, h) & load_back_pending(n, g)).implies(same(h, g))


@rule("accounting", "SGLang #27072", policies=(WRITE_THROUGH,))
def one_mark_per_node(p: Setting, n: Node, h: Held, g: Held) -> Formula:
    """A node is marked by one backup at a time: `write_through_pending_id` is a scalar."""
    return (write_through_pending(n, h) & write_through_pending(n, g)).implies(same(h, g))


@rule("accounting", "SGLang #24869")
def one_anchor_per_operation(p: Setting, n: Node, m: Node, h: Held) -> Formula:
    """An operation has one anchor, and all its components use it."""
    return (anchor(n, h) & anchor(m, h)).implies(same(n, m))


@rule("accounting", "SGLang #28161", per="aux")
def lock_order(p: Setting, c: Component, n: Node, h: Held) -> Formula:
    """Who device-locks an auxiliary copy has device-locked FULL there too."""
    return device_lock[c](n, h).implies(device_lock[FULL](n, h))


@rule("accounting", "SGLang #31902", policies=(WRITE_THROUGH,))
def marked_nodes_are_being_backed_up(p: Setting, n: Node, h: Held) -> Formula:
    """Under write_through FULL is copied to the host exactly where the mark is."""
    return write_through_pending(n, h).implies(writes[FULL](n, h)) & writes[FULL](n, h).implies(
        write_through_pending(n, h)
    )


@rule("accounting", "SGLang #15439")
def prefetches_own_their_reservation(p: Setting, h: Held) -> Formula:
    """A prefetch owns its reservation from begin to end, and nobody else owns one."""
    return prefetch(h).implies(reserved(h)) & reserved(h).implies(prefetch(h))


@rule("accounting")
def one_phase_at_a_time(p: Setting, h: Held) -> Formula:
    """An operation is in one phase at a time."""
    pairs = [(a, b) for i, a in enumerate(PHASES) for b in PHASES[i + 1 :]]
    return all_of(*(~(a(h) & b(h)) for a, b in pairs))


# Tracking: settled duplicates are exactly the tracked ones ----------------------------------------------------------
@rule("tracking", "SGLang #33777")
def settled_duplicates_are_tracked(p: Setting, n: Node) -> Formula:
    """A node whose FULL copies have settled on both tiers is tracked, so that reclaim can find it."""
    return settled(n).implies(tracked_duplicate(n))


@rule("tracking", "InferenceX #2704")
def tracked_duplicates_are_settled(p: Setting, n: Node) -> Formula:
    """A tracked node is settled: no load-back reads it, no backup writes it, both copies are there."""
    return tracked_duplicate(n).implies(settled(n))


@rule("tracking", "SGLang #33777")
def tracked_duplicates_are_live(p: Setting, n: Node) -> Formula:
    """No node that has left the tree is tracked, and neither is the root."""
    return tracked_duplicate(n).implies(live(n) & ~same(n, ROOT))


# Release: every pin, lock and mark has a live holder; idle means empty-handed ---------------------------------------
@rule("release", "SGLang #34519", policies=(WRITE_BACK,))
def pins_belong_to_a_load_back(p: Setting, n: Node, h: Held) -> Formula:
    """A pin's holder is a load-back in flight: after its ack none is left, on no fragment of a split node."""
    return load_back_pending(n, h).implies(load_back(h))


@rule("release", "SGLang #34519", policies=(WRITE_THROUGH,))
def no_pins_under_write_through(p: Setting, n: Node, h: Held) -> Formula:
    """Under write_through nothing is ever pinned."""
    return ~load_back_pending(n, h)


@rule("release", "SGLang #24585", policies=(WRITE_BACK,))
def no_marks_under_write_back(p: Setting, n: Node, h: Held) -> Formula:
    """Under write_back no node carries a write-through mark."""
    return ~write_through_pending(n, h)


@rule("release", "SGLang #27072, #20049", policies=(WRITE_THROUGH,))
def marks_belong_to_a_backup(p: Setting, n: Node, h: Held) -> Formula:
    """A mark's holder is a backup in flight."""
    return write_through_pending(n, h).implies(backup(h))


@rule("release", "SGLang #37103", per="component")
def device_locks_belong_to_somebody(p: Setting, c: Component, n: Node, h: Held) -> Formula:
    """A device lock's holder is at work: a request, a load-back, or under write_through a backup."""
    return device_lock[c](n, h).implies(
        any_of(request(h), loading(h), load_back(h), *([] if p.write_back else [backup(h)]))
    )


@rule("release", "SGLang #30053", per="component")
def host_locks_belong_to_somebody(p: Setting, c: Component, n: Node, h: Held) -> Formula:
    """A host lock's holder is at work on the host: a backup, a load-back, a prefetch or a storage backup."""
    return host_lock[c](n, h).implies(backup(h) | loading(h) | load_back(h) | prefetch(h) | storing(h))


@rule("release", "SGLang #20049", per="component")
def transfers_belong_to_their_operation(p: Setting, c: Component, n: Node, h: Held) -> Formula:
    """What copies to the device is a load-back in flight, what copies to the host a backup in flight."""
    return reads[c](n, h).implies(load_back(h)) & writes[c](n, h).implies(backup(h))


@rule("release", "SGLang #38480")
def storage_reads_belong_to_a_storage_backup(p: Setting, n: Node, h: Held) -> Formula:
    """What storage reads is read for a storage backup in flight."""
    return storage_reads(n, h).implies(storing(h))


@rule("release", "SGLang #15439, #30053")
def anchors_belong_to_somebody(p: Setting, n: Node, h: Held) -> Formula:
    """An anchor's holder is a load-back or a prefetch."""
    return anchor(n, h).implies(loading(h) | load_back(h) | prefetch(h))


@rule("release", "SGLang #35869")
def idle_means_empty_handed(p: Setting, n: Node, h: Held) -> Formula:
    """An operation that has ended holds nothing, on any node, in any way."""
    held = [r(n, h) for r in relations(p.components) if r.sorts == (NODE, HOLDER)]
    return (~busy(h)).implies(~any_of(*held, filling(h), reserved(h)))


# Permissiveness: a protection is never wider than its danger --------------------------------------------------------
@rule("permissiveness", "SGLang #34519, #36317", policies=(WRITE_BACK,))
def pins_only_where_full_is_read(p: Setting, n: Node, h: Held) -> Formula:
    """A pin means that this load-back reads these very FULL host slots: never another component, never longer."""
    return load_back_pending(n, h).implies(reads[FULL](n, h))


@rule("permissiveness", "SGLang #35931", per="component")
def host_locks_only_where_slots_are_needed(p: Setting, c: Component, n: Node, h: Held) -> Formula:
    """A host lock means that its holder copies from or to these slots, is about to, or will hang its pages below
    them.
    """
    storage = [storage_reads(n, h)] if c == FULL else []
    return host_lock[c](n, h).implies(any_of(reads[c](n, h), writes[c](n, h), loading(h), prefetch(h), *storage))


@rule("permissiveness", "SGLang #27444")
def operations_hold_their_own_path_only(p: Setting, n: Node, m: Node, h: Held) -> Formula:
    """A load-back or prefetch pins, reads and host-locks nothing off its anchor's path."""
    held = [family[c](m, h) for family in (reads, host_lock) for c in p.components]
    return (anchor(n, h) & any_of(load_back_pending(m, h), *held)).implies(ancestor(m, n))


# Structure ----------------------------------------------------------------------------------------------------------
@rule("structure")
def ancestry_is_reflexive(p: Setting, n: Node) -> Formula:
    """A node lies on its own path."""
    return ancestor(n, n)


@rule("structure")
def ancestry_is_antisymmetric(p: Setting, n: Node, m: Node) -> Formula:
    """Two nodes are not above each other."""
    return (ancestor(n, m) & ancestor(m, n)).implies(same(n, m))


@rule("structure")
def ancestry_is_transitive(p: Setting, n: Node, m: Node, k: Node) -> Formula:
    """What is above an ancestor is above the node."""
    return (ancestor(n, m) & ancestor(m, k)).implies(ancestor(n, k))


@rule("structure")
def ancestors_form_a_chain(p: Setting, n: Node, m: Node, k: Node) -> Formula:
    """Of two ancestors of a node, one is above the other: the tree has no joins."""
    return (ancestor(n, k) & ancestor(m, k)).implies(ancestor(n, m) | ancestor(m, n))


@rule("structure", "SGLang #27562")
def no_orphans(p: Setting, n: Node, m: Node) -> Formula:
    """Whatever is related by ancestry is in the tree: no node outlives one above it."""
    return (ancestor(n, m) & ~same(n, m)).implies(live(n) & live(m))


@rule("structure")
def the_root_is_above_all(p: Setting, n: Node) -> Formula:
    """The root is above every node in the tree."""
    return live(n).implies(ancestor(ROOT, n))


@rule("structure")
def the_root_stays(p: Setting) -> Formula:
    """The root is in the tree and counts as resident, with its bytes, on both tiers; it has no auxiliary copies."""
    aux_copies = [family[c](ROOT) for family in (device, host) for c in p.aux]
    return all_of(live(ROOT), device_arrived[FULL](ROOT), host_arrived[FULL](ROOT), *(~copy for copy in aux_copies))


@rule("structure", "SGLang #26747")
def children_inherit_their_namespace(p: Setting, n: Node, m: Node) -> Formula:
    """A path is of one namespace, from the root's child on."""
    return ancestor(m, n).implies(same_namespace(m, n))


@rule("structure", "SGLang #31902")
def device_residency_is_prefix_closed(p: Setting, n: Node, m: Node) -> Formula:
    """A node that is on the device has its whole path there."""
    return (device[FULL](n) & ancestor(m, n)).implies(device[FULL](m))


@rule("structure", "SGLang #31902", policies=(WRITE_THROUGH,))
def host_residency_is_prefix_closed(p: Setting, n: Node, m: Node) -> Formula:
    """Under write_through a backed-up node has a backed-up parent."""
    return (host[FULL](n) & ancestor(m, n)).implies(host[FULL](m))


@rule("structure", "SGLang #24869")
def nodes_have_full_somewhere(p: Setting, n: Node) -> Formula:
    """A node in the tree has FULL on at least one tier."""
    return live(n).implies(device[FULL](n) | host[FULL](n))


@rule("structure", "SGLang #34046", per="aux")
def auxiliary_copies_need_full(p: Setting, c: Component, n: Node) -> Formula:
    """An auxiliary device copy needs FULL on the device, an auxiliary host copy needs FULL on some tier."""
    return device[c](n).implies(device[FULL](n)) & host[c](n).implies(device[FULL](n) | host[FULL](n))
