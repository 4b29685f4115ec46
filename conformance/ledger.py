"""Who owns which slot, from what the pools say they gave and took. Knows nothing of the protocol."""

from __future__ import annotations

from collections.abc import Iterator

from ..model.vocabulary import Component
from .events import Owner, Row, Tier

Pool = tuple[Tier, Component]


class Ledger:
    """Every slot has one owner, from the take to the give.

    Args:
        capacity: slots of each pool, where known.
    """

    def __init__(self, capacity: dict[Tier, dict[Component, int]] | None = None) -> None:
        self.capacity: dict[Pool, int] = {
            (tier, component): size for tier, sizes in (capacity or {}).items() for component, size in sizes.items()
        }
        self.owner: dict[Pool, dict[int, Owner]] = {}
        self.owned: dict[Owner, dict[Pool, int]] = {}

    def book(self, row: Row) -> Iterator[str]:
        """One row of an event. Yields in words what is wrong with it; it is booked all the same."""
        verb, tier, component, slots, owner = row
        pool = (tier, component)
        owners = self.owner.setdefault(pool, {})
        if verb == "give":
            for slot in slots:
                had = owners.pop(slot, None)
                if had is None:
                    yield f"{tier} {component} slot {slot} of {owner[0]} {owner[1]} is freed, and was free already"
                    continue
                self._count(had, pool, -1)
                if had != owner:
                    name = f"{tier} {component} slot {slot}"
                    yield f"{name} is freed for {owner[0]} {owner[1]}, and is {had[0]} {had[1]}'s"
            return
        for slot in slots:
            had = owners.get(slot)
            if (had is None) != (verb == "take"):
                yield (
                    f"{tier} {component} slot {slot} is given to {owner[0]} {owner[1]}, and is {had[0]} {had[1]}'s"
                    if had is not None
                    else f"{tier} {component} slot {slot} passes to {owner[0]} {owner[1]}, and nobody had it"
                )
            if had is not None:
                self._count(had, pool, -1)
            owners[slot] = owner
            self._count(owner, pool, 1)
        size = self.capacity.get(pool)
        if size is not None and len(owners) > size:
            yield f"{len(owners)} {tier} {component} slots are out, and there are {size}"

    def slots(self, owner: Owner, tier: Tier, component: Component) -> int:
        """How many slots of a pool an owner has."""
        held = self.owned.get(owner)
        return held.get((tier, component), 0) if held else 0

    def free(self, tier: Tier, component: Component) -> int | None:
        """Free slots of a pool; None where its size is not known."""
        size = self.capacity.get((tier, component))
        return None if size is None else size - len(self.owner.get((tier, component), ()))

    def _count(self, owner: Owner, pool: Pool, change: int) -> None:
        held = self.owned.setdefault(owner, {})
        count = held.get(pool, 0) + change
        if count:
            held[pool] = count
        else:
            del held[pool]
            if not held:
                del self.owned[owner]
