"""What requests do with what is there: match, lock, read, release (runs inside the environment)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .base import ROOT_REFUSED, Base, Change, Refused
from .tree import Node, Slots


class Lock:
    """A request's lock: the receipt of the core, and the slots under it."""

    __slots__ = ("holder", "how", "inserted", "node", "receipt", "released", "slots")

    def __init__(self, holder: int, node: Node, receipt: Any, how: str = "lock") -> None:
        self.holder, self.node, self.receipt, self.how = holder, node, receipt, how
        self.released = False
        self.slots: list[tuple[str, Slots]] = []
        self.inserted = 0

    def components(self, known: tuple[str, ...]) -> tuple[str, ...]:
        """Those that it locks."""
        left_out = {"lock": (), "lock_without_state": ("mamba",), "pin_full": ("swa", "mamba")}[self.how]
        return tuple(name for name in known if name not in left_out)


class Requests(Base):
    """Operations of requests, and the actions that the core hands to its cache."""

    def start_operations(self) -> None:
        """Set up what is empty when no request is there."""
        super().start_operations()
        self.locks: dict[int, Lock] = {}
        self._priority = 0

    # ---- match ----

    def op_match(self, tokens: list[int]) -> dict[str, Any]:
        """Longest cached prefix. `node`: deepest valid node on device; `host_node`: on either tier (may be loaded)."""
        result = self._match(tokens)
        return {
            "node": self.tree.handles[result.last_device_node].id,
            "host_node": self.tree.handles[result.best_match_node].id,
            "device_tokens": self._device_tokens(result),
            "host_tokens": result.host_hit_length,
        }

    def _match(self, tokens: list[int] | tuple[int, ...]) -> Any:
        result = self.call("match_prefix", self.core.MatchPrefixParams(key=self.key(tokens)))
        actions = list(result.cache_actions or ())
        if actions:
            self.act(actions)
        self.splits(self.look())
        usable = self._usable(tuple(tokens[: len(tokens) - len(tokens) % self.page]))
        found = [self.tree.handles[n].id for n in (result.last_device_node, result.best_match_node)]
        if found != usable:
            self.report("match", f"a match ends at nodes {found} (device, either tier), and could at {usable}")
        return result

    def _usable(self, tokens: tuple[int, ...]) -> list[int]:
        """The deepest nodes at which a request can go on: from what is on device, and from what is on either tier."""
        path: list[Node] = [self.tree.root]
        while path[-1].end < len(tokens):
            rest = tokens[path[-1].end :]
            below = [n for n in path[-1].children.values() if n.tokens == rest[: len(n.tokens)]]
            if not below or not ("full" in below[0].device or "full" in below[0].host):
                break
            path.append(below[0])
        return [self._deepest(path, lambda node, name: name in node.device), self._deepest(path, self._somewhere)]

    @staticmethod
    def _somewhere(node: Node, name: str) -> bool:
        return name in node.device or name in node.host

    def _deepest(self, path: list[Node], there: Callable[[Node, str], bool]) -> int:
        """The last node of a path with its full, a whole window up to it (or up to the root), and its state."""
        last, unbroken = path[0], float("inf")
        for node in path[1:]:
            unbroken = unbroken + len(node.tokens) if there(node, "swa") else 0
            enough = "swa" not in self.components or (there(node, "swa") and unbroken >= self.window)
            if there(node, "full") and enough and ("mamba" not in self.components or there(node, "mamba")):
                last = node
        return last.id

    @staticmethod
    def _device_tokens(result: Any) -> int:
        length = getattr(result, "device_prefix_len", None)
        return len(result.device_indices) if length is None else int(length)

    def splits(self, changes: list[Change]) -> list[Change]:
        """Emit the splits among `changes`; return the rest."""
        rest = []
        made = [change.other for change in changes if change.other is not None]
        for change in changes:
            if change.what == "split":
                assert change.other is not None
                nodes = [change.node, change.other]
                made.remove(change.other)
                self.emit("split", {"node": nodes[0].id, "prefix": nodes[1].id}, nodes, later=made)
            else:
                rest.append(change)
        return rest

    # ---- locks ----

    def op_lock(self, node: int) -> dict[str, Any]:
        """Lock a node for a request (its path for full, its window for swa, itself for mamba)."""
        return {"holder": self._lock(self.node(node)).holder}

    def op_lock_without_state(self, node: int) -> dict[str, Any]:
        """Lock a node for a request that has its own copy of the Mamba state, and leaves the node's to be evicted."""
        if "mamba" not in self.components:
            raise Refused("RefusedComponent", "there is no state")
        return {"holder": self._lock(self.node(node), "lock_without_state").holder}

    def op_pin_full(self, node: int) -> dict[str, Any]:
        """Lock full of the path of a node alone; the holder is unlocked like a request."""
        if not hasattr(self.core.tree, "inc_full_pin"):
            raise Refused("RefusedOperation", "before 0.5.20 there is no such pin")
        return {"holder": self._lock(self.node(node), "pin_full").holder}

    def _lock(self, node: Node, how: str = "lock") -> Lock:
        if node.parent is None and how != "lock":
            raise Refused(ROOT_REFUSED, "the root needs no such lock")
        for above in node.path():
            if "full" not in above.device:
                raise Refused("RefusedEvicted", f"node {above.id} on the path of node {node.id} is not on device")
        receipt = None
        if how == "pin_full":
            self.call("inc_full_pin", node.handle)
        elif how == "lock":
            receipt = self.call("inc_lock_ref", node.handle).to_dec_params()
        else:
            receipt = self.call("inc_lock_ref", node.handle, (self.core.types["mamba"],)).to_dec_params()
        lock = Lock(self.new_holder(), node, receipt, how)
        self.locks[lock.holder] = lock
        self._guard(lock)
        self.look()
        args = {"node": node.id, "holder": lock.holder, **({} if how == "pin_full" else self.tops(node))}
        self.emit(how, args, [node])
        return lock

    def _guard(self, lock: Lock) -> None:
        """Put the pools on guard over what the lock protects: what of it is freed meanwhile is a violation."""
        for above in lock.node.path():
            lock.slots.append(("full", list(above.device.get("full", ()))))
        if "swa" in lock.components(self.components):
            for above in lock.node.window(self.window):
                lock.slots.append(("swa", list(above.device.get("swa", ()))))
        if "mamba" in lock.components(self.components):
            lock.slots.append(("mamba", list(lock.node.device.get("mamba", ()))))
        for name, slots in lock.slots:
            locks = self.pools["device", name].locks
            for slot in slots:
                locks[slot] += 1

    def _unguard(self, lock: Lock, only: tuple[str, ...] = ("full", "swa", "mamba")) -> None:
        kept = []
        for name, slots in lock.slots:
            if name not in only:
                kept.append((name, slots))
                continue
            locks = self.pools["device", name].locks
            for slot in slots:
                locks[slot] -= 1
        lock.slots = kept

    def _holder(self, holder: int) -> Lock:
        lock = self.locks.get(holder)
        if lock is None:
            raise Refused("RefusedHolder", f"holder {holder} is no request's lock")
        return lock

    def op_unlock(self, holder: int) -> dict[str, Any]:
        """Give back a request's lock."""
        self._unlock(self._holder(holder))
        return {}

    def _unlock(self, lock: Lock) -> None:
        del self.locks[lock.holder]
        self._unguard(lock)
        if lock.how == "pin_full":
            self.call("dec_full_pin", lock.node.handle)
        else:
            self.call("dec_lock_ref", lock.node.handle, lock.receipt, lock.released)
        self.look()
        self.emit("unlock", {"holder": lock.holder}, [lock.node])

    def op_release_window(self, holder: int) -> dict[str, Any]:
        """The request's window has moved past its locked prefix: give back the SWA part of the lock, once."""
        lock = self._holder(holder)
        if "swa" not in lock.components(self.components):
            raise Refused("RefusedComponent", "there is no sliding window, or it is not locked")
        if lock.released:
            raise Refused("RefusedReleased", f"holder {holder} has given back its window")
        if self._window_receipt(lock.receipt) is None:
            raise Refused(
                "RefusedShort", f"the lock of holder {holder} covers less than a window: never given back early"
            )
        # The core gives back the Mamba lock of the node with it.
        self._unguard(lock, ("swa", "mamba"))
        if hasattr(lock.receipt, "node_id"):
            result = self.call("dec_swa_lock_only", lock.node.handle, lock.receipt)
        else:
            skipped = lock.receipt.skip_lock_node_ids
            result = self.call("dec_swa_lock_only", lock.node.handle, lock.receipt.swa_uuid_for_lock, skipped)
        lock.released = True
        self.drain(result)
        changes = self.look()
        self.emit("release_window", {"node": lock.node.id, "holder": holder}, [lock.node])
        self.evictions(changes)
        return {}

    def _window_receipt(self, receipt: Any) -> Any:
        """The boundary of the SWA lock in a receipt; None when the lock reaches the root."""
        if hasattr(receipt, "component_lock_uuids"):
            return receipt.component_lock_uuids.get(self.core.types["swa"])
        return receipt.swa_uuid_for_lock

    def op_forward(self, holder: int) -> dict[str, Any]:
        """The request reads its locked prefix: all of it must have arrived, and say what was written."""
        lock = self._holder(holder)
        args = {"node": lock.node.id, "holder": holder}
        parts = [(above, "full") for above in lock.node.path()]
        if "swa" in lock.components(self.components) and not lock.released:
            parts += [(above, "swa") for above in self._window_read(lock)]
        guarded = ("mamba" in lock.components(self.components) and self.counts_tombstones) or any(
            name == "mamba" and slots for name, slots in lock.slots
        )
        if guarded and "mamba" in lock.node.device and not lock.released:
            parts.append((lock.node, "mamba"))
        for node, name in parts:
            pool, slots = self.pools["device", name], node.device.get(name, [])
            if any(slot in pool.landing for slot in slots):
                self.emit("forward", args, [lock.node], outcome="refused", reason=f"{name} of node {node.id} in flight")
                raise Refused("RefusedInFlight", f"{name} of node {node.id} is still being loaded")
        for node, name in parts:
            self.read(node, "device", name, "a request")
        self.emit("forward", args, [lock.node])
        return {}

    def _window_read(self, lock: Lock) -> list[Node]:
        """The nodes whose window slots the request may read: those that its lock is on."""
        if self.counts_tombstones:
            return [above for above in lock.node.window(self.window) if "swa" in above.device]
        locked = {slot for name, slots in lock.slots if name == "swa" for slot in slots}
        return [above for above in lock.node.path() if locked.intersection(above.device.get("swa", ()))]

    def read(self, node: Node, tier: str, name: str, who: str) -> None:
        """Compare the bytes of a node's copy with what was written."""
        pool = self.pools[tier, name]
        slots = (node.device if tier == "device" else node.host).get(name, [])
        for slot, code in zip(slots, node.expected(name), strict=False):
            if pool.content[slot] != code:
                self.report("wrong bytes", f"{who} reads slot {slot} of the {pool} for node {node.id}: other bytes")
                return

    def evictions(self, changes: list[Change], drop: Node | None = None) -> None:
        """Emit what an eviction did (see `op_evictions.py`)."""
        raise NotImplementedError
