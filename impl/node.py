"""A node of the radix tree, its copies, and the receipts of the operations that hold some of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .config import FULL

if TYPE_CHECKING:
    from .slots import Slots
    from .transfers.base import Ticket


class Seat:
    """The place of one component of one node on one tier.

    Attributes:
        slots: its pages; None if it has no copy here.
        pending: the operation whose transfer is filling them; None once the bytes have arrived.
        locks: who has locked it, in order. FULL on the device is locked by whole paths and counted in
            `Node.lock_ref`.
    """

    __slots__ = ("locks", "pending", "slots")

    def __init__(self) -> None:
        self.slots: Slots | None = None
        self.pending: Operation | None = None
        self.locks: dict[Receipt, None] | None = None


class Node:
    """A run of pages below those of its parent.

    Attributes:
        id: never reused; 0 is the root.
        key: its tokens; `end` counts the pages from the root to its end.
        device, host: a seat for each component.
        lock_ref: paths through it that are locked on the device.
        device_children, host_children: children with FULL there.
        load_back_pending_id: the load-back that reads its FULL host slots (write_back), or 0.
        write_through_pending_id: the backup that writes its FULL host slots (write_through), or 0.
        duplicate: tracked in full_host_duplicates.
        stored: storage has its pages.
        touched, born, hits, priority: what eviction strategies rank by.
        queued: bit mask of the eviction queues it stands in.
        hashes: chained page hashes, once somebody needed them.
    """

    __slots__ = (
        "born",
        "children",
        "device",
        "device_children",
        "duplicate",
        "end",
        "hashes",
        "hits",
        "host",
        "host_children",
        "id",
        "key",
        "load_back_pending_id",
        "lock_ref",
        "parent",
        "priority",
        "queued",
        "stored",
        "touched",
        "write_through_pending_id",
    )

    def __init__(self, id_: int, parent: Node | None, key: bytes, end: int, components: int) -> None:
        self.id = id_
        self.parent = parent
        self.key = key
        self.end = end
        self.children: dict[bytes, Node] = {}
        if components == 1:
            self.device, self.host = [Seat()], [Seat()]
        else:
            self.device, self.host = [Seat(), Seat()], [Seat(), Seat()]
            if components == 3:
                self.device.append(Seat())
                self.host.append(Seat())
        self.lock_ref = 0
        self.device_children = 0
        self.host_children = 0
        self.load_back_pending_id = 0
        self.write_through_pending_id = 0
        self.duplicate = False
        self.stored = False
        self.touched = 0
        self.born = 0
        self.hits = 0
        self.priority = 0
        self.queued = 0
        self.hashes: bytes | None = None

    @property
    def on_device(self) -> bool:
        """FULL is on the device, arrived or not."""
        return self.device[FULL].slots is not None

    @property
    def on_host(self) -> bool:
        """FULL is on the host, arrived or not."""
        return self.host[FULL].slots is not None

    def seats(self, tier: str) -> list[Seat]:
        """The seats of a tier."""
        return self.device if tier == "device" else self.host

    def path(self) -> list[Node]:
        """The node, its parent, … the root."""
        found = []
        node: Node | None = self
        while node is not None:
            found.append(node)
            node = node.parent
        return found

    def segment(self, top: Node) -> list[Node]:
        """The node up to `top`, an ancestor or itself, both included."""
        found = [self]
        node = self
        while node is not top:
            assert node.parent is not None
            node = node.parent
            found.append(node)
        return found

    def subtree(self) -> list[Node]:
        """The node and all below it, parents before children."""
        found = [self]
        for node in found:
            found.extend(node.children.values())
        return found

    def __repr__(self) -> str:
        return f"Node({self.id})"


class Receipt:
    """What one operation has taken, exactly, and so what it gives back. A request's lock is a plain receipt.

    Locks follow splits: a path lock covers whatever lies above its node, and seats that are split hand their
    receipts on.

    Attributes:
        id: never reused.
        kind: "request", "backup", "loading" (a load-back begun, not committed), "load_back", "prefetch" or
            "storage_backup".
        node: what it was taken on: the request's node, the anchor, …
        path: FULL device locks from here to the root; None if there are none.
        locks: all other locks.
        over: everything was given back.
    """

    __slots__ = ("id", "kind", "locks", "node", "over", "path")

    def __init__(self, id_: int, kind: str, node: Node) -> None:
        self.id = id_
        self.kind = kind
        self.node = node
        self.path: Node | None = None
        self.locks: dict[Seat, Node] = {}
        self.over = False

    def __repr__(self) -> str:
        return f"Receipt({self.id}, {self.kind})"


class Operation(Receipt):
    """A receipt with a transfer.

    Attributes:
        moving: the seats that the transfer fills.
        ticket: the transfer; None before it is submitted.
        doomed: it failed, and what it was to fill cannot be freed yet.
        snapshots: keys and bytes of auxiliary copies that go to storage along with FULL.
    """

    __slots__ = ("doomed", "moving", "snapshots", "ticket")

    def __init__(self, id_: int, kind: str, node: Node) -> None:
        super().__init__(id_, kind, node)
        self.moving: dict[Seat, Node] = {}
        self.ticket: Ticket | None = None
        self.doomed = False
        self.snapshots: list[tuple[bytes, bytes]] = []


class Prefetch(Operation):
    """A storage read under way, or read and not yet handed to the tree.

    Attributes:
        root: the root of its namespace.
        key: the tokens asked for.
        first: page of `key` that the reservation starts with.
        reserved: host slots by component that are still the operation's own.
        filling: the storage read has not ended.
        read: leading FULL pages that were read; valid when no longer filling.
        aborted: nothing is to enter the tree.
    """

    __slots__ = ("aborted", "filling", "first", "key", "read", "reserved", "root")

    def __init__(self, id_: int, node: Node, root: Node, key: bytes, first: int, reserved: dict[int, Slots]) -> None:
        super().__init__(id_, "prefetch", node)
        self.root = root
        self.key = key
        self.first = first
        self.reserved = reserved
        self.filling = True
        self.read = 0
        self.aborted = False


def lock_seat(seat: Seat, node: Node, receipt: Receipt) -> None:
    """Lock one seat; again does no harm."""
    if seat.locks is None:
        seat.locks = {}
    seat.locks[receipt] = None
    receipt.locks[seat] = node


def halve(seat: Seat, upper: Seat, prefix: Node, pages: int) -> None:
    """A node is split after `pages` pages: `upper` gets the first of them, and everybody's claims on them."""
    if seat.slots is not None:
        upper.slots = seat.slots[:pages]
        seat.slots = seat.slots[pages:]
    if seat.pending is not None:
        upper.pending = seat.pending
        seat.pending.moving[upper] = prefix
    for receipt in seat.locks or ():
        lock_seat(upper, prefix, receipt)
