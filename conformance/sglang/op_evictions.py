"""Eviction from both tiers, as the server drives it (runs inside the environment)."""

from __future__ import annotations

from typing import Any

from .actions import Actions
from .base import Change, Refused
from .tree import Node


class Evictions(Actions):
    """Device eviction, component by component; host eviction with the reclaim of duplicates."""

    def op_evict(self, component: str, pages: int) -> dict[str, Any]:
        """Evict at least that many pages (states, for mamba) of a component from device, as far as there are any."""
        return self.op_evict_several({component: pages})

    def op_evict_several(self, pages: dict[str, int], steps: int | None = None) -> dict[str, Any]:
        """Evict pages (states) of several components in one go; `steps`: a walk stops after so many victims."""
        wanted = {name: count * (1 if name == "mamba" else self.page) for name, count in pages.items()}
        for name in wanted:
            self._known(name)
        return {"freed": self.evict(wanted, steps)}

    def op_evict_host(self, component: str, pages: int) -> dict[str, Any]:
        """Evict pages (states) of a component from the host; under write_back duplicates of full go first."""
        self._known(component)
        return {"freed": self.evict_host(component, pages * (1 if component == "mamba" else self.page))}

    def op_reclaim(self, pages: int) -> dict[str, Any]:
        """Ask for host pages of full: under write_back the core reclaims duplicates before it evicts leaves."""
        if not self.write_back:
            raise Refused("RefusedPolicy", "only write_back reclaims duplicates")
        return {"freed": self.evict_host("full", pages * self.page)}

    def _known(self, component: str) -> None:
        if component not in self.components:
            raise Refused("RefusedComponent", f"there is no component {component!r}")

    backups: dict[Any, Any]
    """Backups in flight (see `op_backups.py`)."""

    # ---- device ----

    def evict(self, wanted: dict[str, int], steps: int | None = None) -> dict[str, int]:
        """Evict `wanted` slots by component, or what so many steps of each walk bring; return what was freed."""
        tracker = dict.fromkeys(self.core.types.values(), 0)
        self._declined: set[int] = set()
        settled = not self.backups
        for name, which in self.core.types.items():
            count = wanted.get(name, 0)
            if tracker[which] >= count:
                continue
            self.call("evict_device_start", which, count)
            try:
                taken = 0
                while taken != steps and self._evict_step(which, tracker):
                    taken += 1
            finally:
                if self.dead is None:
                    self.call("evict_device_end", which)
        if self.write_back:
            self.drain_backups()
        for name, which in self.core.types.items():
            # What a backup in flight still locked when the walk began is no victim of it.
            if settled and steps is None and tracker[which] < wanted.get(name, 0):
                self._passed_over(name)
        return {name: tracker[which] for name, which in self.core.types.items()}

    def _passed_over(self, name: str) -> None:
        """Eviction has freed less of a component than it was asked for: report what it could have taken."""
        for node in self.tree.nodes.values():
            # The Rust core shows the locks of full alone, which come with any other.
            locked = node.lock.get(name) if "lock" in self.eyes.sees else node.lock
            below = name == "full" and any("full" in child.device for child in node.children.values())
            if name in node.device and node.parent is not None and not (locked or below or node.id in self._declined):
                self.report(
                    "passed over", f"{name} of (node {node.id}) is on device, nobody locks it, and it stays there"
                )

    def _evict_step(self, which: Any, tracker: dict[Any, int]) -> bool:
        """One step of the walk; False when it is exhausted."""
        step = self.call("evict_device_next_node", which, tracker)
        for field, name, finish in (
            ("mamba_backup_node_id", "mamba", "finish_mamba_state_eviction"),
            ("swa_backup_node_id", "swa", "finish_swa_state_eviction"),
        ):
            handle = getattr(step, field, None)
            if handle is not None:
                needed = 1 if name == "mamba" else step.swa_backup_num_tokens
                if self.pools["host", name].available() < needed:
                    self.evict_host(name, needed)
                self.backup_now(handle)
                step = self.call(finish, handle)
        self._settle(step, tracker)
        if step.node_id is not None:
            self._evict_leaf(step.node_id, tracker)
            return True
        return bool(getattr(step, "made_progress", False))

    def _evict_leaf(self, handle: Any, tracker: dict[Any, int]) -> None:
        leaf = self.call("evict_device_leaf", handle, self.write_back)
        backup = leaf.backup_kv
        self._settle(leaf, tracker)
        if backup is None:
            return
        node = self.tree.handles[handle]
        if self.backup_chain(list(backup.node_ids), write_back=True) > 0:
            self.drain_backups()
            self._settle(self.call("demote", handle), tracker)
            return
        dropped = self.call("drop_subtree_no_host", handle)
        if dropped.is_dropped:
            self._settle(dropped, tracker, drop=node)
        else:
            self._settle(dropped, tracker)
            self._declined.add(node.id)
            self.emit("drop_subtree", {"node": node.id}, [node], outcome="refused", reason="locked")

    def _settle(self, step: Any, tracker: dict[Any, int], drop: Node | None = None) -> None:
        """Free what a step returned, count it, and tell what it did."""
        for which, count in step.tracker.items():
            tracker[which] += count
        self.drain(step)
        self.evictions(self.look(), drop)

    # ---- host ----

    def evict_host(self, name: str, count: int) -> int:
        """Evict `count` slots of a component from the host; return what was freed."""
        which = self.core.types[name]
        result = self.call("drive_host_eviction", which, count)
        freed = result.tracker.get(which, 0)
        self.drain(result)
        self.evictions(self.look())
        if name == "full" and freed < count and "host_lock" in self.eyes.sees:
            for node in self.tree.nodes.values():
                locked = "full" in node.device or node.lock or node.host_lock or node.children
                if "full" in node.host and not locked:
                    self.report(
                        "passed over", f"(node {node.id}) is on the host alone, nobody locks it, and it stays there"
                    )
        return int(freed)

    # ---- events ----

    def evictions(self, changes: list[Change], drop: Node | None = None) -> None:
        """Emit what an eviction did, each node's loss as one event, the lowest nodes first."""
        gone = [change.node for change in changes if change.what == "gone"]
        lost: dict[Node, list[tuple[str, str]]] = {}
        for change in changes:
            if change.what == "left" and change.node not in gone:
                lost.setdefault(change.node, []).append((change.tier, change.component))
            elif change.what in ("came", "leaf"):
                self.report("unexpected", f"an eviction made a copy appear: {change}")
        if drop is not None and drop in gone:
            self._drop(drop, gone)
            gone = [node for node in gone if node.id in self.tree.nodes]
        for node in sorted(lost, key=lambda node: -node.end):
            self._lose(node, lost.pop(node), [*lost, *gone])
        for node in gone:
            action = "delete_leaf" if "full" in node.device else "evict_host_leaf"
            if action == "delete_leaf" and "full" in node.host:
                self.report("unexpected", f"node {node.id} was deleted with full on both tiers")
            self.gone(node)
            following = gone[gone.index(node) + 1 :]
            self.emit(action, {"node": node.id}, [node], rows="own", later=following)

    def _drop(self, top: Node, gone: list[Node]) -> None:
        below = [node for node in gone if node is top or top in node.path()]
        for node in below:
            self.gone(node)
        self.emit("drop_subtree", {"node": top.id}, below, rows="own")

    def _lose(self, node: Node, parts: list[tuple[str, str]], later: list[Node]) -> None:
        """What a node that stays has lost, as events."""
        if ("device", "full") in parts:
            lost = [part for part in parts if part[0] == "device"]
            for tier, name in lost:
                self.left(node, tier, name)
            self.emit("demote", {"node": node.id}, [node], rows="own", later=later, copies=lost)
            parts = [part for part in parts if part[0] == "host"]
        for tier, name in parts:
            self.left(node, tier, name)
            action = "evict_device_aux" if tier == "device" else "evict_host_aux"
            args: dict[str, Any] = {"node": node.id, "component": name}
            if tier == "host" and name == "full":
                action, args = "reclaim_duplicate", {"node": node.id}
            self.emit(action, args, [node], rows="own", later=later, copies=[(tier, name)])

    # ---- elsewhere ----

    def drain_backups(self) -> None:
        """Wait for every backup in flight and deliver its ack (see `op_backups.py`)."""
        raise NotImplementedError

    def backup_now(self, handle: Any) -> bool:
        """Back one node up and wait for it (see `op_backups.py`)."""
        raise NotImplementedError
