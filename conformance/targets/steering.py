"""Single actions of the model, done on the cache: what the caller would have to be doing at just that moment.

Each method arranges for one transition, through the transition's own function and under its own guard, and says which
ids the cache chose for new nodes and holders. What cannot be arranged raises `NotSteerable` and has changed nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ...impl import Busy, TieredCache, backup, device_room, host_room, load_back, loading, requests, settle, storage
from ...impl.config import FULL, MAMBA, NAMES, SWA
from ...impl.content import chain, identities, page_bytes
from ...impl.node import Node, Operation, Prefetch, Receipt
from ...impl.slots import Slots
from ...impl.stores import StoreSide, page_as_bytes, store_key
from ...impl.transfers.base import Copy

LEAF_PAGES = 8
"""Pages of a new leaf: enough for three splits in a row."""
READ_PAGES = {FULL: 3 * LEAF_PAGES, SWA: 3 * LEAF_PAGES, MAMBA: 3}
"""Pages of each component that a prefetch reads."""

Names = dict[str, int]


class NotSteerable(Exception):
    """The cache cannot be brought to do just this now; the message says why."""


class Steering:
    """Does model actions on one cache (with the stepped engine).

    Backups are submitted as late as can be, at their ack: until then auxiliary copies may join them, and a slot that
    is freed too early holds other bytes by then.
    """

    def __init__(self, cache: TieredCache) -> None:
        self.cache = cache
        self.core = cache.core
        self._next = 1 << 24
        self._unsent: dict[Operation, list[Copy]] = {}
        self._begun: set[Prefetch] = set()

    def act(self, name: str, args: dict[str, int]) -> dict[str, Any]:
        """Do one action. `names` of the answer are the ids of what is new, `outcome` is "done" or "refused"."""
        action, _, component = name.partition(".")
        method: Callable[..., Names | None] | None = getattr(self, f"_do_{action}", None)
        if method is None:
            raise NotSteerable(f"no action {name}")
        before = self.core.seq
        own = {k: v for k, v in args.items() if not (k == "boundary" and action not in ("lock", "begin_load_back"))}
        names = method(**own, **({"component": NAMES.index(component)} if component else {})) or {}
        if self.core.seq == before:
            raise NotSteerable("nothing has come of it")
        return {"steered": True, "outcome": "done" if names.pop("refused", None) is None else "refused", "names": names}

    # Pieces
    def _node(self, node: int) -> Node:
        found = self.core.nodes.get(node)
        if found is None:
            raise NotSteerable(f"node {node} is not in the tree")
        return found

    def _operation(self, holder: int, *kinds: str) -> Operation:
        found = self.core.holders.get(holder)
        if not isinstance(found, Operation) or found.kind not in kinds or found.doomed:
            raise NotSteerable(f"holder {holder} is no {' or '.join(kinds)} that is under way")
        return found

    def _request(self, holder: int) -> Receipt:
        found = self.core.holders.get(holder)
        if found is None or found.kind != "request":
            raise NotSteerable(f"holder {holder} is no request")
        return found

    def _tokens(self, pages: int) -> bytes:
        """A key that nobody has."""
        count = pages * self.core.config.page_size
        first, self._next = self._next, self._next + count
        return self.cache.key(range(first, first + count))

    def _room(self, tier: str, component: int, pages: int) -> None:
        if self.core.pools.of(tier)[component].slots.available < pages:
            raise NotSteerable(f"no {tier} {NAMES[component]} room for {pages}")

    def _need(self, condition: bool, words: str) -> None:
        if not condition:
            raise NotSteerable(words)

    def _allowed(self, condition: bool, action: str, args: dict[str, Any]) -> bool:
        """The cache's own guard; a refusal is told as the cache tells it."""
        if not condition:
            self.core.refuse(action, args, "its guard does not hold")
        return condition

    @contextmanager
    def _window(self, node: Node, boundary: int) -> Iterator[None]:
        """Let the window of `node` reach up to `boundary`."""
        covered, walker = 0, node
        while walker.parent is not None:
            covered += self.core.pages(walker)
            if walker.id == boundary or walker.parent.parent is None:
                break
            walker = walker.parent
        kept, self.core.window = self.core.window, max(covered, 1)
        try:
            yield
        finally:
            self.core.window = kept

    def flush(self) -> None:
        """Submit whatever was begun: somebody else is going to act."""
        self._send()

    def steers(self, holder: int) -> bool:
        """The prefetch was begun here: what it read is handed to the tree by single actions only."""
        return self.core.holders.get(holder) in self._begun

    def _send(self, holder: int | None = None) -> None:
        """Submit what was begun by `holder`, or by anybody: later copies cannot join it any more."""
        for receipt in [r for r in self._unsent if holder in (None, r.id)]:
            copies = self._unsent.pop(receipt)
            receipt.ticket = self.core.engine.submit("backup", copies, self.core.engine.fence(), self.core.config.group)
            self.core.in_flight["backup"].append(receipt)

    def _settle(self, receipt: Operation, *, fail: bool = False) -> Names:
        """The transfer ends, well or not, and is taken notice of: before others that began earlier, too."""
        self._send(receipt.id)
        ticket = receipt.ticket
        assert ticket is not None
        queue = self.core.in_flight[ticket.direction]
        queue.remove(receipt)
        queue.appendleft(receipt)
        if fail:
            self._need(not ticket.ended and not ticket.error, "its transfer has ended")
            ticket.fault = "failed"
            ticket.cancel()
        self.core.engine.wait(ticket)
        settle.deliver(self.core)
        return {}

    # Requests
    def _do_insert_leaf(self, parent: int, leaf: int) -> Names:
        above = self._node(parent)
        self._room("device", FULL, LEAF_PAGES)
        self._need(above.on_device, "the parent is not on the device")
        return {"leaf": requests.insert_leaf(self.core, above, self._tokens(LEAF_PAGES)).id}

    def _do_unevict(self, node: int) -> None:
        found = self._node(node)
        self._room("device", FULL, self.core.pages(found))
        requests.unevict(self.core, found)

    def _do_attach_aux(self, node: int, component: int) -> None:
        found = self._node(node)
        self._room("device", component, self.core.need(found, component))
        requests.attach_aux(self.core, found, component)

    def _do_split(self, node: int, prefix: int) -> Names:
        found = self._node(node)
        pages = self.core.pages(found)
        self._need(pages > 1, f"node {node} is a single page")
        return {"prefix": requests.split(self.core, found, pages // 2).id}

    def _do_lock(self, node: int, boundary: int, holder: int) -> Names:
        found = self._node(node)
        with self._window(found, boundary):
            return {"holder": requests.lock(self.core, found).id}

    def _do_unlock(self, holder: int) -> None:
        self.cache.unlock(self._request(holder))

    def _do_release_window(self, node: int, holder: int) -> None:
        requests.release_window(self.core, self._request(holder), self._node(node))

    def _do_forward(self, node: int, holder: int) -> Names:
        receipt = self._request(holder)
        read = self._node(node)
        self._need(receipt.path is not None and read in receipt.path.path(), "a request reads what it has locked")
        args = {"node": node, "holder": holder}
        if not self._allowed(requests.unarrived(receipt, read) is None, "forward", args):
            return {"refused": 1}
        if read is receipt.node:
            self.cache.forward(receipt)
        else:
            requests.forward(self.core, receipt, read)
        return {}

    # Device to host
    def _do_begin_backup(self, node: int, top: int, holder: int) -> Names:
        core, found = self.core, self._node(node)
        segment = found.segment(self._node(top))
        self._room("host", FULL, sum(core.pages(m) for m in segment))
        arrived = all(m.device[FULL].pending is None for m in segment)
        if not self._allowed(arrived, "begin_backup", {"node": node, "top": top, "holder": core.next_holder}):
            return {"refused": 1}
        receipt = self._new_backup(found)
        self._unsent[receipt] = backup.begin_backup(core, found, self._node(top), receipt)
        return {"holder": receipt.id}

    def _do_backup_aux(self, node: int, holder: int, component: int) -> Names:
        core, found = self.core, self._node(node)
        self._room("host", component, core.need(found, component))
        receipt = core.holders.get(holder)
        self._need(receipt is None or receipt in self._unsent, "its transfer is under way already")
        args = {"node": node, "component": NAMES[component], "holder": holder if receipt else core.next_holder}
        if not self._allowed(found.device[component].pending is None, "backup_aux", args):
            return {"refused": 1}
        own = receipt if isinstance(receipt, Operation) else self._new_backup(found)
        self._need(own.path is None or found in own.path.path() or core.write_back, "its path is another")
        self._unsent.setdefault(own, []).append(backup.backup_aux(core, found, component, own))
        return {"holder": own.id}

    def _new_backup(self, node: Node) -> Operation:
        receipt = Operation(self.core.holder_id(), "backup", node)
        self.core.holders[receipt.id] = receipt
        return receipt

    def _do_ack_backup(self, holder: int) -> Names:
        receipt = self._operation(holder, "backup")
        self._need(backup.may_ack_backup(self.core, receipt), "the copy of a parent has failed")
        return self._settle(receipt)

    def _do_fail_backup(self, holder: int) -> Names:
        receipt = self._operation(holder, "backup")
        self._need(backup.may_fail_backup(self.core, receipt), "something below relies on it")
        return self._settle(receipt, fail=True)

    # Room
    def _give_up(self, action: str, node: int, free: Callable[..., int], *rest: int, fits: bool = True) -> Names:
        """Free something, if the cache finds that it may be; a refusal is told as the cache tells it."""
        found = self._node(node)
        args = {"node": node, **({"component": NAMES[rest[0]]} if rest else {})}
        if not fits or not free(self.core, found, *rest):
            self.core.refuse(action, args, "its guard does not hold")
            return {"refused": 1}
        return {}

    def _do_demote(self, node: int) -> Names:
        return self._give_up("demote", node, device_room.demote)

    def _do_delete_leaf(self, node: int) -> Names:
        self._need(self._node(node).on_device, "the cache evicts nothing from the device that is not there")
        return self._give_up("delete_leaf", node, device_room.delete_leaf)

    def _do_drop_subtree(self, node: int) -> Names:
        return self._give_up("drop_subtree", node, device_room.drop_subtree)

    def _do_evict_host_leaf(self, node: int) -> Names:
        self._need(not self._node(node).children, "it is no leaf")
        fits = self.core.is_host_leaf(self._node(node))
        return self._give_up("evict_host_leaf", node, host_room.evict_host_leaf, fits=fits)

    def _do_reclaim_duplicate(self, node: int) -> Names:
        fits = self.core.is_reclaimable(self._node(node))
        return self._give_up("reclaim_duplicate", node, host_room.reclaim_duplicate, fits=fits)

    def _do_evict_device_aux(self, node: int, component: int) -> Names:
        return self._give_up("evict_device_aux", node, device_room.evict_device_aux, component)

    def _do_evict_host_aux(self, node: int, component: int) -> Names:
        fits = self.core.host_aux[component].fits(self._node(node))
        return self._give_up("evict_host_aux", node, host_room.evict_host_aux, component, fits=fits)

    # Host to device
    def _do_begin_load_back(self, node: int, boundary: int, holder: int) -> Names:
        found = self._node(node)
        with self._window(found, boundary):
            return {"holder": load_back.begin_load_back(self.core, found).id}

    def _do_commit_load_back(self, node: int, holder: int) -> Names:
        receipt = self._operation(holder, "loading")
        wanted = load_back.sources(self.core, receipt)
        for c in self.core.components:
            self._room("device", c, sum(self.core.need(m, k) for m, k in wanted if k == c))
        loading.commit(self.core, receipt)
        return {}

    def _do_ack_load_back(self, node: int, holder: int) -> Names:
        return self._settle(self._operation(holder, "load_back"))

    def _do_fail_load_back(self, node: int, holder: int) -> Names:
        receipt = self._operation(holder, "load_back")
        self._need(load_back.may_fail_load_back(self.core, receipt), "somebody relies on what it was filling")
        return self._settle(receipt, fail=True)

    def _do_refuse_load_back(self, node: int, holder: int) -> Names:
        receipt = self._operation(holder, "loading")
        self._need(not load_back.sources(self.core, receipt), "there is something to load")
        load_back.refuse_load_back(self.core, receipt)
        return {}

    def _do_abort_load_back(self, holder: int) -> None:
        load_back.abort_load_back(self.core, self._operation(holder, "loading"))

    # Storage
    def _do_begin_prefetch(self, node: int, holder: int) -> Names:
        """Storage delivers pages that are anybody's: what they are is decided when the tree takes them."""
        core, anchor, store = self.core, self._node(node), self.core.store
        self._need(store is not None, "there is no storage tier")
        assert store is not None
        for c in core.components:
            self._room("host", c, READ_PAGES[c])
        key = _tokens_of(anchor)
        reserved, copies = {}, []
        for c in core.components:
            slots = core.pools.host[c].slots.take(READ_PAGES[c])
            assert slots is not None
            reserved[c] = slots
            _, layers, words = core.pools.host[c].data.shape
            keys = [store_key(c, h) for h in storage.page_hashes(chain(b"", self._tokens(READ_PAGES[c]), core.stride))]
            blank = page_as_bytes(torch.zeros(layers, words, dtype=torch.int64))
            store.put_all([(name, blank) for name in keys])
            side = StoreSide(store, keys, layers)
            copies.append(Copy(side, array("i", range(len(keys))), core.pools.host[c], slots))
        receipt = storage.begin_prefetch(core, anchor, core.root, key, anchor.end, reserved)
        receipt.ticket = core.engine.submit("prefetch", copies)
        core.in_flight["prefetch"].append(receipt)
        self._begun.add(receipt)
        return {"holder": receipt.id}

    def _delivered(self, receipt: Prefetch, component: int, node: Node, key: bytes, pages: int) -> Slots:
        """Slots of a read that has ended, with the last `pages` pages of the path of `node` and `key` in them."""
        held = receipt.reserved[component]
        self._need(len(held) >= pages, f"all {NAMES[component]} that it read is in the tree")
        slots, receipt.reserved[component] = held[:pages], held[pages:]
        pool = self.core.pools.host[component]
        _, layers, words = pool.data.shape
        seed = node.path()[-1].hashes or b""
        ids = identities(chain(seed, _tokens_of(node) + key, self.core.stride))[-pages:]
        pool.fill(slots, page_bytes(ids, component, layers, words))
        return slots

    def _prefetch(self, holder: int) -> Prefetch:
        receipt = self._operation(holder, "prefetch")
        assert isinstance(receipt, Prefetch)
        return receipt

    def _do_complete_prefetch(self, holder: int) -> Names:
        receipt = self._prefetch(holder)
        self._need(receipt.filling, "the storage read has ended")
        return self._settle(receipt)

    def _do_insert_host(self, parent: int, leaf: int, holder: int) -> Names:
        receipt, above = self._prefetch(holder), self._node(parent)
        if receipt.filling:
            return self._do_end_prefetch(holder)
        key = self._tokens(LEAF_PAGES)
        slots = self._delivered(receipt, FULL, above, key, LEAF_PAGES)
        return {"leaf": storage.insert_host(self.core, above, key, receipt, slots).id}

    def _do_attach_host_aux(self, node: int, holder: int, component: int) -> Names:
        receipt, found = self._prefetch(holder), self._node(node)
        if receipt.filling:
            return self._do_end_prefetch(holder)
        slots = self._delivered(receipt, component, found, b"", self.core.need(found, component))
        storage.attach_host_aux(self.core, found, component, receipt, slots)
        return {}

    def _do_end_prefetch(self, holder: int) -> Names:
        receipt = self._prefetch(holder)
        if not self._allowed(not receipt.filling, "end_prefetch", {"holder": holder}):
            return {"refused": 1}
        storage.end_prefetch(self.core, receipt)
        return {}

    def _do_begin_storage_backup(self, node: int, holder: int) -> Names:
        found = self._node(node)
        args = {"node": node, "holder": self.core.next_holder}
        if not self._allowed(found.host[FULL].pending is None, "begin_storage_backup", args):
            return {"refused": 1}
        return {"holder": self.cache.storage_backup(node).id}

    def _do_ack_storage_backup(self, holder: int) -> Names:
        return self._settle(self._operation(holder, "storage_backup"))

    def _do_fail_storage_backup(self, holder: int) -> Names:
        return self._settle(self._operation(holder, "storage_backup"), fail=True)

    def _do_reset(self) -> Names:
        try:
            self.cache.reset()
        except Busy:
            return {"refused": 1}
        return {}


def _tokens_of(node: Node) -> bytes:
    return b"".join(member.key for member in reversed(node.path()))
