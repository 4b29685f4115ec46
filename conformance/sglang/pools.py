"""Pools whose slots are owned, with real bytes behind them (runs inside the environment).

A slot has an owner: nobody, a node of the tree, or a holder (a request, an operation). Every free is checked at the
instant it happens: of a free slot, of a slot that a copy in flight reads or writes, of a slot under a request's lock.
What is wrong is told to `report` and then done all the same, as the server's own pools would do it, so that the
damage shows: a freed slot's bytes are scribbled over at once and the slot is the next one handed out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

Owner = tuple[str, int]
"""``("node", id)`` or ``("holder", id)``."""

Report = Callable[[str, str], None]
"""Takes the kind of a violation and a sentence about it."""

SCRIBBLE = -1
"""What the bytes of a slot say after it was freed."""


class Pool:
    """Slots of one component on one tier.

    `component` is ``full``, ``swa`` or ``mamba``; `tier` is ``device`` or ``host``. Slots come in pages of
    `page` consecutive ones. Slot 0 and the rest of page 0 are never handed out: the server keeps them for padding,
    and 0 stands for "no such slot" in its full-to-SWA map.
    """

    def __init__(self, component: str, tier: str, pages: int, page: int, report: Report) -> None:
        self.component, self.tier, self.page, self._report = component, tier, page, report
        self.size = pages * page
        count = self.size + page
        self.owner: list[Owner | None] = [None] * count
        self.copies: list[dict[int, str] | None] = [None] * count
        self.locks: list[int] = [0] * count
        self.landing: set[int] = set()
        """Slots that a copy in flight has not filled yet."""
        self._bytes = bytearray(8 * count)
        self.content = memoryview(self._bytes).cast("q")
        self._free = [page * (number + 1) for number in reversed(range(pages))]
        self.released: dict[int, int] = {}
        """Slots freed under a node that has not lost them yet: slot -> node id."""

    def __repr__(self) -> str:
        return f"{self.tier} pool of {self.component}"

    def available(self) -> int:
        """Free slots."""
        return len(self._free) * self.page

    def take(self, count: int, owner: Owner) -> list[int] | None:
        """`count` slots (whole pages) for `owner`, the most recently freed first; None when there are not enough."""
        pages = -(-count // self.page)
        if pages > len(self._free):
            return None
        slots: list[int] = []
        for _ in range(pages):
            first = self._free.pop()
            slots.extend(range(first, first + self.page))
        for slot in slots:
            self.owner[slot] = owner
        return slots[:count]

    def give(self, slots: Iterable[int]) -> list[tuple[Owner, list[int]]]:
        """Free `slots`; return what was freed, by owner. Reports every free that is not allowed."""
        rows: dict[Owner, list[int]] = {}
        for slot in slots:
            owner = self.owner[slot] if 0 < slot < len(self.owner) else None
            if owner is None:
                self._report("double free", f"slot {slot} of the {self} is freed, and nobody owns it")
                continue
            running = self.copies[slot]
            if running:
                holder, role = next(iter(running.items()))
                self._report(
                    "freed during a copy",
                    f"slot {slot} of the {self} ({owner[0]} {owner[1]}) is freed while holder {holder} {role} it",
                )
            if self.locks[slot]:
                self._report(
                    "freed under a lock",
                    f"slot {slot} of the {self} ({owner[0]} {owner[1]}) is freed, {self.locks[slot]} requests lock it",
                )
            if owner[0] == "node":
                self.released[slot] = owner[1]
            rows.setdefault(owner, []).append(slot)
            self.owner[slot] = None
            self.content[slot] = SCRIBBLE
            # The page returns to the free list with its last slot.
            first = slot - slot % self.page
            if all(self.owner[other] is None for other in range(first, first + self.page)):
                self._free.append(first)
        return list(rows.items())

    def move(self, slots: Iterable[int], owner: Owner) -> None:
        """Hand `slots` to `owner`; reports slots that nobody owns."""
        for slot in slots:
            if self.owner[slot] is None:
                self._report("use of a free slot", f"{owner[0]} {owner[1]} is given free slot {slot} of the {self}")
                continue
            self.owner[slot] = owner

    def start_copy(self, slots: Iterable[int], holder: int, role: str) -> None:
        """Mark `slots` as read or written (`role`: ``reads``, ``writes``) by a copy of `holder`."""
        for slot in slots:
            marks = self.copies[slot]
            if marks is None:
                marks = self.copies[slot] = {}
            marks[holder] = role
            if role == "writes":
                self.landing.add(slot)

    def end_copy(self, slots: Iterable[int], holder: int) -> None:
        """Take back the marks of `holder`; the bytes of slots that it wrote have arrived."""
        for slot in slots:
            marks = self.copies[slot]
            if marks and marks.pop(holder, None) == "writes":
                self.landing.discard(slot)
