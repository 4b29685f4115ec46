"""Copies to the host: backups under each policy, and their acks (runs inside the environment).

A copy is queued, executed later (`step`, or at the latest by its ack) and acknowledged in the order of the queue, as
the server polls them. Its bytes move when it is executed, slot by slot, and are compared with what was written there.
"""

from __future__ import annotations

from collections.abc import Iterator
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


class Backups(Evictions):
    """Backups, and what they have in common with load-backs."""

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
        for name, part in self.without(transfers, "host_indices", "device_indices"):
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

    def without(self, transfers: dict[Any, list[Any]], there: str, here: str) -> Iterator[tuple[str, Any]]:
        """The parts of transfers, with their component, that know where from (`here`) and not where to (`there`)."""
        for which, parts in transfers.items():
            for part in parts:
                if getattr(part, there) is None and getattr(part, here) is not None:
                    yield self.core.names[which], part

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

    def store(self, handle: Any) -> None:
        """Write a node to storage (see `op_storage.py`)."""
        raise NotImplementedError
