"""What requests do: match, lock, read, insert, release (runs inside the environment)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .base import ROOT_REFUSED, Base, Change, Refused
from .tree import Node, Slots, content


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

    # ---- insert ----

    def op_insert(
        self, tokens: list[int], aux: dict[str, Any] | None = None, reuse: int | None = None, holder: int | None = None
    ) -> dict[str, Any]:
        """A request computes `tokens` and inserts them.

        `aux.swa`: True keeps the whole window of the sliding-window component, False gives back all but the last
        window of it, a number gives back what lies before that token. `reuse`: how many tokens of the cached prefix
        the request builds on (default all; 0 computes everything anew, as a request that matched before the prefix was
        cached does). `holder`: a request that holds a lock on a prefix goes on; its lock moves to the end.
        """
        aux = aux or {}
        length = len(tokens) - len(tokens) % self.page
        if length == 0:
            raise Refused("RefusedTooShort", f"{len(tokens)} tokens do not fill a page of {self.page}")
        tokens = tokens[:length]
        lock, mine = self._prefix(tokens, reuse, holder)
        start = lock.node.end if lock is not None else 0
        owner = self.new_holder()
        slots = self._compute(tokens, start, owner)
        if slots is None:
            if lock is not None and mine:
                self._unlock(lock)
            raise Refused("RefusedNoRoom", f"no device slots for {length - start} tokens")
        value = [slot for node in reversed(list(lock.node.path())) for slot in node.device["full"]] if lock else []
        value += slots
        mamba = self._mamba_state(tokens, owner) if "mamba" in self.components else None
        if "mamba" in self.components and mamba is None:
            if "swa" in self.components:
                self.free_swa_behind(slots)
            self.free("device", "full", slots)
            if lock is not None and mine:
                self._unlock(lock)
            raise Refused("RefusedNoRoom", "no device slot for a Mamba state")
        floor = self._give_back(aux.get("swa", True), length, start, value)
        result = self._pump(tokens, value, start, floor, mamba, lock.inserted if lock is not None else 0)
        if mamba is not None and result.mamba_exist:
            self.free("device", "mamba", mamba)
        target = self.tree.handles[result.last_device_node]
        answer: dict[str, Any] = {"node": target.id, "prefix": result.prefix_len}
        if lock is not None:
            self._unlock(lock)
        if holder is not None:
            after = self._lock(target)
            after.inserted = length
            answer["holder"] = after.holder
        self._left_over(owner)
        return answer

    def op_recompute(
        self, tokens: list[int], reuse: int = 0, floor: int | None = None, priority: int = 0
    ) -> dict[str, Any]:
        """A request that matched before others inserted computes again what is cached by now, from token `reuse` on.

        `floor`: the token before which it has given its window slots back. `priority`: as the scheduler gives it.
        """
        self._priority = priority
        return self.op_insert(tokens, {"swa": True if floor is None else floor}, reuse)

    def op_extend(self, holder: int, tokens: list[int], floor: int | None = None) -> dict[str, Any]:
        """A request that holds a lock goes on: `tokens` more, inserted, and its lock moves to their end."""
        whole = [*self._holder(holder).node.prefix(), *tokens]
        return self.op_insert(whole, {"swa": True if floor is None else floor}, holder=holder)

    def op_attach_window(self, tokens: list[int]) -> dict[str, Any]:
        """Give the last stretch without a window of a prefix on device its window: it was brought from elsewhere."""
        if not hasattr(self.core.tree, "finish_swa_state_eviction") or "swa" not in self.components:
            raise Refused("RefusedOperation", "no window can be attached: no sliding window, or before 0.5.21")
        key = self.key(tokens[: len(tokens) - len(tokens) % self.page])
        length, handle, _ = self.call("match_full_device_prefix", key)
        ranges = self.call("swa_tombstone_ranges", key, 0, length)
        if not ranges:
            raise Refused("RefusedNothing", "there is no stretch without a window")
        start, end = ranges[-1]
        # Its path must stay while room is made.
        pin, owner = self._lock(self.tree.handles[handle], "pin_full"), self.new_holder()
        slots = self.room("swa", end - start, ("holder", owner))
        if slots is None:
            self._unlock(pin)
            raise Refused("RefusedNoRoom", f"no device slots for {end - start} tokens")
        code = 0
        for position, token in enumerate(tokens[:end]):
            code = content(code, token)
            if position >= start:
                self.pools["device", "swa"].content[slots[position - start]] = code ^ 2
        actions = self.call("attach_swa_window", key, start, end, self.tensor(slots))
        self._path = tuple(tokens)
        changes = self.look(lambda node, _, __: slots[node.start - start : node.end - start], self._path)
        for change in changes:
            if change.what == "came":
                full = change.node.device["full"]
                self._pair(full, slots[change.node.start - start : change.node.end - start])
        self.act(list(actions))
        self.arrivals(changes)
        self._unlock(pin)
        self._left_over(owner)
        return {"tokens": end - start}

    def _prefix(self, tokens: list[int], reuse: int | None, holder: int | None) -> tuple[Lock | None, bool]:
        """The lock on the prefix that the request builds on, and whether this operation took it."""
        if holder is not None:
            lock = self._holder(holder)
            if tuple(tokens[: lock.node.end]) != lock.node.prefix() or len(tokens) < lock.node.end:
                raise Refused("RefusedPrefix", f"the tokens do not start with those that holder {holder} has locked")
            return lock, False
        if reuse == 0:
            return None, False
        result = self._match(tokens)
        node = self.tree.handles[result.last_device_node]
        while reuse is not None and node.parent is not None and node.end > reuse:
            node = node.parent
        if node.parent is None:
            return None, False
        return self._lock(node), True

    def _compute(self, tokens: list[int], start: int, owner: int) -> Slots | None:
        """Device slots for the tokens from `start` on, and their bytes."""
        count = len(tokens) - start
        full = self.room("full", count, ("holder", owner))
        if full is None:
            return None
        swa = None
        if "swa" in self.components:
            swa = self.room("swa", count, ("holder", owner))
            if swa is None:
                self.free("device", "full", full)
                return None
            # Room for SWA may have been made by evicting, never at the expense of what this request just took.
        code = 0
        for position, token in enumerate(tokens):
            code = content(code, token)
            if position >= start:
                self.pools["device", "full"].content[full[position - start]] = code
                if swa is not None:
                    self.pools["device", "swa"].content[swa[position - start]] = code ^ 2
        if swa is not None:
            self.swa_of.update(zip(full, swa, strict=True))
        return full

    def room(self, name: str, count: int, owner: tuple[str, int]) -> Slots | None:
        """Take device slots, evicting for what is short."""
        if count == 0:
            return []
        pool = self.pools["device", name]
        short = count - pool.available()
        if short > 0:
            self.evict({name: short})
        slots = pool.take(count, owner)
        if slots is not None:
            self.row("take", "device", name, slots, owner)
        return slots

    def _give_back(self, keep: bool | int, length: int, start: int, value: Slots) -> int:
        """Free the request's own SWA slots before its floor; return the floor in tokens."""
        if "swa" not in self.components or keep is True:
            return 0
        most = max(0, length - self.window)
        floor = most if keep is False else min(int(keep), most)
        floor -= floor % self.page
        self.free_swa_behind(value[start:floor])
        return floor

    def _mamba_state(self, tokens: list[int], owner: int) -> Slots | None:
        """A slot with the state after `tokens`."""
        slots = self.room("mamba", 1, ("holder", owner))
        if slots is not None:
            code = 0
            for token in tokens:
                code = content(code, token)
            self.pools["device", "mamba"].content[slots[0]] = content(code, -7)
        return slots

    def _pump(self, tokens: list[int], value: Slots, start: int, floor: int, mamba: Slots | None, inserted: int) -> Any:
        """Run the core's resumable insert, executing each step's actions at its barrier."""
        self._value, self._path = value, tuple(tokens)
        self._mamba_given = mamba
        params = self._params(tokens, value, start, floor, mamba, inserted)
        step = self.call("begin_insert", params)
        try:
            while True:
                self._insert_changes()
                self.act(list(step.actions))
                if step.result is not None:
                    return step.result
                step = self.call("resume_insert")
        finally:
            if self.dead is None:
                self.act(list(self.call("end_insert")))

    def _params(
        self, tokens: list[int], value: Slots, start: int, floor: int, mamba: Slots | None, inserted: int
    ) -> Any:
        import dataclasses

        known = {field.name for field in dataclasses.fields(self.core.InsertParams)}
        wanted: dict[str, Any] = {"key": self.key(tokens), "value": self.tensor(value), "prev_prefix_len": start}
        wanted["inserted_len"] = inserted
        wanted["priority"], self._priority = self._priority, 0
        if mamba is not None:
            wanted["mamba_value"] = self.tensor(mamba)
        if floor:
            wanted["swa_evicted_seqlen"] = floor
            wanted["component_evicted_seqlens"] = {self.core.types["swa"]: floor}
        return self.core.InsertParams(**{name: value for name, value in wanted.items() if name in known})

    def _provide_insert(self, node: Node, tier: str, name: str) -> Slots:
        if name == "full":
            return self._value[node.start : node.end]
        if name == "mamba":
            assert self._mamba_given is not None
            return self._mamba_given
        return [self.swa_of[slot] for slot in node.device["full"]]

    def _insert_changes(self) -> None:
        changes = self.look(self._provide_insert, self._path)
        self.arrivals(changes)

    def arrivals(self, changes: list[Change]) -> None:
        """Emit what an insert did: splits, new leaves, un-evicted nodes, auxiliary copies; then anything else."""
        rest = self.splits(changes)
        new = {change.node for change in rest if change.what == "leaf"}
        others = []
        for change in rest:
            node = change.node
            if change.what == "came" and change.tier == "device" and change.component == "full":
                self.came(change)
                if node in new:
                    assert node.parent is not None
                    self.emit("insert_leaf", {"parent": node.parent.id, "leaf": node.id}, [node.parent, node])
                else:
                    self.emit("unevict", {"node": node.id}, [node])
            elif (change.what == "came" and change.tier == "device") or change.what != "leaf":
                others.append(change)
        for change in others:
            if change.what == "came" and change.tier == "device":
                self.came(change)
                args = {"node": change.node.id, "component": change.component}
                self.emit("attach_aux", args, [change.node])
        self.evictions([change for change in others if not (change.what == "came" and change.tier == "device")])

    def _left_over(self, owner: int) -> None:
        """After an insert nothing may be left with the request: the tree took it or it was freed."""
        for pool in self.pools.values():
            if pool.tier == "device":
                left = [slot for slot, who in enumerate(pool.owner) if who == ("holder", owner)]
                if left:
                    self.report("leak", f"slots {left} of the {pool} were inserted, not taken by the tree, not freed")
                    pool.give(left)

    def _pair(self, full: Slots, swa: Slots) -> None:
        """Enter SWA slots behind full slots (see `actions.py`)."""
        raise NotImplementedError

    def evict(self, wanted: dict[str, int], steps: int | None = None) -> dict[str, int]:
        """Evict from device (see `evictions.py`)."""
        raise NotImplementedError

    def evictions(self, changes: list[Change], drop: Node | None = None) -> None:
        """Emit what an eviction did (see `evictions.py`)."""
        raise NotImplementedError
