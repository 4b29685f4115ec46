"""Copies between device and host: backups under each policy, load-backs, their acks (runs inside the environment).

A copy is queued, executed later (`step`, or at the latest by its ack) and acknowledged in the order of the queue, as
the server polls them. Its bytes move when it is executed, slot by slot, and are compared with what was written there.
"""

from __future__ import annotations

from typing import Any

from .base import Change, Refused, TargetCrashed
from .op_evictions import Evictions
from .pools import Pool
from .tree import Node, Slots


class Copy:
    """A copy in flight: parts of ``(source pool, slots, target pool, slots, what the bytes must say)``."""

    __slots__ = ("done", "handle", "holder", "kind", "parts")

    def __init__(self, kind: str, holder: int, handle: Any) -> None:
        self.kind, self.holder, self.handle = kind, holder, handle
        self.parts: list[tuple[Pool, Slots, Pool, Slots, list[int]]] = []
        self.done = False

    def add(self, source: Pool, read: Slots, target: Pool, written: Slots, codes: list[int]) -> None:
        """Add a part and put the pools on guard."""
        source.start_copy(read, self.holder, "reads")
        target.start_copy(written, self.holder, "writes")
        self.parts.append((source, read, target, written, codes))

    def execute(self, report: Any) -> None:
        """Move the bytes; report the first slot of a part that says something else than it must."""
        if self.done:
            return
        self.done = True
        for source, read, target, written, codes in self.parts:
            wrong = None
            for position, (here, there) in enumerate(zip(read, written, strict=True)):
                value = source.content[here]
                if value != codes[position] and wrong is None:
                    wrong = here
                target.content[there] = value
            if wrong is not None:
                report(
                    "wrong bytes",
                    f"the {self.kind} of holder {self.holder} reads other bytes in slot {wrong} of {source}",
                )

    def finish(self) -> None:
        """Take the marks off the pools."""
        for source, read, target, written, _ in self.parts:
            source.end_copy(read, self.holder)
            target.end_copy(written, self.holder)


class Backup:
    """A backup in flight, as the server books it: by the handle it was made for."""

    __slots__ = ("copy", "handle", "publish", "receipt")

    def __init__(self, copy: Copy, handle: Any, receipt: Any, publish: list[Any]) -> None:
        self.copy, self.handle, self.receipt, self.publish = copy, handle, receipt, publish


class Copies(Evictions):
    """Backups and load-backs."""

    def start_operations(self) -> None:
        """Set up what is empty when nothing is in flight."""
        super().start_operations()
        self.writes: list[Copy] = []
        self.loads: list[Copy] = []
        self.backups: dict[Any, Backup] = {}
        self.loading: dict[Any, tuple[Copy, Any, Any]] = {}
        self._acks: dict[Any, int] = {}
        self._anchors: dict[Any, int] = {}

    def holder_of_load(self, anchor: Any) -> int:
        """The load-back that the core names by its anchor (-1 when there is none: a mark without a holder)."""
        return self._anchors.get(anchor, -1)

    def holder_of_backup(self, ack: Any) -> int:
        """The backup that the core names by its ack (-1 when there is none)."""
        return self._acks.get(ack, -1)

    # ---- backup ----

    def op_backup(self, node: int) -> dict[str, Any]:
        """Back a node up: under write_through with its ancestors that are not; under write_back at once and alone."""
        target = self.node(node)
        if target.parent is None or "full" not in target.device:
            raise Refused("RefusedEvicted", f"node {node} is not on device")
        before = self.holders
        if self.write_back:
            if not hasattr(self.core.tree, "finish_mamba_state_eviction"):
                raise Refused("RefusedPolicy", "before 0.5.21 write_back copies to the host only when it evicts")
            if target.host.get("full"):
                raise Refused("RefusedBacked", f"node {node} has a host copy")
            if not self.backup_now(target.handle):
                raise Refused("RefusedNoRoom", "no host slots")
            return {"holder": before + 1}
        if self.is_pending(target) or (target.host.get("full") and not self._unbacked_aux(target)):
            raise Refused("RefusedBacked", f"node {node} has a host copy, or is being copied")
        chain = [target]
        above = target.parent
        while above is not None and above.parent is not None and "full" not in above.host:
            chain.append(above)
            above = above.parent
        self.backup_chain([each.handle for each in reversed(chain)], write_back=False)
        if self.holders == before or target.handle not in self.backups:
            raise Refused("RefusedNoRoom", "no host slots")
        return {"holder": self.backups[target.handle].copy.holder}

    def is_pending(self, node: Node) -> bool:
        """Whether a backup in flight covers the node (by the cache's books: not every core shows its mark)."""
        return any(node.handle in backup.publish for backup in self.backups.values())

    def _unbacked_aux(self, node: Node) -> bool:
        return any(name in node.device and name not in node.host for name in self.components[1:])

    def backup_now(self, handle: Any) -> bool:
        """Back one node up and wait for it; whether a copy was made."""
        if self.backups:
            self.drain_backups()
        if self.backup_chain([handle], write_back=True) == 0:
            return False
        self.drain_backups()
        return True

    def backup_chain(self, handles: list[Any], write_back: bool) -> int:
        """Back nodes up in order, stopping at the first that cannot; the tokens of the last (0 when one could not)."""
        written = 0
        for handle in handles:
            if not hasattr(self.core.tree, "finish_load_back") and self.call("is_backuped", handle):
                continue  # 0.5.17 leaves nodes that are backed up alone
            value, transfers = self.call("build_backup_spec", handle)
            if value.numel() == 0 and not transfers:
                continue
            node = self.tree.handles[handle]
            holder = self.new_holder()
            host = self._host_room(value, transfers, holder)
            if host is None:
                args = {"node": node.id, "top": node.id, "holder": holder, **self.tops(node)}
                self.emit("begin_backup", args, [node], outcome="refused", reason="no host room")
                return 0
            self._commit_backup(node, holder, value, host, transfers, write_back)
            written = len(host)
        return written

    def _host_room(self, value: Any, transfers: dict[Any, list[Any]], holder: int) -> Slots | None:
        """Host slots for a backup, its auxiliary transfers included; all or nothing."""
        count, pool = value.numel(), self.pools["host", "full"]
        short = count - pool.available()
        if short > 0 and self.evict_host("full", short) < short:
            return None
        full = pool.take(count, ("holder", holder)) if count else []
        if full is None:
            return None
        taken = [("full", full)]
        for which, parts in transfers.items():
            name = self.core.names[which]
            for part in parts:
                if part.host_indices is not None or part.device_indices is None:
                    continue
                slots = self._take_host(name, part.device_indices.numel(), holder)
                if slots is None:
                    for other, given in taken:
                        self.pools["host", other].give(given)
                    for others in transfers.values():
                        for other_part in others:
                            other_part.host_indices = None
                    return None
                part.host_indices = self.tensor(slots)
                taken.append((name, slots))
        for name, slots in taken:
            if slots:
                self.row("take", "host", name, slots, ("holder", holder))
        return full

    def _take_host(self, name: str, count: int, holder: int) -> Slots | None:
        pool = self.pools["host", name]
        slots = pool.take(count, ("holder", holder))
        if slots is None:
            self.evict_host(name, count)
            slots = pool.take(count, ("holder", holder))
        return slots

    def _commit_backup(
        self, node: Node, holder: int, value: Any, host: Slots, transfers: dict[Any, list[Any]], write_back: bool
    ) -> None:
        copy = Copy("backup", holder, node.handle)
        given: dict[tuple[Node, str], Slots] = {}
        if host:
            given[node, "full"] = host
            copy.add(self.pools["device", "full"], value.tolist(), self.pools["host", "full"], host, list(node.codes))
        for which, parts in transfers.items():
            for part in parts:
                self._spread(copy, node, self.core.names[which], part, given, "device")
        self.call("commit_backup", node.handle, self.tensor(host), transfers)
        at_insert = self.write_back and not write_back
        receipt = None if self.write_back else self.call("inc_lock_ref", node.handle).to_dec_params()
        publish = self._publish(node.handle, transfers)
        self._acks[node.handle] = holder
        if self.counts_tombstones:
            publish = list(self.call("mark_write_through_pending", publish, node.handle))
        else:
            self.call("mark_write_through_pending", node.handle)
            publish = [node.handle]
        if node.handle in self.backups:
            self.report("overwritten", f"node {node.id} is backed up again in flight: the first booking is lost")
        self.backups[node.handle] = Backup(copy, node.handle, receipt, publish)
        self.writes.append(copy)
        told: dict[Node, set[str]] = {}
        for each, name in given:
            told.setdefault(each, set()).add(name)
        changes = self.look(lambda each, _, name: given[each, name], host=lambda: told)
        self._tell_backup(node, holder, changes)
        if at_insert:
            self.backups[node.handle].receipt = self.call("inc_lock_ref", node.handle).to_dec_params()
            self.look()
            self.emit("lock_backup", {"node": node.id, "holder": holder, **self.tops(node)}, [node])

    def _left_over_of(self, copy: Copy) -> None:
        """After a backup no host slot may be left with it: the tree took them."""
        for _, _, pool, slots, _ in copy.parts:
            left = [slot for slot in slots if pool.owner[slot] == ("holder", copy.holder)]
            if left:
                node = self.tree.handles[copy.handle]
                self.report("leak", f"slots {left} of the {pool} are lost: (node {node.id}) has a copy already")
                self.free("host", pool.component, left)

    def _tell_backup(self, node: Node, holder: int, changes: list[Change]) -> None:
        came = [change for change in changes if change.what == "came"]
        full = [change for change in came if change.component == "full"]
        aux = [change for change in came if change.component != "full"]
        later = [change.node for change in aux if change.node is not node]
        tops = self.tops(node)
        for change in full:
            self.came(change)
            args = {"node": change.node.id, "top": change.node.id, "holder": holder, **tops}
            self.emit("begin_backup", args, [change.node], rows="all" if not aux else "own", unmarked=later)
        for change in aux:
            self.came(change)
            if change.node in later:
                later.remove(change.node)
            given = {"node": change.node.id, "base": node.id, "component": change.component, "holder": holder, **tops}
            self.emit("backup_aux", given, [change.node, node], rows="own", unmarked=later)
        self.evictions([change for change in changes if change.what != "came"])

    def _spread(
        self, copy: Copy, node: Node, name: str, part: Any, given: dict[tuple[Node, str], Slots], source: str
    ) -> None:
        """Divide the slots of an auxiliary transfer among the nodes it covers; they are in the order of the path."""
        handles = part.nodes_to_load or [node.handle]
        here, there = part.device_indices.tolist(), part.host_indices.tolist()
        offset = 0
        for handle in handles:
            each = self.tree.handles[handle]
            codes = each.expected(name)
            span = slice(offset, offset + len(codes))
            offset += len(codes)
            device, host = self.pools["device", name], self.pools["host", name]
            if source == "device":
                copy.add(device, here[span], host, there[span], codes)
                given[each, name] = there[span]
            else:
                copy.add(host, there[span], device, here[span], codes)
                given[each, name] = here[span]

    def _publish(self, handle: Any, transfers: dict[Any, list[Any]]) -> list[Any]:
        covered = [each for parts in transfers.values() for part in parts for each in part.nodes_to_load or ()]
        return list(dict.fromkeys([*covered, handle] if handle not in covered else covered))

    def split_pending(self, ack: Any, old: Any, new: list[Any]) -> None:
        """A node of a backup in flight was split: its ack covers both parts."""
        backup = self.backups.get(ack)
        if backup is not None and old in backup.publish:
            at = backup.publish.index(old)
            backup.publish[at : at + 1] = new

    def drain_backups(self) -> None:
        """Wait for every backup in flight and deliver its ack."""
        while self.writes:
            self._ack_backup()

    def _ack_backup(self) -> None:
        copy = self.writes.pop(0)
        copy.execute(self.report)
        backup = self.backups.pop(copy.handle, None)
        if backup is None:
            raise TargetCrashed(f"ack of holder {copy.holder}: the cache has no backup booked under that node")
        self.call("finish_write_through", backup.publish, backup.handle)
        if backup.receipt is not None:
            self.call("dec_lock_ref", backup.handle, backup.receipt)
        copy.finish()
        self._left_over_of(copy)
        self._arrived(copy)
        self.look()
        nodes = [self.tree.handles[handle] for handle in backup.publish if handle in self.tree.handles]
        self.emit("ack_backup", {"holder": copy.holder}, nodes)
        if self.options.get("store_acked") or self.options.get("storage") == "auto":
            for handle in backup.publish:
                self.store(handle)

    def _arrived(self, copy: Copy) -> None:
        """The nodes that own what a copy wrote look different now."""
        for _, _, target, written, _ in copy.parts:
            for slot in written:
                owner = target.owner[slot]
                if owner is not None and owner[0] == "node" and owner[1] in self.tree.nodes:
                    self._unshown.add(self.tree.nodes[owner[1]])

    # ---- load-back ----

    def op_load_back(self, node: int) -> dict[str, Any]:
        """Load what a matched node needs and has on the host alone. Refused where a match would not end there."""
        target = self.node(node)
        if target.parent is None:
            raise Refused("RefusedRoot", "the root has nothing to load")
        result = self._match(target.prefix())
        if result.best_match_node != target.handle:
            raise Refused("RefusedNotMatched", f"a match of the tokens of node {node} does not end there")
        hits = (result.host_hit_length, result.swa_host_hit_length, result.mamba_host_hit_length)
        if not any(hits) and not self.call("is_full_device_evicted", target.handle):
            raise Refused("RefusedNothing", f"node {node} is on device with all it needs")
        return self._load_back(target)

    def _load_back(self, node: Node) -> dict[str, Any]:
        holder, handle = self.new_holder(), node.handle
        args: dict[str, Any] = {"node": node.id, "holder": holder}
        wanted = self._wanted(node)
        host_receipt = self.call("inc_host_lock_ref", handle).to_dec_params()
        receipt = self.call("inc_lock_ref", handle).to_dec_params()
        full, transfers = self.call("build_load_back_spec", handle)
        self.look()
        self.emit("begin_load_back", {**args, **self.tops(node)}, [node])
        count = full.host_indices.numel()
        if count == 0 and not transfers:
            if wanted:
                reason = (
                    f"empty although {', '.join(f'{name} of node {each.id}' for each, name in wanted)} is on the host"
                )
                self.emit("commit_load_back", {**args, **self.tops(node)}, [node], outcome="refused", reason=reason)
            self._call_off(node, receipt, host_receipt, "refuse_load_back", {**args, **self.tops(node)})
            raise Refused(
                "RefusedLoadBack", "the cache loads nothing" + (" although there is something" if wanted else "")
            )
        slots = self._device_room(count, transfers, holder)
        self.call("dec_lock_ref", handle, receipt)
        if slots is None:
            self._call_off(node, None, host_receipt, "abort_load_back", {"holder": holder})
            raise Refused("RefusedNoRoom", f"no device slots for {count} tokens")
        copy = Copy("load-back", holder, handle)
        given = self._sources(copy, full, slots, transfers, node)
        before = self._anchors.get(handle)
        self._anchors[handle] = holder
        try:
            actions = self.call("commit_load_back", handle, self.tensor(slots), full, transfers)
        except TargetCrashed as crash:
            told = {**args, **self.tops(node)}
            self.emit("commit_load_back", told, [node], outcome="refused", reason=f"assertion: {crash}")
            raise
        self.act(list(actions))
        receipt = self.call("inc_lock_ref", handle).to_dec_params()
        if handle in self.loading:
            self.report("overwritten", f"node {node.id} is anchor of load-backs {before} and {holder} at once")
        self.loading[handle] = (copy, receipt, host_receipt)
        self.loads.append(copy)
        changes = self.look(lambda each, _, name: given[each, name])
        for change in changes:
            if change.what == "came":
                self.came(change)
        args |= self.tops(node)
        self.emit("commit_load_back", args, [node, *dict.fromkeys(change.node for change in changes)])
        return {"holder": holder, "tokens": count}

    def _call_off(self, node: Node, receipt: Any, host_receipt: Any, action: str, args: dict[str, Any]) -> None:
        if receipt is not None:
            self.call("dec_lock_ref", node.handle, receipt)
        self.call("dec_host_lock_ref", node.handle, host_receipt)
        self.look()
        self.emit(action, args, [node])

    def _wanted(self, node: Node) -> list[tuple[Node, str]]:
        """What the request needs and has on the host alone."""
        wanted = [(each, "full") for each in node.path() if "full" not in each.device]
        if "swa" in self.components:
            wanted += [(e, "swa") for e in node.window(self.window) if "swa" not in e.device and "swa" in e.host]
        if "mamba" in self.components and "mamba" not in node.device and "mamba" in node.host:
            wanted.append((node, "mamba"))
        return wanted

    def _device_room(self, count: int, transfers: dict[Any, list[Any]], holder: int) -> Slots | None:
        owner = ("holder", holder)
        full = self.room("full", count, owner)
        if full is None:
            return None
        taken = [("full", full)]
        for which, parts in transfers.items():
            name = self.core.names[which]
            for part in parts:
                if part.device_indices is not None or part.host_indices is None:
                    continue
                slots = self.pools["device", name].take(part.host_indices.numel(), owner)
                if slots is None:
                    self.evict({name: part.host_indices.numel()})
                    slots = self.pools["device", name].take(part.host_indices.numel(), owner)
                if slots is None:
                    for other, given in taken:
                        self.free("device", other, given)
                    return None
                self.row("take", "device", name, slots, owner)
                part.device_indices = self.tensor(slots)
                taken.append((name, slots))
        return full

    def _sources(
        self, copy: Copy, full: Any, slots: Slots, transfers: dict[Any, list[Any]], node: Node
    ) -> dict[tuple[Node, str], Slots]:
        given: dict[tuple[Node, str], Slots] = {}
        read, offset = full.host_indices.tolist(), 0
        for handle in full.nodes_to_load or ():
            each = self.tree.handles[handle]
            span = slice(offset, offset + len(each.tokens))
            offset += len(each.tokens)
            given[each, "full"] = slots[span]
            codes = list(each.codes)
            copy.add(self.pools["host", "full"], read[span], self.pools["device", "full"], slots[span], codes)
        for which, parts in transfers.items():
            for part in parts:
                self._spread(copy, node, self.core.names[which], part, given, "host")
        return given

    def _ack_load(self) -> None:
        copy = self.loads.pop(0)
        copy.execute(self.report)
        booked = self.loading.pop(copy.handle, None)
        if booked is None:
            raise TargetCrashed(f"ack of holder {copy.holder}: the cache has no load-back booked under that anchor")
        _, receipt, host_receipt = booked
        node = self.tree.handles[copy.handle]
        self.call("dec_lock_ref", copy.handle, receipt)
        self.call("dec_host_lock_ref", copy.handle, host_receipt)
        if hasattr(self.core.tree, "finish_load_back"):
            self.call("finish_load_back", copy.handle)
        copy.finish()
        self._arrived(copy)
        self.look()
        self._anchors.pop(copy.handle, None)
        self.emit("ack_load_back", {"node": node.id, "holder": copy.holder}, [node])

    # ---- time ----

    def queue(self) -> list[Copy]:
        """Every copy in flight, backups first, in the order of their acks."""
        return [*self.writes, *self.loads]

    def op_step(self, choice: int = 0) -> dict[str, Any]:
        """Execute one queued copy (its ack comes with `poll`)."""
        waiting = [copy for copy in self.queue() if not copy.done]
        if waiting:
            waiting[choice % len(waiting)].execute(self.report)
        return {"waiting": max(0, len(waiting) - 1)}

    def op_poll(self, kind: str | None = None, count: int | None = None) -> dict[str, Any]:
        """Deliver the acks of `kind` (``backup``, ``load_back``, ``storage``, or all), at most `count` of each."""
        delivered: dict[str, int] = {}
        for name, queue, ack in self.queues():
            if kind not in (None, name):
                continue
            delivered[name] = 0
            while queue and (count is None or delivered[name] < count):
                ack()
                delivered[name] += 1
        return delivered

    def queues(self) -> list[tuple[str, list[Any], Any]]:
        """The queues of copies in flight with what delivers the next ack of each."""
        return [("backup", self.writes, self._ack_backup), ("load_back", self.loads, self._ack_load)]

    def store(self, handle: Any) -> None:
        """Write a node to storage (see `op_storage.py`)."""
        raise NotImplementedError
