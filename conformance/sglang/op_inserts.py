"""What requests compute and insert (runs inside the environment)."""

from __future__ import annotations

from typing import Any

from .base import Change, Refused
from .op_requests import Lock, Requests
from .tree import Node, Slots, content


class Inserts(Requests):
    """Inserts, and what the tree makes of them."""

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
        """Evict from device (see `op_evictions.py`)."""
        raise NotImplementedError
