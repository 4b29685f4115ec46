"""The ground that every operation of the controller stands on (runs inside the environment).

One pattern throughout: call the core, apply the frees it returned to the pools, look at its tree, and turn each
difference from our picture into one event of the trace vocabulary. So an event says what the core did, not what it
was asked to do, and its `post` says what the core shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from .eyes import PythonEyes, RustEyes, Seen
from .pools import Owner, Pool
from .tree import Node, Slots, Tree

ROOT_REFUSED = "RefusedRoot"


class Refused(Exception):
    """An operation that cannot be done now, or makes no sense: an expected answer. `kind` starts with ``Refused``."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class TargetCrashed(Exception):
    """The core raised: an assertion of its own, a panic, or an error that a server would die of."""


class Change:
    """One difference between the picture and the core: `what` on `node`, for `component` on `tier` where it fits."""

    __slots__ = ("component", "node", "other", "tier", "what")

    def __init__(self, what: str, node: Node, component: str = "", tier: str = "", other: Node | None = None) -> None:
        self.what, self.node, self.component, self.tier, self.other = what, node, component, tier, other

    def __repr__(self) -> str:
        return f"{self.what} {self.node.id} {self.tier} {self.component}"


Provide = Callable[[Node, str, str], Slots]
"""The slots that a node was given: ``(node, tier, component) -> slots``."""


class Base:
    """State of the controller, and what all operations share."""

    def __init__(self, core: Any, policy: str, device_pages: int, host_pages: int, options: dict[str, Any]) -> None:
        self.core, self.policy, self.options = core, policy, options
        self.write_back = policy == "write_back"
        self.page: int = core.page_size
        self.window: int = core.window
        self.components: tuple[str, ...] = core.components
        self.counts_tombstones = hasattr(core.tree, "mark_external_linker_offload_pending")
        """Locks count on evicted nodes too, and backups mark all they cover (from 0.5.20 on)."""
        self.eyes: PythonEyes | RustEyes = PythonEyes(core) if core.kind == "python" else RustEyes(core)
        self.dead: str | None = None
        self.calls: Counter[str] = options.get("calls", Counter())
        """How often each method of the core was called."""
        self.events: list[dict[str, Any]] = []
        self.violations: list[dict[str, str]] = []
        self.seq = 0
        self.holders = 0
        self._rows: list[tuple[Owner, list[Any]]] = []
        self._unshown: set[Node] = set()
        self._pools(device_pages, host_pages)
        if isinstance(self.eyes, RustEyes):
            self.eyes.freed = {name: self.pools["host", name].released for name in self.components}
        handle, key = self.eyes.root()
        self.tree = Tree(handle, key)
        self.start_operations()

    def start_operations(self) -> None:
        """Set up what is empty when nothing is in flight (each file of operations adds its own)."""

    def _pools(self, device_pages: int, host_pages: int) -> None:
        self.pools: dict[tuple[str, str], Pool] = {}
        for name in self.components:
            unit = 1 if name == "mamba" else self.page
            device = int(self.options.get(f"{name}_device_pages") or device_pages)
            host = int(self.options.get(f"{name}_host_pages") or host_pages)
            self.pools["device", name] = Pool(name, "device", device, unit, self.report)
            self.pools["host", name] = Pool(name, "host", host, unit, self.report)
        self.swa_of: dict[int, int] = {}
        """The server's full-to-SWA map: SWA slot behind a full slot."""

    # ---- calling the core ----

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the core; whatever it raises becomes `TargetCrashed`, and the core is dead from then on."""
        self.calls[name] += 1
        try:
            return getattr(self.core.tree, name)(*args, **kwargs)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a panic of older Rust cores derives from BaseException
            message = " ".join(str(error).split())
            self.dead = f"{name}: {type(error).__name__}: {message}"
            raise TargetCrashed(self.dead) from error

    def tensor(self, slots: Iterable[int]) -> Any:
        """The slots as the core wants them."""
        import torch

        return torch.tensor(list(slots), dtype=torch.int64)

    def key(self, tokens: Iterable[int]) -> Any:
        """The tokens as the core wants them."""
        from array import array

        return self.core.RadixKey(array("q", tokens))

    # ---- names ----

    def new_holder(self) -> int:
        """A holder id, never used before."""
        self.holders += 1
        return self.holders

    def node(self, number: int) -> Node:
        """The node of that id; refused when it is not in the tree."""
        node = self.tree.nodes.get(number)
        if node is None:
            raise Refused("RefusedNode", f"there is no node {number} in the tree")
        return node

    def tops(self, node: Node) -> dict[str, int]:
        """Where the window that ends at `node` begins, and where locks of it end on the device and on the host.

        Up to 0.5.19 a lock goes on until it has covered a window of resident tokens.
        """
        if "swa" not in self.components:
            return {}
        top = node
        for above in node.window(self.window):
            top = above
        if self.counts_tombstones:
            return {"boundary": top.id}
        device, host = (self._resident_top(node, tier) for tier in ("device", "host"))
        return {"boundary": top.id, "locked": device.id, "host_locked": host.id}

    def _resident_top(self, node: Node, tier: str) -> Node:
        covered, top = 0, node
        for above in node.path():
            top = above
            covered += len((above.device if tier == "device" else above.host).get("swa", ()))
            if covered >= self.window:
                break
        return top

    # ---- frees ----

    def free(self, tier: str, component: str, slots: Iterable[int]) -> None:
        """Free slots in a pool; what was freed is told by the next events of the nodes that owned it."""
        for owner, freed in self.pools[tier, component].give(slots):
            self.row("give", tier, component, freed, owner)

    def row(self, verb: str, tier: str, component: str, slots: Slots, owner: Owner) -> None:
        """Note that slots changed hands, for the next event."""
        self._rows.append((owner, [verb, tier, component, slots, list(owner)]))

    def free_swa_behind(self, full: Iterable[int]) -> None:
        """Free the SWA slots behind full slots, where there are any, and forget the pairing."""
        self.free("device", "swa", [self.swa_of.pop(slot) for slot in full if slot in self.swa_of])

    def drain(self, result: Any) -> None:
        """Free what a step of the core returned, then apply its actions."""
        for which in list(result.device_frees):
            name = self.core.names[which]
            for value in result.device_frees.pop(which):
                if name == "swa":  # the core names SWA slots by the full slots before them
                    self.free_swa_behind(value.tolist())
                else:
                    self.free("device", name, value.tolist())
        for which in list(result.host_frees):
            for value in result.host_frees.pop(which):
                self.free("host", self.core.names[which], value.tolist())
        actions = list(getattr(result, "cache_actions", ()))
        if actions:
            result.cache_actions.clear()
            self.act(actions)

    def act(self, actions: list[Any]) -> None:
        """Execute the actions of the core in their order."""
        raise NotImplementedError

    # ---- looking ----

    def look(
        self,
        provide: Provide | None = None,
        path: tuple[int, ...] = (),
        host: Callable[[], dict[Node, set[str]]] | None = None,
    ) -> list[Change]:
        """Compare the core's tree with the picture; return the differences, parents first, not yet applied.

        Splits are applied at once, since what follows them needs the new nodes. `provide` gives the slots of copies
        that appeared, `path` the tokens of the operation (new nodes of the Rust core lie on it), `host` (asked once the
        structure is known) the components that the controller knows to have been put on the host where the core does
        not tell.
        """
        seen = self.eyes.look(self.tree)
        there = {entry.key for entry in seen}
        changes: list[Change] = []
        new: list[tuple[Node, Seen]] = []
        gone = [node for node in self.tree.nodes.values() if node.key not in there and node.parent is not None]
        for node in sorted(gone, key=lambda node: -node.end):
            changes.append(Change("gone", node))
        self._provide = provide
        by_key = {entry.key: entry for entry in seen}
        for entry in seen:
            if entry.key in self.tree.keys:
                continue
            parent = self.tree.keys[entry.parent]
            lower = next((c for c in parent.children.values() if self._below(c, entry, by_key)), None)
            if lower is not None:
                upper = self.tree.split(entry.key, lower, entry.length)
                self._own(upper)
                upper.lock, upper.host_lock = dict(lower.lock), dict(lower.host_lock)
                changes.append(Change("split", lower, other=upper))
                node = upper
            else:
                tokens = entry.tokens or tuple(path[parent.end : parent.end + entry.length])
                node = self.tree.add(entry.key, parent, tokens)
                changes.append(Change("leaf", node))
            if entry.handle is not None:
                self.tree.name(node, entry.handle)
            new.append((node, entry))
        told = host() if host is not None else {}
        for entry in seen:
            node = self.tree.keys[entry.key]
            if node.handle is None:
                entry.host = None
            self._differences(node, entry, changes, told)
        if new and isinstance(self.eyes, RustEyes):
            self._name(changes, [node for node, _ in new], told)
        for entry in seen:
            self._fields(self.tree.keys[entry.key], entry)
        return changes

    def _below(self, child: Node, entry: Seen, by_key: dict[Any, Seen]) -> bool:
        """Whether `child` of the picture now hangs below `entry`."""
        now = by_key.get(child.key)
        while now is not None:
            if now.parent == entry.key:
                return True
            now = by_key.get(now.parent)
        return False

    def _own(self, node: Node) -> None:
        """Enter a node that a split made as the owner of its slots."""
        for tier, held in (("device", node.device), ("host", node.host)):
            for component, slots in held.items():
                pool = self.pools[tier, component]
                pool.move(slots, ("node", node.id))
                self.row("move", tier, component, slots, ("node", node.id))

    def _differences(self, node: Node, entry: Seen, changes: list[Change], told: dict[Node, set[str]]) -> None:
        for name in entry.device:
            if name not in node.device:
                changes.append(Change("came", node, name, "device"))
        for name in node.device:
            if name not in entry.device:
                changes.append(Change("left", node, name, "device"))
        if entry.host is None:
            return
        on_host = set(entry.host) | told.get(node, set())
        for name in self.components:
            if name in on_host and name not in node.host:
                changes.append(Change("came", node, name, "host"))
            elif name in node.host and name not in on_host:
                changes.append(Change("left", node, name, "host"))

    def _name(self, changes: list[Change], new: list[Node], told: dict[Node, set[str]]) -> None:
        """Learn the handles of new nodes of the Rust core; then see whether they are on the host."""
        hints: dict[Node, Slots] = {}
        for node in new:
            slots = node.device.get("full") or node.host.get("full")
            if slots is None and self._provide is not None:
                on_device = any(c.what == "came" and c.node is node and c.tier == "device" for c in changes)
                hints[node] = self._provide(node, "device" if on_device else "host", "full")
                (node.device if on_device else node.host)["full"] = hints[node]
        assert isinstance(self.eyes, RustEyes)
        self.eyes.name_new(self.tree, new)
        for node in hints:
            node.device.pop("full", None)
            node.host.pop("full", None)
        for node in new:
            on_host = set(self.eyes.host_of(node)) | told.get(node, set())
            for name in self.components:
                if name in on_host and name not in node.host:
                    changes.append(Change("came", node, name, "host"))

    def _fields(self, node: Node, entry: Seen) -> None:
        """Take over what was observed besides residency."""
        pin = None if entry.pin is None else self.holder_of_load(entry.pin)
        pending = None if entry.pending is None else self.holder_of_backup(entry.pending)
        tracked = bool(entry.tracked)
        if (
            node.lock != entry.lock
            or node.host_lock != entry.host_lock
            or node.pin != pin
            or node.pending != pending
            or node.tracked != tracked
        ):
            node.lock, node.host_lock, node.pin, node.pending = entry.lock, entry.host_lock, pin, pending
            node.tracked = tracked
            self._unshown.add(node)

    def holder_of_load(self, anchor: Any) -> int:
        """The load-back that the core names by its anchor."""
        raise NotImplementedError

    def holder_of_backup(self, ack: Any) -> int:
        """The backup that the core names by its ack."""
        raise NotImplementedError

    # ---- applying changes ----

    def came(self, change: Change) -> None:
        """A copy appeared: take its slots into the picture and into the node's ownership."""
        assert self._provide is not None, f"a copy appeared out of nothing: {change}"
        node, tier, name = change.node, change.tier, change.component
        slots = self._provide(node, tier, name)
        (node.device if tier == "device" else node.host)[name] = slots
        self.pools[tier, name].move(slots, ("node", node.id))
        self.row("move", tier, name, slots, ("node", node.id))
        self._unshown.add(node)

    def left(self, node: Node, tier: str, name: str) -> None:
        """A copy is gone: its slots must have been freed."""
        held = node.device if tier == "device" else node.host
        pool = self.pools[tier, name]
        for slot in held.pop(name, ()):
            if pool.released.pop(slot, None) is None and pool.owner[slot] == ("node", node.id):
                self._leaks.append((pool, slot, node.id))
        self._unshown.add(node)

    def gone(self, node: Node) -> None:
        """A node is gone with all it had."""
        for tier, held in (("device", node.device), ("host", node.host)):
            for name in list(held):
                self.left(node, tier, name)
        self.tree.remove(node)
        self._unshown.add(node)

    # ---- events ----

    def emit(
        self,
        action: str,
        args: dict[str, Any],
        nodes: Iterable[Node] = (),
        *,
        rows: str = "all",
        outcome: str = "done",
        reason: str | None = None,
        unmarked: Iterable[Node] = (),
        later: Iterable[Node] = (),
        copies: Iterable[tuple[str, str]] | None = None,
        tag: str | None = None,
    ) -> None:
        """Add an event.

        `nodes`: the nodes it is about (their states are shown in any case, and those of all nodes that changed since
        they were shown last). `rows`: ``all`` slot rows noted so far, or ``own`` for those of `nodes` and of the
        event's holder. `unmarked`: nodes whose mark a later event of the same transition shows; `later`: nodes that
        it shows alone, with their rows. `copies`: of its own rows only those of these tiers and components.
        """
        nodes, hide = list(nodes), frozenset(unmarked)
        event: dict[str, Any] = {"seq": self.seq, "action": action, "args": args, "outcome": outcome}
        self.seq += 1
        if reason is not None:
            event["reason"] = reason
        if outcome == "done":
            later = list(later)
            ids, others = {node.id for node in nodes}, {("node", node.id) for node in later}
            mine = {("node", number) for number in ids} | {("holder", args.get("holder"))}
            only = None if copies is None else set(copies)
            taken = [
                row
                for owner, row in self._rows
                if (rows == "all" and owner not in others)
                or (owner in mine and (only is None or (row[1], row[2]) in only))
            ]
            if taken:
                event["slots"] = taken
                self._rows = [pair for pair in self._rows if not any(pair[1] is row for row in taken)]
        post: dict[str, Any] = {}
        for node in nodes:
            post[str(node.id)] = self._show(node, hide)
        if outcome == "done":
            for node in self._unshown.difference(later):
                state = self._state(node, hide)
                if node.shown != state:
                    post[str(node.id)] = self._show(node, hide)
                if node not in hide:
                    self._unshown.discard(node)
        event["post"] = post
        if tag is not None:
            event["tag"] = tag
        self.events.append(event)

    def _show(self, node: Node, hide: frozenset[Node]) -> dict[str, Any] | None:
        node.shown = self._state(node, hide)
        return node.shown

    def _state(self, node: Node, hide: frozenset[Node] = frozenset()) -> dict[str, Any] | None:
        """The node's state in the form of the trace vocabulary; None when it is gone."""
        if node.id not in self.tree.nodes:
            return None
        state: dict[str, Any] = {}
        if node.parent is None:
            return state
        for name in self.components:
            letters = ""
            if name in node.device:
                slots, pool = node.device[name], self.pools["device", name]
                letters += "d" if slots and slots[0] in pool.landing else "D"
            if name in node.host:
                slots, pool = node.host[name], self.pools["host", name]
                letters += "h" if slots and slots[0] in pool.landing else "H"
            if letters:
                state[name] = letters
        if node.lock:
            state["lock_ref"] = dict(node.lock)
        if node.host_lock:
            state["host_lock_ref"] = dict(node.host_lock)
        if node.pin is not None:
            state["load_back_pending_id"] = node.pin
        if node.pending is not None and node not in hide:
            state["write_through_pending_id"] = node.pending
        if node.tracked and self._settled(node, None if node in hide else node.pending):
            state["duplicate"] = True
        if node.stored:
            state["stored"] = True
        return state

    def _settled(self, node: Node, pending: int | None) -> bool:
        """Full on both tiers, arrived, not pending, not pinned: any other tracked entry is stale, and legal."""
        device, host = node.device.get("full"), node.host.get("full")
        if not device or not host or node.pin is not None or pending is not None:
            return False
        return (
            device[0] not in self.pools["device", "full"].landing and host[0] not in self.pools["host", "full"].landing
        )

    # ---- violations ----

    def report(self, kind: str, message: str) -> None:
        """Note something that must never happen."""
        self.violations.append({"kind": kind, "message": message})

    def begin_operation(self) -> None:
        """Start an operation: nothing seen yet."""
        self.events, self.violations = [], []
        self._leaks: list[tuple[Pool, int, int]] = []
        self._provide = None

    def end_operation(self) -> None:
        """Check at the end of an operation that everything lost was freed and everything freed was lost."""
        if self._rows and self.events:
            self.events[-1].setdefault("slots", []).extend(row for _, row in self._rows)
        self._rows = []
        for pool, slot, number in self._leaks:
            if pool.owner[slot] == ("node", number):
                self.report("leak", f"slot {slot} of the {pool} left node {number} and was never freed")
        for pool in self.pools.values():
            for slot, number in pool.released.items():
                node = self.tree.nodes.get(number)
                held = node.device if node is not None and pool.tier == "device" else node.host if node else {}
                if slot in held.get(pool.component, ()):
                    self.report("freed in use", f"slot {slot} of the {pool} was freed and node {number} still has it")
            pool.released.clear()
