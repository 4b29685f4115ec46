"""The cache that servers and drivers talk to: one method an operation, arguments checked, errors typed."""

from __future__ import annotations

from typing import Any, Literal

import torch

from . import inserting, keys, loading, matching, prefetching, reading, requests
from .audit import audit
from .backup import backup
from .config import FULL, NAMES, CacheConfig
from .content import whose
from .core import Core, Recorder, Source
from .errors import (
    BadArgument,
    BadConfig,
    BadTokens,
    Busy,
    Refused,
    StaleReceipt,
    StorageError,
)
from .evict import evict
from .host_room import evict_host, reclaim
from .load_back import abort_load_back, begin_load_back
from .matching import Match
from .namespaces import Namespace
from .node import Node, Operation, Prefetch, Receipt
from .recovery import recover
from .settle import Settled, deliver, wait_for
from .stats import Stats
from .storage import end_prefetch, page_hashes
from .stores import Store, open_store
from .transfers import make_engine
from .transfers.base import Engine, Fault, Ticket

Tier = Literal["device", "host"]


class TieredCache:
    """A KV cache on device, host and storage.

    All methods are for one thread. Nodes are named by id, operations by `Receipt` or by its id. An operation
    that raises has changed nothing, except that nodes may have been split or evicted, and holds nothing.

    Args:
        config: sizes and policies; keyword arguments make one.
        recorder: called with a dict for each atomic transition.
        store: the storage tier, if the configuration has one; what `config.storage` names unless given. If that cannot
            be opened, the cache goes on without, and `storage_error` and `stats` say why.
        transfers: the engine that copies; what `config.engine` names unless given.
    """

    def __init__(
        self,
        config: CacheConfig | None = None,
        *,
        recorder: Recorder | None = None,
        store: Store | None = None,
        transfers: Engine | None = None,
        **choices: Any,
    ) -> None:
        if config is not None and choices:
            raise BadConfig("config", f"given as a whole and by {', '.join(choices)}")
        try:
            self.config = config if config is not None else CacheConfig(**choices)
        except TypeError as problem:
            raise BadConfig("config", str(problem)) from None
        self.storage_error: StorageError | None = None
        self._own_store: Store | None = None
        if store is None:
            try:
                self._own_store = store = open_store(self.config)
            except StorageError as problem:
                self.storage_error = problem
        self.core = Core(
            self.config,
            transfers or make_engine(self.config),
            store if self.config.storage else None,
            recorder,
        )
        if self.storage_error is not None:
            self.stats.storage_errors[type(self.storage_error).__name__] += 1

    # Looking
    @property
    def nodes(self) -> dict[int, Node]:
        """Every node by id; 0 is the root."""
        return self.core.nodes

    @property
    def holders(self) -> dict[int, Receipt]:
        """Every operation that holds something, by id."""
        return self.core.holders

    @property
    def recorder(self) -> Recorder | None:
        """Where events go."""
        return self.core.recorder

    @recorder.setter
    def recorder(self, recorder: Recorder | None) -> None:
        self.core.recorder = recorder

    @property
    def stats(self) -> Stats:
        """What was counted."""
        return self.core.stats

    @property
    def steps(self) -> int:
        """How many micro-steps the engine could do now; 0 if it has none."""
        return self.core.engine.steps

    @property
    def full_host_duplicates(self) -> list[int]:
        """Nodes whose FULL is settled on both tiers."""
        return [id_ for id_, node in self.core.nodes.items() if node.duplicate]

    def header(self, target: str = "impl") -> dict[str, Any]:
        """The first line of a trace of this cache."""
        config = self.config
        return {
            "trace": "pinproof/1",
            "target": target,
            "policy": config.policy,
            "components": list(config.components),
            "page_size": config.page_size,
            "window": config.window,
            "device_pages": config.device_pages,
            "host_pages": config.host_pages,
        }

    def observe(self, node: int) -> dict[str, Any] | None:
        """What can be seen of a node, as events carry it; None if it is not in the tree."""
        found = self.core.nodes.get(node)
        return None if found is None else self.core.observe(found)

    def audit(self, *, content: bool = True) -> list[str]:
        """Everything that is wrong, in words: slots, locks, flights, structure, queues, and, with `content`,
        bytes.
        """
        return audit(self.core, content=content)

    def read_page(self, tier: Tier, component: str, slot: int) -> torch.Tensor:
        """The bytes of one slot, `[layers, words]` int64, whoever owns it."""
        number = self._component(component)
        pool = self.core.pools.of(self._tier(tier))[number]
        if not 0 <= slot < pool.slots.size:
            raise BadArgument("slot", f"{slot!r} is not in the pool")
        return pool.data[slot].cpu().clone()

    def whose_page(self, tier: Tier, component: str, slot: int) -> tuple[int, int, str] | None:
        """The node, page of the node and component whose bytes a slot holds; None if nobody's in the tree."""
        told = whose(self.read_page(tier, component, slot))
        if told is None:
            return None
        identity = told[0].to_bytes(8, "little")
        for node in self.core.nodes.values():
            for page, page_hash in enumerate(page_hashes(self.core.hashes(node))):
                if page_hash[:8] == identity:
                    return node.id, page, NAMES[told[1]]
        return None

    # Requests
    def key(self, tokens: keys.Tokens) -> bytes:
        """Tokens in the form that all operations take without further work."""
        return keys.encode(tokens, self.config.page_size)

    def match(self, tokens: keys.Tokens, *, namespace: Namespace = "") -> Match:
        """How far the tree has these tokens of a namespace; splits the node that the match ends in."""
        core = self.core
        if namespace:
            root = core.enter(namespace)
        else:
            root = core.asked = core.root
        key = keys.encode(tokens, self.config.page_size)
        found = matching.match(core, key, root)
        if core.meter is not None:
            core.meter.matched(found.device_tokens, found.host_tokens, len(key) // keys.TOKEN_BYTES)
        return found

    def lock(self, node: int, *, namespace: Namespace | None = None) -> Receipt:
        """Lock what a request at `node` reads.

        Raises UnknownNode, or Refused if the path is not all on the device, or of another `namespace` than was given.
        """
        core = self.core
        found = core.node(node)
        if namespace is not None:
            root = core.enter(namespace)
            found = found if found.parent is not None else root
            if found.path()[-1] is not root:
                raise Refused("node", f"{node} is of another namespace")
        elif core.recorder is not None:
            core.enter_own(found)
        if found.device[FULL].slots is None:
            raise Refused("node", f"{node} is not on the device: load it back first")
        return requests.lock(core, found)

    def unlock(self, holder: Receipt | int) -> None:
        """Give back what `lock` took. Raises StaleReceipt."""
        requests.unlock(self.core, self.core.receipt(holder, "request"))

    def release_window(self, holder: Receipt | int, node: int | None = None) -> None:
        """Give back the SWA locks of a request above `node`, its own unless given."""
        receipt = self.core.receipt(holder, "request")
        top = receipt.node if node is None else self.core.node(node)
        if top not in receipt.node.path():
            raise BadArgument("node", f"{top.id} is not on the path of node {receipt.node.id}")
        requests.release_window(self.core, receipt, top)

    def forward(self, holder: Receipt | int, *, wait: bool = False) -> None:
        """A request reads all that it has locked.

        Raises:
            NotReady: bytes have not arrived, or never will since their load-back failed; with `wait` only the
            latter.
        """
        reading.forward(self.core, self.core.receipt(holder, "request"), wait=wait)

    def read_layer(self, holder: Receipt | int, layer: int) -> None:
        """A request reads one layer of all that it has locked as soon as that has arrived, while others are on their
        way: what a forward does that starts before its load-back ends. `forward` is to follow.

        Where computing is synchronous this waits for the layer; else only the compute stream does.

        Raises NotReady if bytes will never arrive.
        """
        receipt = self.core.receipt(holder, "request")
        if not 0 <= layer < self.config.layers:
            raise BadArgument("layer", f"{layer!r} is not within 0 and layers={self.config.layers}")
        reading.read_layer(self.core, receipt, layer)

    def gather(self, holder: Receipt | int, component: str) -> torch.Tensor:
        """A copy of what a request has locked of a component, `[pages, layers, words]` int64, in the order of its
        tokens: FULL from the first token on, SWA from some page at or before its window, the state of MAMBA.

        Raises NotReady while bytes are missing; `forward` with `wait` waits for them.
        """
        number = self._component(component)
        return reading.gather(self.core, self.core.receipt(holder, "request"), number)

    def tickets(self, holder: Receipt | int) -> list[Ticket]:
        """The transfers that a request would wait for: a forward may start on a layer when all of them have
        `layers_done` it.
        """
        return reading.tickets(self.core.receipt(holder, "request"))

    def insert(
        self,
        tokens: keys.Tokens,
        *,
        swa: bool | None = None,
        mamba: bool | None = None,
        after: Receipt | None = None,
        content: Source | None = None,
        namespace: Namespace = "",
    ) -> int:
        """Insert what a request has computed. Returns the node that the tokens end at.

        Args:
            tokens: at least one page.
            swa, mamba: give the window its SWA copies, the end its state; as far as there are such components
                unless told.
            after: the request's receipt, if the tokens go on from its node.
            namespace: whose tokens they are.
            content: asked for the bytes of those pages that the tree takes over from the request. It must not raise:
                they are the tree's by then.

        Raises:
            BadTokens, StaleReceipt, OutOfDeviceSlots.
        """
        core = self.core
        if content is not None:
            core.source, core.content = content, True
            try:
                return self.insert(tokens, swa=swa, mamba=mamba, after=after, namespace=namespace)
            finally:
                core.source, core.content = None, self.config.content
        if swa and not core.swa:
            raise BadArgument("swa", "this cache has no such component")
        if mamba and not core.mamba:
            raise BadArgument("mamba", "this cache has no such component")
        if namespace:
            root = core.enter(namespace)
        else:
            root = core.asked = core.root
        start = root
        if after is None:
            key = keys.encode(tokens, self.config.page_size)
        else:
            key = inserting.after_receipt(core, tokens, core.receipt(after, "request"))
            if after.node.parent is not None:
                start = after.node
                if len(core.roots) > 1 and start.path()[-1] is not root:
                    raise StaleReceipt("after", f"node {start.id} is of another namespace")
        if not key and start is root:
            raise BadTokens("tokens", "there are none")
        with_swa, with_mamba = core.swa if swa is None else swa, core.mamba if mamba is None else mamba
        return inserting.insert(core, key, start, with_swa, with_mamba).id

    # Copies
    def backup(self, node: int) -> Operation:
        """Start to copy a node to the host. Raises NothingToDo, OutOfHostMemory."""
        return backup(self.core, self.core.node(node))

    def load_back(self, node: int) -> Operation:
        """Start to bring a node, the anchor, and its path to the device.

        Raises NothingToDo, OutOfDeviceSlots.
        """
        found = self._inner(node)
        self.core.enter_own(found)
        return loading.load_back(self.core, found)

    def begin_load_back(self, node: int) -> Operation:
        """The first half of `load_back`: only lock. `commit_load_back` or `abort` must follow."""
        found = self._inner(node)
        self.core.enter_own(found)
        return begin_load_back(self.core, found)

    def commit_load_back(self, holder: Receipt | int) -> None:
        """The second half. Raises NothingToDo, OutOfDeviceSlots; the operation is over then."""
        receipt = self.core.receipt(holder, "loading")
        assert isinstance(receipt, Operation)
        loading.commit(self.core, receipt)

    def prefetch(self, tokens: keys.Tokens, *, namespace: Namespace = "") -> Prefetch:
        """Start to read from storage what the tree lacks of these tokens. Raises NothingToDo, OutOfHostMemory."""
        root = self.core.enter(namespace)
        return prefetching.prefetch(self.core, keys.encode(tokens, self.config.page_size), root)

    def finish_prefetch(self, holder: Receipt | int) -> int | None:
        """Hand what was read to the tree. Returns the new leaf, if there is one. Raises NotReady."""
        receipt = self.core.receipt(holder, "prefetch")
        assert isinstance(receipt, Prefetch)
        leaf = prefetching.finish_prefetch(self.core, receipt)
        return None if leaf is None else leaf.id

    def storage_backup(self, node: int) -> Operation:
        """Start to write a host copy to storage. Raises NothingToDo, NotReady."""
        return prefetching.storage_backup(self.core, self.core.node(node))

    def abort(self, holder: Receipt | int) -> None:
        """Give an operation up.

        A request is unlocked, a load-back that was only begun gives its locks back, a prefetch ends as soon
        as its storage read does.

        Raises:
            Busy: a copy under way cannot be called back; it ends by itself.
        """
        receipt = self.core.receipt(holder)
        if receipt.kind == "request":
            requests.unlock(self.core, receipt)
        elif receipt.kind == "loading":
            assert isinstance(receipt, Operation)
            abort_load_back(self.core, receipt)
        elif isinstance(receipt, Prefetch):
            receipt.aborted = True
            if not receipt.filling:
                end_prefetch(self.core, receipt)
            elif receipt.ticket is not None:
                receipt.ticket.cancel()
        else:
            raise Busy("holder", f"{receipt.id} is copying; it ends at its ack")

    def poll(self) -> list[Settled]:
        """Take notice of all that has ended; end failed operations that can be ended by now."""
        settled = deliver(self.core)
        if self.core.doomed:
            settled += recover(self.core)
        return settled

    def wait(self, holder: Receipt | int) -> None:
        """Block until an operation's transfer has ended and was taken notice of."""
        receipt = self.core.receipt(holder)
        if isinstance(receipt, Operation) and receipt.ticket is not None and not receipt.doomed:
            wait_for(self.core, receipt)

    def step(self, choice: int = 0) -> bool:
        """Let a stepped engine do one micro-step; False if there is none."""
        return self.core.engine.step(choice)

    # Room
    def evict(self, component: str, pages: int) -> int:
        """Free device pages. Returns how many were freed."""
        return evict(self.core, self._component(component), _count(pages))

    def evict_host(self, component: str, pages: int) -> int:
        """Free host pages: FULL by reclaiming duplicates and dropping leaves, under write_through the leaves first.

        Returns how many were freed.
        """
        return evict_host(self.core, self._component(component), _count(pages))

    def reclaim(self, pages: int) -> int:
        """Free FULL host pages of duplicates. Returns how many were freed."""
        return reclaim(self.core, _count(pages))

    def reset(self) -> None:
        """Empty the cache. Raises Busy while anything is held or under way."""
        core = self.core
        if core.holders:
            core.refuse("reset", {}, "operations are under way")
            raise Busy("reset", f"operations {sorted(core.holders)} are under way")
        gone = [id_ for id_ in core.nodes if id_]
        rows = core.rows()
        for node in reversed([n for root in core.roots.values() for n in root.subtree() if n is not root]):
            for c in core.components:
                core.vacate(node, "device", c, rows)
                core.vacate(node, "host", c, rows)
            node.parent = None
        core.forget_tree()
        if core.recorder is not None:
            core.emit("reset", {}, (core.root,), gone, rows)

    # Faults
    def fail(self, kind: str, fault: Fault = "failed") -> None:
        """Inject a fault.

        Args:
            kind: a direction of transfer, whose next transfer will fail, or "device_slots" or "host_memory",
                whose next allocation that needs room will be refused.
            fault: "failed": nothing is copied; "partial": about half is.
        """
        if kind in ("device_slots", "host_memory"):
            self.core.starved["device" if kind == "device_slots" else "host"] += 1
        else:
            self.core.engine.fail_next(kind, fault)  # type: ignore[arg-type]

    def close(self) -> None:
        """Stop the engine, and let go of the storage tier that the cache has opened itself."""
        self.core.engine.close()
        if self._own_store is not None:
            self._own_store.close()

    # Arguments
    def _component(self, name: str) -> int:
        if name not in self.config.components:
            raise BadArgument("component", f"{name!r} is none of {', '.join(self.config.components)}")
        return NAMES.index(name)

    def _tier(self, name: str) -> str:
        if name not in ("device", "host"):
            raise BadArgument("tier", f"{name!r} is neither 'device' nor 'host'")
        return name

    def _inner(self, node: int) -> Node:
        found = self.core.node(node)
        if found.parent is None:
            raise BadArgument("node", "the root has nothing to load")
        return found


def _count(pages: int) -> int:
    if not isinstance(pages, int) or isinstance(pages, bool) or pages < 0:
        raise BadArgument("pages", f"{pages!r} is not a number of pages")
    return pages
