"""The state that every part of the cache works on: tree, pools, receipts, queues, clock, and the recorder of
events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from . import content
from .computing import Computing
from .config import FULL, MAMBA, NAMES, SWA, CacheConfig
from .errors import StaleReceipt, UnknownNode
from .eviction import STRATEGIES, Queue
from .happens_before import HappensBefore
from .keys import TOKEN_BYTES
from .meter import Meter
from .namespaces import Namespace, label, seed
from .node import Node, Operation, Receipt, Seat
from .pools import Pools
from .slots import Slots
from .stats import Stats
from .stores import Store
from .transfers.base import DIRECTIONS, Engine

BIRTHS = frozenset(("insert_leaf", "insert_host", "split", "lock", "begin_load_back", "begin_prefetch"))
"""Events of a node or an operation that is of a namespace from then on."""
Event = dict[str, Any]
Recorder = Callable[[Event], None]
Source = Callable[[str, int, int], torch.Tensor]
"""What a request has computed: of a component, from a page on, so many pages, `[pages, layers, words]` int64. The state
of MAMBA is that after one page.
"""
Row = list[Any]
"""["take" | "give" | "move", tier, component, slots, ["node" | "holder", id]]"""


class Core:
    """One cache's state. The modules around it change it; each transition of theirs is one event.

    Attributes:
        nodes: every node by id.
        holders: every operation that holds something, by id.
        doomed: failed transfers whose targets cannot be freed yet, oldest first.
        in_flight: for each direction, operations in the order of their transfers; ends are taken notice of in
            this order.
        starved: allocations to be refused, by tier: an injected fault.
        recorder: where events go; None if nowhere.
        content: pages are written on insert.
        source: where from, during the insert of a request that hands them over.
        root, roots: the root of the empty namespace, and of each namespace by its seed.
        asked: the root of the namespace that the operation under way is for.
        storage_at_ack: what has arrived on the host is written to storage.
        stats: what is always counted.
        meter: what is counted for metrics; None where nobody measures.
        computing: what requests compute; its frees and reads are told to `order`, which is None in ordinary builds.
    """

    def __init__(self, config: CacheConfig, engine: Engine, store: Store | None, recorder: Recorder | None) -> None:
        self.config = config
        self.engine = engine
        self.store = store
        self.recorder = recorder
        self.components = config.numbers
        self.named = tuple((c, NAMES[c]) for c in self.components)
        self.auxiliary = tuple(c for c in self.components if c != FULL)
        self.swa = SWA in self.components
        self.mamba = MAMBA in self.components
        self.content = config.content
        self.source: Source | None = None
        self.seats = self.components[-1] + 1
        self.storage_at_ack = store is not None and config.storage_writes == "ack"
        self.stats = Stats()
        self.meter: Meter | None = None
        if store is not None:
            self.stats.storage_errors = store.errors
        self.write_back = config.write_back
        self.stride = config.page_size * TOKEN_BYTES
        self.window = config.window_pages
        self.pools = Pools(config)
        self.full = self.pools.device[FULL].slots
        self.order = HappensBefore(asynchronous=engine.asynchronous) if config.happens_before else None
        engine.order = self.order
        self.computing = Computing(engine, self.order, config.poison)
        self.seq = 0
        self.clock = 0
        self._most_roots = 64
        self.next_node = 1
        self.next_holder = 1
        self.root = self.asked = self._new_root()
        self.roots: dict[bytes, Node] = {b"": self.root}
        self.nodes: dict[int, Node] = {0: self.root}
        self.holders: dict[int, Receipt] = {}
        self.doomed: list[Operation] = []
        self.in_flight: dict[str, deque[Operation]] = {d: deque() for d in DIRECTIONS}
        self.starved = {"device": 0, "host": 0}
        rank = STRATEGIES[config.eviction]
        self.device_leaves = Queue(1, rank, self.is_device_leaf)
        self.host_leaves = Queue(2, rank, self.is_host_leaf)
        self.duplicates = Queue(4, rank, self.is_reclaimable)
        self.device_aux = {c: Queue(8 << c, rank, self._aux_fits("device", c)) for c in self.auxiliary}
        self.host_aux = {c: Queue(64 << c, rank, self._aux_fits("host", c)) for c in self.auxiliary}
        self.queues: tuple[Queue, ...] = (
            self.device_leaves,
            self.host_leaves,
            self.duplicates,
            *self.device_aux.values(),
            *self.host_aux.values(),
        )

    def _new_root(self, seed: bytes = b"") -> Node:
        root = Node(0, None, b"", 0, self.seats)
        root.device[FULL].slots = root.host[FULL].slots = range(0)
        root.hashes = seed
        return root

    def enter(self, namespace: Namespace) -> Node:
        """The root of a namespace; what is done from now on is done for it."""
        key = seed(namespace) if namespace else b""
        root = self.roots.get(key)
        if root is None:
            if len(self.roots) >= self._most_roots:
                self._forget_roots()
            root = self.roots[key] = self._new_root(key)
        self.asked = root
        return root

    def enter_own(self, node: Node) -> None:
        """What is done from now on is done for the namespace of `node`."""
        self.asked = self.root
        if len(self.roots) > 1:
            self.asked = node.path()[-1]

    def _forget_roots(self) -> None:
        """Namespaces without a node that nobody is looking at go."""
        for key, root in list(self.roots.items()):
            if key and not root.children and not root.lock_ref and not root.host[FULL].locks:
                del self.roots[key]
        self._most_roots = 64 + 2 * len(self.roots)

    def forget_tree(self) -> None:
        """Only the root is left; ids go on."""
        for queue in self.queues:
            queue.clear()
        self.root = self.asked = self._new_root()
        self.roots = {b"": self.root}
        self.nodes = {0: self.root}

    # Names
    def node(self, node_id: int) -> Node:
        """A node by id. Raises UnknownNode."""
        try:
            return self.nodes[node_id]
        except (KeyError, TypeError):
            raise UnknownNode("node", f"{node_id!r} is not in the tree") from None

    def receipt(self, receipt: Receipt | int, *kinds: str) -> Receipt:
        """A live receipt, by itself or by id, of one of these kinds. Raises StaleReceipt."""
        id_ = receipt if isinstance(receipt, int) else receipt.id
        found = self.holders.get(id_)
        if found is None or (found is not receipt and receipt is not id_):
            raise StaleReceipt("holder", f"{id_!r} was given back already, or is not of this cache")
        if kinds and found.kind not in kinds:
            raise StaleReceipt("holder", f"{id_} is a {found.kind}, not a {' or a '.join(kinds)}")
        return found

    def new_node(self, parent: Node, key: bytes) -> Node:
        """A node that nothing points to yet."""
        id_ = self.next_node
        self.next_node = id_ + 1
        node = Node(id_, parent, key, parent.end + len(key) // self.stride, self.seats)
        self.clock = node.born = node.touched = self.clock + 1
        return node

    def holder_id(self) -> int:
        """A fresh holder id."""
        id_ = self.next_holder
        self.next_holder += 1
        return id_

    def pages(self, node: Node) -> int:
        """Pages of a node."""
        return len(node.key) // self.stride

    def touch(self, node: Node) -> None:
        """A request went along the path of `node`."""
        self.clock = now = self.clock + 1
        walker: Node | None = node
        while walker is not None:
            walker.touched = now
            walker = walker.parent

    def hashes(self, node: Node) -> bytes:
        """The chained hashes of a node's pages."""
        if node.hashes is None:
            assert node.parent is not None
            node.hashes = content.chain(self.last_hash(node.parent), node.key, self.stride)
        return node.hashes

    def last_hash(self, node: Node) -> bytes:
        """The hash of the last page up to the end of a node; b"" at the root."""
        return self.hashes(node)[-content.DIGEST :]

    # Eviction candidates
    def is_device_leaf(self, node: Node) -> bool:
        """FULL is here, not below, and nobody has locked it."""
        return not (node.lock_ref or node.device_children or node.device[FULL].slots is None or node.parent is None)

    def is_host_leaf(self, node: Node) -> bool:
        """Only on the host, no children, not locked, not pinned."""
        return (
            node.device[FULL].slots is None
            and not node.children
            and node.host[FULL].slots is not None
            and not node.load_back_pending_id
            and self.host_unlocked(node)
        )

    def host_unlocked(self, node: Node) -> bool:
        """Nobody has locked any host copy of it."""
        return not (any(seat.locks for seat in node.host) if self.auxiliary else node.host[FULL].locks)

    def is_reclaimable(self, node: Node) -> bool:
        """Its FULL host copy can be given up."""
        if not self.write_back and node.host_children:
            # Under write_through a backed-up child has a backed-up parent.
            return False
        return node.duplicate and not node.load_back_pending_id and not node.host[FULL].locks

    def _aux_fits(self, tier: str, component: int) -> Callable[[Node], bool]:
        def on_device(node: Node) -> bool:
            seat = node.device[component]
            return seat.slots is not None and not seat.locks and node.host[component].pending is None

        def on_host(node: Node) -> bool:
            seat = node.host[component]
            return seat.slots is not None and not seat.locks

        return on_device if tier == "device" else on_host

    def consider(self, node: Node) -> None:
        """Something about `node` has changed that may have made it a candidate."""
        for queue in self.queues:
            if not node.queued & queue.bit and queue.fits(node):
                queue.push(node)

    def consider_leaf(self, node: Node) -> None:
        """A child of `node` has gone, from a tier or for good: the node may be a leaf now."""
        queue = self.device_leaves if node.device[FULL].slots is not None else self.host_leaves
        if not node.queued & queue.bit and queue.fits(node):
            queue.push(node)

    def settled(self, node: Node) -> bool:
        """FULL is on both tiers, its bytes too, and no transfer has anything left to do with it."""
        device, host = node.device[FULL], node.host[FULL]
        return (
            device.slots is not None
            and host.slots is not None
            and device.pending is None
            and host.pending is None
            and not node.write_through_pending_id
            and not node.load_back_pending_id
            and node.id != 0
        )

    def refresh_duplicate(self, node: Node) -> None:
        """Track it in full_host_duplicates if it is settled, untrack it if not."""
        node.duplicate = self.settled(node)

    # Locks
    def release_all(self, receipt: Receipt) -> list[Node]:
        """Give back everything of a receipt; it is over. Returns the nodes touched."""
        touched = list(receipt.locks.values())
        walker = receipt.path
        while walker is not None:
            walker.lock_ref = left = walker.lock_ref - 1
            assert left >= 0, "more released than locked"
            touched.append(walker)
            walker = walker.parent
        for seat in receipt.locks:
            assert seat.locks is not None
            del seat.locks[receipt]
        receipt.locks.clear()
        receipt.path = None
        receipt.over = True
        del self.holders[receipt.id]
        return touched

    def lock_path(self, node: Node, receipt: Receipt) -> None:
        """FULL device locks of `receipt` on the path of `node`, which goes down from what it has already
        locked.
        """
        stop, walker = receipt.path, node
        while walker is not stop:
            walker.lock_ref += 1
            if walker.parent is None:
                break
            walker = walker.parent
        receipt.path = node

    # Slots
    def take(self, tier: str, component: int, count: int) -> Slots:
        """Slots that the caller has made sure are there."""
        slots = self.pools.of(tier)[component].slots.take(count)
        assert slots is not None, "room was not made first"
        return slots

    def vacate(self, node: Node, tier: str, component: int, rows: list[Row] | None) -> None:
        """Free one copy of a node."""
        here = tier == "device"
        seat = (node.device if here else node.host)[component]
        slots = seat.slots
        if slots is None:
            return
        (self.pools.device if here else self.pools.host)[component].slots.give(slots)
        if self.computing.watched:
            self.computing.free(self.pools.of(tier)[component], slots)
        if rows is not None:
            rows.append(row("give", tier, component, slots, node))
        seat.slots = None
        seat.pending = None
        parent = node.parent
        if component == FULL and parent is not None:
            if here:
                parent.device_children -= 1
            else:
                parent.host_children -= 1
                if not self.write_back and self.is_reclaimable(parent):
                    self.duplicates.push(parent)

    def occupy(self, node: Node, tier: str, component: int, slots: Slots, pending: Operation | None = None) -> Seat:
        """Publish one copy of a node, with bytes that `pending` will bring, or that are there."""
        here, parent = tier == "device", node.parent
        seat = (node.device if here else node.host)[component]
        assert seat.slots is None, "occupied twice"
        seat.slots = slots
        seat.pending = pending
        if pending is not None:
            pending.moving[seat] = node
        if component == FULL and parent is not None:
            if here:
                parent.device_children += 1
            else:
                parent.host_children += 1
        return seat

    def remove(self, node: Node) -> None:
        """Take a node without copies and children out of the tree."""
        parent = node.parent
        assert parent is not None
        assert not node.children
        del parent.children[node.key[: self.stride]]
        del self.nodes[node.id]
        node.parent = None
        node.duplicate = False

    # Events
    def rows(self) -> list[Row] | None:
        """Where slot rows of an event are gathered; None if nobody is listening."""
        return None if self.recorder is None else []

    def emit(
        self,
        action: str,
        args: dict[str, Any],
        touched: Iterable[Node] = (),
        gone: Iterable[int] = (),
        rows: Sequence[Row] | None = None,
        refused: str | None = None,
    ) -> None:
        """One event. The caller has asked whether `recorder` is there."""
        assert self.recorder is not None
        event: Event = {"seq": self.seq, "action": action, "args": args, "outcome": "done"}
        if self.asked is not self.root and action in BIRTHS:
            event["namespace"] = label(self.asked.hashes or b"")
        if refused is not None:
            event["outcome"], event["reason"] = "refused", refused
        if rows:
            event["slots"] = rows
        observe = self.observe
        post: dict[str, Any] = {str(node.id): observe(node) for node in dict.fromkeys(touched)}
        event["post"] = post
        for id_ in gone:
            post[str(id_)] = None
        self.seq += 1
        self.recorder(event)

    def refuse(self, action: str, args: dict[str, Any], reason: str) -> None:
        """A refused event: nothing has changed."""
        if self.recorder is not None:
            touched = [self.nodes[v] for k, v in args.items() if k != "holder" and v in self.nodes]
            self.emit(action, args, touched, refused=reason)

    def observe(self, node: Node) -> dict[str, Any]:
        """What can be seen of a node, as events carry it: what is empty is left out. The roots are seen as one."""
        if node.parent is None and len(self.roots) > 1:
            return self._observe_roots()
        seen: dict[str, Any] = {"lock_ref": {"full": node.lock_ref}} if node.lock_ref else {}
        on_device, on_host = node.device, node.host
        for c, name in self.named:
            device, host = on_device[c], on_host[c]
            if host.slots is None:
                if device.slots is not None:
                    seen[name] = "D" if device.pending is None else "d"
            else:
                tiers = "H" if host.pending is None else "h"
                if device.slots is not None:
                    tiers = ("D" if device.pending is None else "d") + tiers
                seen[name] = tiers
                if host.locks:
                    seen.setdefault("host_lock_ref", {})[name] = len(host.locks)
            if device.locks:
                seen.setdefault("lock_ref", {})[name] = len(device.locks)
        if node.load_back_pending_id:
            seen["load_back_pending_id"] = node.load_back_pending_id
        if node.write_through_pending_id:
            seen["write_through_pending_id"] = node.write_through_pending_id
        if node.duplicate:
            seen["duplicate"] = True
        if node.stored:
            seen["stored"] = True
        return seen

    def _observe_roots(self) -> dict[str, Any]:
        roots = self.roots.values()
        seen: dict[str, Any] = {"full": "DH"}
        if locks := sum(root.lock_ref for root in roots):
            seen["lock_ref"] = {"full": locks}
        if host_locks := sum(len(root.host[FULL].locks or ()) for root in roots):
            seen["host_lock_ref"] = {"full": host_locks}
        return seen

    # Content
    def fill(self, node: Node, component: int) -> None:
        """Write what a request has computed into a device copy of `node`: what it hands over, or else what its tokens
        determine.
        """
        slots = node.device[component].slots
        if slots is None:
            return
        pool = self.pools.device[component]
        if self.source is not None:
            pages = len(slots)
            self.computing.write(pool, slots, self.source(NAMES[component], node.end - pages, pages))
        elif self.config.content:
            self.computing.write(pool, slots, self.expected(node, component))

    def expected(self, node: Node, component: int) -> Any:
        """The bytes that the pages of a node's component hold: `[pages, layers, words]`."""
        ids = content.identities(self.hashes(node))
        if component == MAMBA:
            ids = ids[-1:]
        data = self.pools.device[component].data
        return content.page_bytes(ids, component, data.shape[1], data.shape[2])

    def need(self, node: Node, component: int) -> int:
        """Slots of one copy of a component of a node."""
        return 1 if component == MAMBA else len(node.key) // self.stride


def row(verb: str, tier: str, component: int, slots: Slots, owner: Node | Receipt) -> Row:
    """One slot row of an event."""
    return [
        verb,
        tier,
        NAMES[component],
        list(slots),
        ["node" if isinstance(owner, Node) else "holder", owner.id],
    ]
