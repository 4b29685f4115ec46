"""Storage: prefetch into the host tier, backup out of it; failures and aborts (runs inside the environment).

The store is imagined: it holds every page anyone could ask for, so that how much a prefetch finds is a choice of the
driver (`hit`). A prefetch's host slots are reserved when the hit is known, as the server does it.
"""

from __future__ import annotations

import hashlib
from inspect import signature
from typing import Any

from .base import Change, Refused
from .op_copies import Copies
from .tree import Node, Slots, content


class Prefetch:
    """A prefetch in flight: its anchor with the receipt of the host lock, its tokens and its reservation."""

    __slots__ = ("done", "full", "holder", "node", "receipt", "staged", "tokens", "transfers")

    def __init__(self, holder: int, node: Node, receipt: Any, tokens: tuple[int, ...]) -> None:
        self.holder, self.node, self.receipt, self.tokens = holder, node, receipt, tokens
        self.full: Slots = []
        self.transfers: dict[Any, list[Any]] = {}
        self.staged: dict[str, Slots] = {}
        self.done = 0


class Storage(Copies):
    """Prefetches and storage backups."""

    def start_operations(self) -> None:
        """Set up what is empty when nothing is in flight."""
        super().start_operations()
        self.prefetches: dict[int, Prefetch] = {}
        self.stores: list[tuple[int, Node, Any]] = []
        self.failing: list[str] = []

    # ---- prefetch ----

    def op_prefetch(self, tokens: list[int], hit: int | None = None) -> dict[str, Any]:
        """Fetch what follows the cached prefix of `tokens` from storage; `hit`: how many tokens storage has of it."""
        result = self._match(tokens)
        node = self.tree.handles[result.last_host_node]
        if node.parent is not None and not self.call("is_backuped", node.handle):
            raise Refused("RefusedUnbacked", f"node {node.id}, where the match ends, has no host copy to go on from")
        length = len(tokens) - len(tokens) % self.page
        rest = tuple(tokens[node.end : length])
        if hit is not None:
            rest = rest[: hit - hit % self.page]
        if not rest:
            raise Refused("RefusedNothing", "nothing to fetch: cached, or not in storage")
        holder = self.new_holder()
        receipt = self.call("inc_host_lock_ref", node.handle).to_dec_params()
        prefetch = Prefetch(holder, node, receipt, rest)
        self.look()
        self.emit("begin_prefetch", {"node": node.id, "holder": holder, **self.tops(node)}, [node])
        self.prefetches[holder] = prefetch
        if not self._reserve(prefetch):
            self.emit("complete_prefetch", {"holder": holder}, [])
            self._end_prefetch(prefetch)
            raise Refused("RefusedNoRoom", "no host slots")
        return {"holder": holder, "tokens": len(rest)}

    def _reserve(self, prefetch: Prefetch) -> bool:
        owner = ("holder", prefetch.holder)
        count = len(prefetch.tokens)
        short = count - self.pools["host", "full"].available()
        if short > 0:
            self.evict_host("full", count)
        full = self.pools["host", "full"].take(count, owner)
        if full is None:
            return False
        prefetch.full = full
        self.row("take", "host", "full", full, owner)
        for name in self.components[1:]:
            staging = self._staging(name, prefetch)
            if not staging:
                continue
            slots = self._take_host(name, staging, prefetch.holder)
            if slots is None:
                return False
            self.row("take", "host", name, slots, owner)
            prefetch.staged[name] = slots
            part = self._prefetch_transfer(name, prefetch, slots)
            if part:
                prefetch.transfers[self.core.types[name]] = part
        return True

    def _staging(self, name: str, prefetch: Prefetch) -> int:
        """Host slots that a component wants for a prefetch: a state, or a whole window of pages."""
        if name == "mamba":
            return 1
        pages = len(prefetch.tokens) // self.page
        window = -(-self.window // self.page)
        if pages >= window:
            return window * self.page
        # A shorter fetch is a whole window only when it starts at the root, and only later releases take it.
        if prefetch.node.parent is None and hasattr(self.core.tree, "backfill_missing_hash_values"):
            return pages * self.page
        return 0

    def _prefetch_transfer(self, name: str, prefetch: Prefetch, slots: Slots) -> list[Any]:
        which, wanted = (
            self.core.types[name],
            {"token_ids": list(prefetch.tokens), "prefetch_tokens": len(prefetch.tokens)},
        )
        if "staging_tokens" in signature(self.core.tree.build_hicache_transfers).parameters:
            wanted["staging_tokens"] = len(slots)
        else:
            wanted["host_indices"] = self.tensor(slots)
        handle = prefetch.node.handle
        parts = self.call("build_hicache_transfers", which, handle, self.core.phase.PREFETCH, **wanted)
        for part in parts or ():
            part.host_indices = self.tensor(slots)
        return list(parts or ())

    def op_finish_prefetch(self, holder: int, pages: int | None = None) -> dict[str, Any]:
        """The storage read ends, whole or after `pages`; what arrived is put into the tree, the rest given back."""
        prefetch = self._prefetch(holder)
        length = len(prefetch.tokens)
        if "prefetch" in self.failing:
            self.failing.remove("prefetch")
            pages = min(pages or 0, length // self.page - 1)
        completed = length if pages is None else min(length, pages * self.page)
        self._read_storage(prefetch, completed)
        self.emit("complete_prefetch", {"holder": holder}, [])
        # With auxiliary transfers it is all or nothing.
        if completed == 0 or (prefetch.transfers and completed < length):
            self._end_prefetch(prefetch)
            return {"loaded": 0}
        return {"loaded": self._graft(prefetch, completed)}

    def _prefetch(self, holder: int) -> Prefetch:
        prefetch = self.prefetches.get(holder)
        if prefetch is None:
            raise Refused("RefusedHolder", f"holder {holder} is no prefetch in flight")
        return prefetch

    def _read_storage(self, prefetch: Prefetch, completed: int) -> None:
        """Write what storage has into the reservation."""
        code = prefetch.node.codes[-1] if prefetch.node.codes else 0
        codes = []
        for token in prefetch.tokens:
            code = content(code, token)
            codes.append(code)
        for slot, value in zip(prefetch.full[:completed], codes, strict=False):
            self.pools["host", "full"].content[slot] = value
        for slot, value in zip(reversed(prefetch.staged.get("swa", [])), reversed(codes), strict=False):
            self.pools["host", "swa"].content[slot] = value ^ 2
        if "mamba" in prefetch.staged:
            self.pools["host", "mamba"].content[prefetch.staged["mamba"][0]] = content(codes[-1], -7)

    def _graft(self, prefetch: Prefetch, completed: int) -> int:
        """Insert the fetched span below the anchor, attach the auxiliary copies, give back what was there already."""
        node, holder = prefetch.node, prefetch.holder
        tokens = prefetch.tokens[:completed]
        path = node.prefix() + tokens
        full, start = prefetch.full, node.end

        def provide(each: Node, tier: str, name: str) -> Slots:
            return full[each.start - start : each.end - start]

        hashes = self._hashes(path)[start // self.page :]
        result = self.call("insert_host", node.handle, self.key(tokens), self.tensor(full[:completed]), hashes)
        changes = self.look(provide, path)
        self._grafted(changes, holder)
        actions = list(result.cache_actions or ())
        if actions:
            result.cache_actions.clear()
            self.act(actions)
        loaded = 0
        if not result.host_insert_dropped:
            loaded = completed - result.prefix_len
            self._attach(prefetch, result, path)
            self.free("host", "full", full[: result.prefix_len])
        self._end_prefetch(prefetch)
        return loaded

    def _grafted(self, changes: list[Change], holder: int) -> None:
        rest = self.splits(changes)
        new = {change.node for change in rest if change.what == "leaf"}
        for change in rest:
            if change.what == "came" and change.tier == "host" and change.component == "full":
                self.came(change)
                parent = change.node.parent
                assert parent is not None
                if change.node in new:
                    given = {"parent": parent.id, "leaf": change.node.id, "holder": holder}
                    self.emit("insert_host", given, [parent, change.node])
                else:  # a later release gives a node that is on device alone its host copy back
                    args: dict[str, Any] = {"node": change.node.id, "component": "full", "holder": holder}
                    self.emit("attach_host_aux", args, [change.node])
        self.evictions([c for c in rest if c.what not in ("came", "leaf")])

    def _attach(self, prefetch: Prefetch, result: Any, path: tuple[int, ...]) -> None:
        """Commit the auxiliary transfers; those slots that the core did not hand back are the nodes' now."""
        if not prefetch.transfers:
            return
        hits = {self.core.PoolName(name): self._hit_pages(name, slots) for name, slots in prefetch.staged.items()}
        storage = self.core.PoolTransferResult(len(prefetch.tokens) // self.page, hits)
        actions: list[Any] = []
        self.call(
            "commit_hicache_transfers", prefetch.node.handle, self.core.phase.PREFETCH, prefetch.transfers,
            cache_actions=actions, insert_result=result, pool_storage_result=storage,
        )  # fmt: skip
        swa, staged_start = prefetch.staged.get("swa", []), 0
        staged_start = len(path) - len(swa)

        def provide(each: Node, tier: str, name: str) -> Slots:
            if name == "mamba":
                return prefetch.staged["mamba"]
            return swa[each.start - staged_start : each.end - staged_start]

        self._path = path
        rest = self.splits(self.look(provide, path, lambda: self._told(prefetch, result, actions, staged_start)))
        for change in rest:
            if change.what == "came":
                self.came(change)
                args = {"node": change.node.id, "component": change.component, "holder": prefetch.holder}
                self.emit("attach_host_aux", args, [change.node])
        self.act(actions)

    def _told(self, prefetch: Prefetch, result: Any, actions: list[Any], start: int) -> dict[Node, set[str]]:
        """What was attached where a core does not tell: staged slots that no action gives back."""
        back: dict[str, set[int]] = {name: set() for name in prefetch.staged}
        for action in actions:
            if type(action).__name__ == "FreeComponentHostSlot":
                for indices in action.host_indices:
                    back[self.core.names[action.component_type]].update(indices.tolist())
        told: dict[Node, set[str]] = {}
        if result.inserted_host_node is None:
            return told
        target = self.tree.handles.get(result.inserted_host_node)
        if target is None:
            return told
        if "mamba" in prefetch.staged and prefetch.staged["mamba"][0] not in back["mamba"]:
            told.setdefault(target, set()).add("mamba")
        swa = prefetch.staged.get("swa", [])
        for each in target.path():
            inside = swa[max(0, each.start - start) : max(0, each.end - start)]
            if inside and each.start >= start and not set(inside) & back["swa"]:
                told.setdefault(each, set()).add("swa")
        return told

    def _hit_pages(self, name: str, slots: Slots) -> int:
        return 1 if name == "mamba" else len(slots) // self.page

    def _hashes(self, path: tuple[int, ...]) -> list[str]:
        """A hash for each page of the path (opaque to the core)."""
        digest, found = b"", []
        for first in range(0, len(path), self.page):
            page = repr(path[first : first + self.page]).encode()
            digest = hashlib.sha256(digest + page).digest()
            found.append(digest.hex())
        return found

    def _end_prefetch(self, prefetch: Prefetch) -> None:
        """Give back what is left of the reservation, and the anchor's lock."""
        del self.prefetches[prefetch.holder]
        owner = ("holder", prefetch.holder)
        for name, slots in [("full", prefetch.full), *prefetch.staged.items()]:
            pool = self.pools["host", name]
            self.free("host", name, [slot for slot in slots if pool.owner[slot] == owner])
        self.call("dec_host_lock_ref", prefetch.node.handle, prefetch.receipt)
        self.look()
        self.emit("end_prefetch", {"holder": prefetch.holder}, [prefetch.node])

    # ---- storage backup ----

    def op_storage_backup(self, node: int) -> dict[str, Any]:
        """Write a node's host copies to storage."""
        target = self.node(node)
        if target.parent is None or not target.host.get("full"):
            raise Refused("RefusedUnbacked", f"node {node} has no host copy")
        if self.is_pending(target):
            raise Refused("RefusedPending", f"the host copy of node {node} has not arrived")
        before = self.holders
        self.store(target.handle)
        return {"holder": before + 1}

    def store(self, handle: Any) -> None:
        """Begin to write a node's host copies to storage; nothing when it has none."""
        spec = self.call("build_storage_backup_spec", handle, False)
        if spec is None:
            return
        node, holder = self.tree.handles[handle], self.new_holder()
        slots = {"full": spec.host_value.tolist()}
        for which, parts in spec.comp_xfers.items():
            slots[self.core.names[which]] = [slot for part in parts for slot in part.host_indices.tolist()]
        receipt = self.call("inc_host_lock_ref", handle).to_dec_params()
        for name, read in slots.items():
            self.pools["host", name].start_copy(read, holder, "reads")
        codes = {name: list(node.expected(name)) for name in slots}
        self.stores.append((holder, node, (handle, receipt, slots, codes)))
        self.look()
        self.emit("begin_storage_backup", {"node": node.id, "holder": holder, **self.tops(node)}, [node])

    def _ack_store(self) -> None:
        holder, node, (handle, receipt, slots, codes) = self.stores.pop(0)
        failed = "storage_backup" in self.failing
        if failed:
            self.failing.remove("storage_backup")
        for name, read in slots.items():
            pool = self.pools["host", name]
            for slot, code in zip(read, codes[name], strict=True):
                if pool.content[slot] != code:
                    self.report(
                        "wrong bytes",
                        f"the storage write of holder {holder} reads other bytes in slot {slot} of {pool}",
                    )
                    break
            pool.end_copy(read, holder)
        self.call("dec_host_lock_ref", handle, receipt)
        if not failed:
            self._stored(node, len(codes["full"]))
        self.look()
        self.emit("fail_storage_backup" if failed else "ack_storage_backup", {"holder": holder}, [node])

    def _stored(self, node: Node, length: int) -> None:
        """Storage has what a node spanned when it was asked for, in all parts that it has been split into since."""
        start = node.end - length
        for part in node.path():
            if part.start < start:
                break
            part.stored = True
            self._unshown.add(part)

    def queues(self) -> list[tuple[str, list[Any], Any]]:
        """The queues of copies in flight with what delivers the next ack of each."""
        return [*super().queues(), ("storage", self.stores, self._ack_store)]

    # ---- faults ----

    def op_fail(self, kind: str, fault: str = "failed") -> dict[str, Any]:
        """The next storage copy of that kind fails in its only way: ``prefetch`` (cut short) or ``storage_backup``."""
        if kind not in ("prefetch", "storage_backup"):
            raise Refused("RefusedKind", f"copies of kind {kind!r} cannot fail in this server: it waits for them")
        self.failing.append(kind)
        return {}

    def op_abort(self, holder: int) -> dict[str, Any]:
        """The request of a holder is aborted: a prefetch is terminated, a lock given back; a copy runs to its end."""
        if holder in self.locks:
            return self.op_unlock(holder)
        if holder in self.prefetches:
            prefetch = self.prefetches[holder]
            self.emit("complete_prefetch", {"holder": holder}, [])
            self._end_prefetch(prefetch)
            return {}
        raise Refused("RefusedHolder", f"holder {holder} has nothing that can be aborted")
