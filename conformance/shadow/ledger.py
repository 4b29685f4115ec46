"""The online ledger: ownership rules that need no look at the tree. Standard library only.

It is fed one record for each call of a tree core (`telling.py` says what is in one), before the call and after it, and
keeps who has which slot, which copies run, which locks and marks are out. What a call costs here depends on the slots
and nodes that the call itself names, never on how large the tree is; `work` counts those steps.

Slots are counted in *units*: pages for FULL and SWA, states for MAMBA. What cannot be known is left alone: a slot that
the ledger has never seen may be freed and read, and the SWA slots behind FULL slots are followed only where the core
said which they are.
"""

from __future__ import annotations

from collections.abc import Callable

from .slots import ARRIVED, ONE_WRITER, OWNED, STAYS, Breach, Record, Slots

DEAD = "accounting.dead-nodes-are-held-by-nobody"
DEVICE_LOCKS = "release.device-locks-belong-to-somebody"
HOST_LOCKS = "release.host-locks-belong-to-somebody"
TRANSFERS = "release.transfers-belong-to-their-operation"
MARKS = "release.marks-belong-to-a-backup"
LOCKED = "safety.locked-slots-stay"

_OF_LOCKS = (OWNED, DEAD, DEVICE_LOCKS, HOST_LOCKS, TRANSFERS, MARKS, LOCKED)
PROPERTIES = frozenset((*_OF_LOCKS, *STAYS.values(), *ARRIVED.values(), *ONE_WRITER.values()))
"""The ids, in the catalogue of properties, of what the ledger can report."""


class Ledger:
    """Feed each call to `before` and `after`; each returns what the call breaks."""

    def __init__(self) -> None:
        self._steps = 0
        self._stale: dict[int, int] = {}
        self._clear()

    def _clear(self) -> None:
        self.slots = Slots()
        self._rebuilt: dict[int, list[int]] = {}
        self._locks: dict[int, list[int]] = {}
        self._host_locks: dict[int, int] = {}
        self._pins: dict[int, int] = {}
        self._marks: dict[int, set[int]] = {}
        self._undecided: int | None = None

    @property
    def work(self) -> int:
        """Steps taken so far: units, nodes and calls looked at."""
        return self._steps + self.slots.work

    @property
    def copies(self) -> int:
        """Copies in flight."""
        return sum(map(len, self.slots.running.values()))

    @property
    def locks(self) -> int:
        """Device locks that are held."""
        return sum(held for held, _ in self._locks.values())

    def before(self, record: Record) -> list[Breach]:
        """What is wrong with a call, by its arguments alone; taken as done from now on."""
        self._steps += 1
        found: list[Breach] = []
        if self._undecided is not None:
            self._decide(record)
        check = _BEFORE.get(record["call"])
        if check is not None:
            check(self, record, found)
        return found

    def after(self, record: Record) -> list[Breach]:
        """What is wrong with what a call gave back. Not asked of a call that raised."""
        self._steps += 1
        found: list[Breach] = []
        for node, full in record.get("rebuilds", ()):
            self._rebuilt[node] = full
        for full, swa in record.get("pairs", ()):
            self.slots.pair(full, swa)
        for ack, old, *new in record.get("splits", ()):
            marked = self._marks.get(ack)
            if marked is not None and old in marked:
                marked.remove(old)
                marked.update(new)
        if record["call"] in _GIVE_AFTER:
            self.slots.give(record, found)
        self.slots.take_back(record, found)
        for tier, component, units in record.get("frees", ()):
            if units is not None:
                self.slots.free(tier, component, units, record, found)
        if record["call"] == "inc_lock_ref":
            self._locks.setdefault(record["node"], [0, 0])[0] += 1
        elif record["call"] == "inc_full_pin":
            self._pins[record["node"]] = self._pins.get(record["node"], 0) + 1
        return found

    def _begin_insert(self, record: Record, found: list[Breach]) -> None:
        rows = [((tier, name), units) for tier, name, units in record.get("gives", ()) if units is not None]
        self.slots.insert_rows = rows
        self.slots.give(record, found)

    def _attach(self, record: Record, found: list[Breach]) -> None:
        self.slots.give(record, found)

    def _commit_backup(self, record: Record, found: list[Breach]) -> None:
        self.slots.give(record, found)
        self.slots.begin("backup", record, found)

    def _commit_load_back(self, record: Record, found: list[Breach]) -> None:
        self.slots.give(record, found)
        self.slots.begin("load-back", record, found)

    def _set_value(self, record: Record, found: list[Breach]) -> None:
        self.slots.give(record, found)
        full = self._rebuilt.pop(record["node"], None)
        for _, component, units in record.get("gives", ()):
            if component == "swa":
                self.slots.pair(full, units)

    def _finish_load_back(self, record: Record, found: list[Breach]) -> None:
        if not self.slots.end("load-back", record["node"]):
            words = f"a load-back of node {record['node']} is acknowledged, and none is in flight"
            found.append(Breach(TRANSFERS, words))

    def _mark(self, record: Record, found: list[Breach]) -> None:
        nodes, ack = record["nodes"], record["ack"]
        self._steps += len(nodes)
        if ("backup", ack) not in self.slots.running:
            found.append(Breach(MARKS, f"nodes {nodes} are marked for backup {ack}, and none is in flight"))
        self._marks.setdefault(ack, set()).update(nodes)

    def _finish_write_through(self, record: Record, found: list[Breach]) -> None:
        ack = record["ack"]
        self._steps += len(record["nodes"])
        if not self.slots.end("backup", ack):
            found.append(Breach(TRANSFERS, f"backup {ack} is acknowledged, and none is in flight"))
        left = self._marks.pop(ack, set()) - set(record["nodes"])
        if left:
            found.append(Breach(MARKS, f"backup {ack} is acknowledged, and nodes {sorted(left)} keep its mark"))

    def _dec_lock(self, record: Record, found: list[Breach]) -> None:
        node = record["node"]
        lock = self._locks.get(node)
        if lock is None:
            found.append(self._nobody(node))
            return
        if record.get("skip_swa"):
            lock[1] = max(0, lock[1] - 1)
        elif lock[1] >= lock[0]:
            found.append(Breach(DEVICE_LOCKS, f"node {node} is unlocked whole, and its window was given back before"))
            lock[1] -= 1
        lock[0] -= 1
        if not lock[0]:
            del self._locks[node]

    def _nobody(self, node: int) -> Breach:
        if self._stale.get(node):
            self._stale[node] -= 1
            return Breach(DEAD, f"node {node} is unlocked, and the lock was taken before the cache was reset")
        return Breach(DEVICE_LOCKS, f"node {node} is unlocked, and nobody has locked it")

    def _release_window(self, record: Record, found: list[Breach]) -> None:
        if record.get("component", "swa") != "swa":
            return
        lock = self._locks.get(record["node"])
        if lock is None or lock[1] >= lock[0]:
            words = f"the window of node {record['node']} is given back, and no lock on it has one left"
            found.append(Breach(DEVICE_LOCKS, words))
        else:
            lock[1] += 1

    def _dec_pin(self, record: Record, found: list[Breach]) -> None:
        node = record["node"]
        if not self._pins.get(node):
            found.append(Breach(DEVICE_LOCKS, f"node {node} is unpinned, and nobody has pinned it"))
            return
        self._pins[node] -= 1
        if not self._pins[node]:
            del self._pins[node]

    def _host_lock(self, record: Record, found: list[Breach]) -> None:
        node = record["node"]
        self._host_locks[node] = self._host_locks.get(node, 0) + 1
        if "reads" in record:
            self.slots.begin("storage backup", record, found)

    def _dec_host_lock(self, record: Record, found: list[Breach]) -> None:
        node = record["node"]
        if not self._host_locks.get(node):
            found.append(Breach(HOST_LOCKS, f"node {node} is unlocked on the host, and nobody has locked it there"))
            return
        if ("load-back", node) in self.slots.running:
            self._undecided = node
        else:
            self.slots.end("storage backup", node)
        self._host_locks[node] -= 1
        if not self._host_locks[node]:
            del self._host_locks[node]

    def _decide(self, record: Record) -> None:
        """Whose host lock the last call gave back: receipts do not say, but a load-back is acknowledged right after.

        Where two other operations lock one node, the storage backup counts as ended by the first release: rather
        miss something than report what is in order.
        """
        node, self._undecided = self._undecided, None
        if node is not None and not (record["call"] == "finish_load_back" and record["node"] == node):
            self.slots.end("storage backup", node)

    def _give_up(self, record: Record, found: list[Breach]) -> None:
        held = self._locks.get(record["node"])
        if held is not None:
            words = f"node {record['node']} gives up its device slots, and {held[0]} locks on it are held"
            found.append(Breach(LOCKED, words))

    def _reset(self, record: Record, found: list[Breach]) -> None:
        for running in self.slots.running.values():
            for copy in running:
                role = "reads" if copy.kind == "storage backup" else "writes"
                found.append(Breach(STAYS[copy.kind, role], f"the cache is reset while {copy} is in flight"))
        stale = {node: held for node, (held, _) in self._locks.items()}
        self._steps = self.work
        self._clear()
        self._stale = stale


_BEFORE: dict[str, Callable[[Ledger, Record, list[Breach]], None]] = {
    "begin_insert": Ledger._begin_insert,
    "commit_backup": Ledger._commit_backup,
    "commit_load_back": Ledger._commit_load_back,
    "set_component_device_value": Ledger._set_value,
    "attach_swa_window": Ledger._attach,
    "finish_load_back": Ledger._finish_load_back,
    "mark_write_through_pending": Ledger._mark,
    "finish_write_through": Ledger._finish_write_through,
    "dec_lock_ref": Ledger._dec_lock,
    "dec_swa_lock_only": Ledger._release_window,
    "dec_window_lock_only": Ledger._release_window,
    "dec_full_pin": Ledger._dec_pin,
    "inc_host_lock_ref": Ledger._host_lock,
    "dec_host_lock_ref": Ledger._dec_host_lock,
    "demote": Ledger._give_up,
    "evict_device_leaf": Ledger._give_up,
    "reset": Ledger._reset,
}
_GIVE_AFTER = frozenset(["insert_host", "commit_hicache_transfers"])
