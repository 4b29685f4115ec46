"""The actions that the core hands to its cache, executed (runs inside the environment)."""

from __future__ import annotations

from typing import Any

from .op_inserts import Inserts
from .tree import Node, Slots


class Actions(Inserts):
    """Executes the core's actions in their order, each with the effect it has in the server."""

    def act(self, actions: list[Any]) -> None:
        """Execute the actions of the core in their order."""
        for action in actions:
            kind = type(action).__name__
            method = getattr(self, f"_act_{kind}", None)
            self.calls[f"action {kind}"] += 1
            if method is None:
                raise NotImplementedError(f"the core asks for an action this controller does not know: {kind}")
            method(action)

    def _act_FreeDeviceKV(self, action: Any) -> None:
        for indices in action.indices:
            slots = indices.tolist()
            if "swa" in self.components:
                self.free_swa_behind(slots)
            self.free("device", "full", slots)

    def _act_FreeDeviceKVFullOnly(self, action: Any) -> None:
        for indices in action.indices:
            slots = indices.tolist()
            paired = [slot for slot in slots if slot in self.swa_of]
            if paired:
                self.report("orphaned", f"full slots {paired} are freed alone, and SWA slots are still behind them")
            self.free("device", "full", slots)

    def _act_FreeComponentDeviceSlot(self, action: Any) -> None:
        name = self.core.names[action.component_type]
        for indices in action.indices:
            if name == "swa":
                self.free_swa_behind(indices.tolist())
            else:
                self.free("device", name, indices.tolist())

    def _act_FreeComponentHostSlot(self, action: Any) -> None:
        name = self.core.names[action.component_type]
        for indices in action.host_indices:
            if indices is not None and indices.numel():
                self.free("host", name, indices.tolist())

    def _act_SWARebuild(self, action: Any) -> None:
        node = self._node_of(action.node_id)
        source = action.source_value.tolist()
        if source != node.device.get("full"):
            self._replace_full(node, source)
        self._attach_swa(node, self._behind(source))

    def _act_RecoverSWAWithLockedFull(self, action: Any) -> None:
        node = self._node_of(action.node_id)
        kept, incoming = action.kept_full.tolist(), action.incoming_full.tolist()
        swa = self._behind(incoming)
        for slot in incoming:
            self.swa_of.pop(slot, None)
        self._pair(kept, swa)
        self.free("device", "full", incoming)
        self._attach_swa(node, swa)

    def _act_RecoverEvictedSWA(self, action: Any) -> None:
        kept, incoming = action.kept_full.tolist(), action.incoming_full.tolist()
        swa = self._behind(incoming)
        for slot in incoming:
            self.swa_of.pop(slot, None)
        self._pair(kept, swa)

    def _act_RebuildFullToSWAMapping(self, action: Any) -> None:
        for full, swa in zip(action.full_indices, action.swa_indices, strict=True):
            self._pair(full.tolist(), swa.tolist())

    def _act_BackupKV(self, action: Any) -> None:
        self.backup_chain(list(action.node_ids), write_back=False)

    def _act_UpdatePendingBackupOnNodeSplit(self, action: Any) -> None:
        if action.ack_id is not None:
            self.split_pending(action.ack_id, action.old_node_id, [action.new_node_id, action.new_child_node_id])

    _act_ReplaceWriteThroughOnNodeSplit = _act_UpdatePendingBackupOnNodeSplit

    def _act_MambaEvictExcessPathStates(self, action: Any) -> None:
        from inspect import signature

        step = self.core.EvictionResult.BaseEvictionResult()
        arguments = [action.tail_node_id, step.device_frees, step.host_frees]
        if not hasattr(self.core.tree, "evict_excess_path_states"):  # 0.5.17 keeps it in the component
            component = self.core.tree.components_by_type[self.core.types["mamba"]]
            component._evict_excess_path_states(self.core.tree.node_by_id(action.tail_node_id), *arguments[1:])
        elif "cache_actions" in signature(self.core.tree.evict_excess_path_states).parameters:
            self.call("evict_excess_path_states", *arguments, step.cache_actions)
        else:
            self.call("evict_excess_path_states", *arguments)
        self.drain(step)
        self.evictions(self.look())

    # ---- pieces ----

    def _node_of(self, handle: Any) -> Node:
        """The node that the core names; new ones are taken into the picture first."""
        if handle not in self.tree.handles:
            self.arrivals(self.look(self._provide_insert, self._path))
        return self.tree.handles[handle]

    def _behind(self, full: Slots) -> Slots:
        """The SWA slots behind full slots; reports where there are none (the server would use its padding slot)."""
        missing = [slot for slot in full if slot not in self.swa_of]
        if missing:
            self.report("no SWA behind", f"the core takes the SWA slots behind full slots {missing}: there are none")
        return [self.swa_of.get(slot, 0) for slot in full]

    def _pair(self, full: Slots, swa: Slots) -> None:
        lost = [slot for slot, new in zip(full, swa, strict=True) if self.swa_of.get(slot, new) != new]
        if lost:
            self.report("leak", f"full slots {lost} get other SWA slots, and those behind them were not freed")
        self.swa_of.update(zip(full, swa, strict=True))

    def _replace_full(self, node: Node, slots: Slots) -> None:
        """The node's full copy is now the request's own slots; the old ones must have been freed."""
        pool = self.pools["device", "full"]
        for slot in node.device.get("full", ()):
            if pool.released.pop(slot, None) is None and pool.owner[slot] == ("node", node.id):
                self._leaks.append((pool, slot, node.id))
        node.device["full"] = slots
        pool.move(slots, ("node", node.id))
        self.row("move", "device", "full", slots, ("node", node.id))

    def _attach_swa(self, node: Node, swa: Slots) -> None:
        self.call("set_component_device_value", node.handle, self.core.types["swa"], self.tensor(swa))
        self._rebuilt = swa
        self.arrivals(self.look(self._provide_attach, self._path))

    def _provide_attach(self, node: Node, tier: str, name: str) -> Slots:
        return self._rebuilt if name == "swa" else self._provide_insert(node, tier, name)

    def backup_chain(self, handles: list[Any], write_back: bool) -> int:
        """Back nodes up in order, stopping at the first that cannot (see `op_backups.py`)."""
        raise NotImplementedError

    def split_pending(self, ack: Any, old: Any, new: list[Any]) -> None:
        """A node of a backup in flight was split (see `op_backups.py`)."""
        raise NotImplementedError
