"""Copies to the device, and the time that passes for all of them (runs inside the environment)."""

from __future__ import annotations

from typing import Any

from .base import Refused, TargetCrashed
from .op_backups import Backups, Copy
from .tree import Node, Slots


class Copies(Backups):
    """Load-backs, and the queues of all copies."""

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
        for name, part in self.without(transfers, "device_indices", "host_indices"):
            size = part.host_indices.numel()
            slots = self.pools["device", name].take(size, owner)
            if slots is None:
                self.evict({name: size})
                slots = self.pools["device", name].take(size, owner)
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
