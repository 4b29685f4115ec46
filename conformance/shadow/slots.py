"""Who has which slot, and which copies run: the part of the ledger that looks at slots. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Pool = tuple[str, str]
"""``(tier, component)``: ``device`` or ``host``, ``full``, ``swa`` or ``mamba``."""

Record = Mapping[str, Any]

SWA_BEHIND = "swa_behind"
"""In place of a component in a row of frees: the SWA slots behind these FULL slots."""

TRANSLATED: Pool = ("device", "swa")
"""The pool whose slots a core names by others: a free of one may go unseen, so ownership there proves nothing."""

OWNED = "accounting.arrived-bytes-have-slots"
STAYS = {
    ("load-back", "reads"): "safety.load-back-source-stays",
    ("load-back", "writes"): "safety.load-back-destination-stays",
    ("backup", "reads"): "safety.backup-source-stays",
    ("backup", "writes"): "safety.backup-destination-stays",
    ("storage backup", "reads"): "safety.stored-source-stays",
}
ARRIVED = {
    "load-back": "visibility.load-back-reads-arrived-bytes",
    "backup": "visibility.backup-reads-arrived-bytes",
    "storage backup": "visibility.storage-reads-arrived-bytes",
}
ONE_WRITER = {"device": "safety.one-writer-per-device-copy", "host": "safety.one-writer-per-host-copy"}


class Breach(NamedTuple):
    """A rule that a call breaks: the id of the property in the catalogue, and what happened in words."""

    property: str
    words: str


class Copy:
    """A copy in flight: its kind, the node it was begun for, the call that began it, and the units it uses."""

    __slots__ = ("kind", "node", "seq", "uses")

    def __init__(self, kind: str, node: int, seq: int) -> None:
        self.kind, self.node, self.seq = kind, node, seq
        self.uses: list[tuple[Pool, list[int]]] = []

    def __str__(self) -> str:
        return f"the {self.kind} of node {self.node} (call {self.seq})"


class Slots:
    """Slots that the tree has or has freed, and copies in flight with the slots they use."""

    def __init__(self) -> None:
        self.work = 0
        """Units looked at so far."""
        self.running: dict[tuple[str, int], list[Copy]] = {}
        """Copies in flight by kind and node, the oldest first."""
        self.insert_rows: list[tuple[Pool, list[int]]] | None = None
        """What the insert under way was given."""
        self._owned: dict[Pool, dict[int, int]] = {}
        self._freed: dict[Pool, dict[int, int]] = {}
        self._users: dict[Pool, dict[int, list[tuple[Copy, str]]]] = {}
        self._behind: dict[int, int] = {}

    def give(self, record: Record, found: list[Breach]) -> None:
        """Slots pass to the tree."""
        seq = record["seq"]
        for tier, component, units in record.get("gives", ()):
            if units is None:
                continue
            pool = (tier, component)
            owned, freed = self._owned.setdefault(pool, {}), self._freed.setdefault(pool, {})
            users, soft = self._users.get(pool), pool == TRANSLATED
            twice: dict[int, list[int]] = {}
            self.work += len(units)
            for unit in units:
                if unit in owned and not soft:
                    twice.setdefault(owned[unit], []).append(unit)
                owned[unit] = seq
                freed.pop(unit, None)
            if users:
                self._busy(pool, units, "is given to the tree", ONE_WRITER[tier], found)
            for since, again in twice.items():
                words = f"{_named(pool, again)} given to the tree, which has had it since call {since}"
                found.append(Breach(OWNED, words))

    def _busy(self, pool: Pool, units: Iterable[int], what: str, property: str | None, found: list[Breach]) -> None:
        """Report units that a running copy uses; `property` None: the one that guards that use."""
        users = self._users.get(pool)
        if not users:
            return
        hit: dict[tuple[Copy, str], list[int]] = {}
        for unit in units:
            for use in users.get(unit, ()):
                hit.setdefault(use, []).append(unit)
        for (copy, role), mine in hit.items():
            found.append(
                Breach(property or STAYS[copy.kind, role], f"{_named(pool, mine)} {what}, and {copy} {role} it")
            )

    def free(self, tier: str, component: str, units: list[int], record: Record, found: list[Breach]) -> None:
        """Slots leave the tree."""
        self.work += len(units)
        if component == SWA_BEHIND:
            units = [self._behind.pop(unit) for unit in units if unit in self._behind]
            component = "swa"
        pool, seq = (tier, component), record["seq"]
        owned, freed = self._owned.setdefault(pool, {}), self._freed.setdefault(pool, {})
        twice: dict[int, list[int]] = {}
        for unit in units:
            if owned.pop(unit, None) is None and unit in freed and pool != TRANSLATED:
                twice.setdefault(freed[unit], []).append(unit)
            freed[unit] = seq
        for last, again in twice.items():
            found.append(Breach(OWNED, f"{_named(pool, again)} freed, and was freed already at call {last}"))
        self._busy(pool, units, "freed", None, found)

    def pair(self, full: list[int] | None, swa: list[int] | None) -> None:
        """SWA slots are put behind FULL slots."""
        if full is not None and swa is not None:
            self.work += len(full)
            self._behind.update(zip(full, swa, strict=False))

    def take_back(self, record: Record, found: list[Breach]) -> None:
        """Slots that an insert was given and left with the request."""
        if self.insert_rows is None or "done" not in record:
            return
        rows = self.insert_rows
        done: dict[str, Any] = record["done"]
        self.insert_rows = None
        for pool, units in rows:
            owned = self._owned[pool]
            if pool[1] == "mamba" and done["mamba_exist"]:
                for unit in units:
                    owned.pop(unit, None)
            elif pool[1] == "full" and done.get("declined"):
                for unit in units[max(0, done["kept"]) :]:
                    owned.pop(unit, None)

    def begin(self, kind: str, record: Record, found: list[Breach]) -> None:
        """A copy starts to use the slots that a record says it reads and writes."""
        node: int = record["node"]
        copy = Copy(kind, node, record["seq"])
        for role in ("reads", "writes"):
            for tier, component, units in record.get(role, ()):
                if units is None:
                    continue
                pool = (tier, component)
                if role == "reads":
                    self._readable(pool, units, copy, found)
                users = self._users.setdefault(pool, {})
                self.work += len(units)
                for unit in units:
                    users.setdefault(unit, []).append((copy, role))
                copy.uses.append((pool, units))
        self.running.setdefault((kind, node), []).append(copy)

    def _readable(self, pool: Pool, units: list[int], copy: Copy, found: list[Breach]) -> None:
        freed, users = self._freed.get(pool, {}), self._users.get(pool, {})
        gone = [unit for unit in units if unit in freed and pool != TRANSLATED]
        if gone:
            words = f"{copy} reads {_named(pool, gone)} freed at call {freed[gone[0]]}"
            found.append(Breach(STAYS[copy.kind, "reads"], words))
        for unit in units:
            writer = next((other for other, role in users.get(unit, ()) if role == "writes"), None)
            if writer is not None:
                found.append(Breach(ARRIVED[copy.kind], f"{copy} reads {_named(pool, [unit])} written by {writer}"))
                return

    def end(self, kind: str, node: int) -> bool:
        """The oldest copy of that kind and node has ended; whether there was one."""
        running = self.running.get((kind, node))
        if not running:
            return False
        copy = running.pop(0)
        if not running:
            del self.running[kind, node]
        for pool, units in copy.uses:
            users = self._users[pool]
            self.work += len(units)
            for unit in units:
                left = [use for use in users.get(unit, ()) if use[0] is not copy]
                if left:
                    users[unit] = left
                else:
                    users.pop(unit, None)
        return True


def _named(pool: Pool, units: list[int]) -> str:
    tier, component = pool
    more = f" and {len(units) - 1} more" if len(units) > 1 else ""
    return f"{tier} {component} slot {units[0]}{more}"
