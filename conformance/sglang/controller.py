"""The controller: what SGLang's cache does, once for all its releases, around either core (inside the environment)."""

from __future__ import annotations

from typing import Any

from .base import Refused, TargetCrashed
from .op_storage import Storage
from .tree import Node, Tree

OPERATIONS = [
    "match",
    "lock",
    "lock_without_state",
    "pin_full",
    "unlock",
    "release_window",
    "forward",
    "insert",
    "recompute",
    "extend",
    "attach_window",
    "backup",
    "load_back",
    "evict",
    "evict_several",
    "evict_host",
    "reclaim",
    "prefetch",
    "finish_prefetch",
    "storage_backup",
    "step",
    "poll",
    "fail",
    "abort",
    "reset",
    "audit",
    "nodes",
]


class Controller(Storage):
    """All operations. `run` does one and returns the answer of the worker protocol, without its id."""

    def run(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Do operation `name`; never raises."""
        if name not in OPERATIONS:
            return {
                "ok": False,
                "error": {"type": "RefusedOperation", "message": f"no operation {name!r}"},
                "events": [],
            }
        if self.dead is not None:
            message = f"the core is dead: {self.dead}"
            return {"ok": False, "error": {"type": "TargetCrashed", "message": message}, "events": []}
        self.begin_operation()
        answer: dict[str, Any]
        try:
            answer = {"ok": True, "result": getattr(self, f"op_{name}")(**arguments)}
        except Refused as refused:
            answer = {"ok": False, "error": {"type": refused.kind, "message": str(refused)}}
        except TargetCrashed as crash:
            self.dead = self.dead or str(crash)
            answer = {"ok": False, "error": {"type": "TargetCrashed", "message": str(crash)}}
        except TypeError as error:
            if "op_" not in str(error):
                raise
            answer = {"ok": False, "error": {"type": "ArgumentError", "message": str(error)}}
        if self.dead is None:
            self.end_operation()
        answer["events"] = self.events
        if self.violations:
            answer["violations"] = self.violations
        return answer

    def op_reset(self) -> dict[str, Any]:
        """Drop the whole tree. Refused while anything is held or in flight, as the server refuses to flush then."""
        if self.locks or self.writes or self.loads or self.stores or self.prefetches:
            raise Refused("RefusedBusy", "something is held or in flight")
        for node in list(self.tree.nodes.values()):
            for tier, held in (("device", node.device), ("host", node.host)):
                for name, slots in held.items():
                    for owner, freed in self.pools[tier, name].give(slots):
                        self.row("give", tier, name, freed, owner)
        for pool in self.pools.values():
            pool.released.clear()
        self.swa_of.clear()
        self.call("reset")
        handle, key = self.eyes.root()
        following = self.tree._next
        gone = [node for node in self.tree.nodes.values() if node.parent is not None]
        self.tree = Tree(handle, key)
        self.tree._next = following
        self._unshown = set()
        self.emit("reset", {}, gone)
        return {}

    def op_nodes(self) -> dict[str, Any]:
        """Every node: its tokens and its state."""
        found = {}
        for node in self.tree.nodes.values():
            if node.parent is not None:
                found[str(node.id)] = {
                    "parent": node.parent.id,
                    "tokens": list(node.prefix()),
                    "state": self._state(node),
                }
        return {"nodes": found}

    def op_audit(self) -> dict[str, Any]:
        """Compare everything with everything: owners, the core's own slots, bytes at rest, the core's own check."""
        problems: list[str] = []
        held: dict[tuple[str, str], dict[int, int]] = {key: {} for key in self.pools}
        for node in self.tree.nodes.values():
            if node.parent is None:
                continue
            self._audit_node(node, held, problems)
        for key, pool in self.pools.items():
            for slot, owner in enumerate(pool.owner):
                if owner is not None and owner[0] == "node" and held[key].get(slot) != owner[1]:
                    problems.append(f"slot {slot} of the {pool} is owned by node {owner[1]}, which does not have it")
        idle = not (self.locks or self.writes or self.loads or self.stores or self.prefetches)
        if idle:
            for pool in self.pools.values():
                left = {owner for owner in pool.owner if owner is not None and owner[0] == "holder"}
                problems.extend(f"holder {owner[1]} is gone and still owns slots of the {pool}" for owner in left)
            for node in self.tree.nodes.values():
                if node.lock or node.host_lock or node.pin is not None or node.pending is not None:
                    problems.append(f"nothing is in flight and node {node.id} is {self._state(node)}")
        for name in self.components:
            self._audit_sizes(name, problems)
        if self.loads or self.stores or self.prefetches:
            # The core's own check is wrong about what is in flight (reports B38, B72): servers run it idle.
            return {"problems": problems, "idle": idle}
        writing = [(backup.handle, backup.handle) for backup in self.backups.values() if backup.receipt is not None]
        try:
            self.calls["sanity_check"] += 1
            self.core.tree.sanity_check(writing, [(handle, handle) for handle in self.loading])
        except AssertionError as error:
            problems += self._insane(str(error))
        except BaseException as error:
            self.dead = f"sanity_check: {error}"
            problems.append(self.dead)
        return {"problems": problems, "idle": idle}

    def _audit_sizes(self, name: str, problems: list[str]) -> None:
        """The core's running totals, by which the server decides what it can admit, against what is there."""
        total = protected = 0
        for node in self.tree.nodes.values():
            count = len(node.device.get(name, ()))
            total += count
            protected += count if node.lock.get(name) else 0
        which = self.core.types[name]
        if hasattr(self.core.tree, "component_protected_size"):
            told = [self.call(f"component_{kind}_size", which) for kind in ("evictable", "protected")]
        else:
            told = [self.call(f"{name}_{kind}_size") for kind in ("evictable", "protected")]
        seen = "lock" in self.eyes.sees or f"lock.{name}" in self.eyes.sees
        if sum(told) != total or (seen and told[1] != protected):
            problems.append(
                f"the core counts {told} slots of {name} as evictable and protected, of {total}, {protected}"
            )

    def _insane(self, said: str) -> list[str]:
        """What the core's own check found, as one problem.

        0.5.17 does not know that under write_back an auxiliary host copy may be there without that of full, while
        full is on device: its successors allow just this.
        """
        lines = [line.strip() for line in said.splitlines()]
        if self.write_back and not hasattr(self.core.tree, "full_host_duplicates") and self.core.kind == "python":
            lines = [line for line in lines if "host present but Full.host_value=None" not in line]
            if len(lines) == 1 and lines[0].startswith("Sanity check FAILED"):
                return []
        return [f"sanity_check: {' '.join(lines)}"]

    def _audit_node(self, node: Node, held: dict[tuple[str, str], dict[int, int]], problems: list[str]) -> None:
        theirs = self.eyes.slots(node) if node.handle is not None else None
        for tier, mine in (("device", node.device), ("host", node.host)):
            for name, slots in mine.items():
                pool = self.pools[tier, name]
                for slot, code in zip(slots, node.expected(name), strict=True):
                    if held[tier, name].setdefault(slot, node.id) != node.id:
                        problems.append(f"slot {slot} of the {pool} is in nodes {held[tier, name][slot]} and {node.id}")
                    if pool.owner[slot] != ("node", node.id):
                        problems.append(
                            f"slot {slot} of the {pool} is in node {node.id} and owned by {pool.owner[slot]}"
                        )
                    if slot not in pool.landing and pool.content[slot] != code:
                        problems.append(f"slot {slot} of the {pool} has wrong bytes for node {node.id}")
                if theirs is not None and theirs[tier].get(name, slots) != slots:
                    problems.append(
                        f"the core has slots {theirs[tier][name]} for {name} of node {node.id}, not {slots}"
                    )
