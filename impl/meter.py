"""What is counted while somebody measures: see `metrics`."""

from __future__ import annotations

from collections import Counter
from time import perf_counter

from .transfers.base import Direction, Ticket


class Meter:
    """Counts that only grow.

    Attributes:
        tokens: of requests that were matched, by where they were found: "device", "host", and "none".
        from_storage: tokens that came to the host from storage.
        dropped: tokens of device leaves, and of what hung below them, that went without a copy being left anywhere.
        transfers, bytes, seconds: by direction, of transfers that have ended, failed ones too: what was copied, and the
            time from submission until the end was taken notice of.
        failed: transfers that did not copy everything, by direction.
    """

    def __init__(self) -> None:
        self.tokens: Counter[str] = Counter(device=0, host=0, none=0)
        self.from_storage = 0
        self.dropped = 0
        self.transfers: Counter[Direction] = Counter()
        self.bytes: Counter[Direction] = Counter()
        self.seconds: dict[Direction, float] = {}
        self.failed: Counter[Direction] = Counter()

    def matched(self, device: int, host: int, tokens: int) -> None:
        """A request came with so many tokens, of which so many are on the device, and so many more on the host."""
        self.tokens["device"] += device
        self.tokens["host"] += host
        self.tokens["none"] += tokens - device - host

    def lost(self, tokens: int, stored: bool) -> None:
        """Tokens leave the tree; storage may have them."""
        if not stored:
            self.dropped += tokens

    def copied(self, ticket: Ticket, page_bytes: int) -> None:
        """The end of a transfer was taken notice of."""
        direction = ticket.direction
        pages = sum(ticket.pages_done)
        if ticket.error is None:
            pages = sum(len(copy.targets) for copy in ticket.copies)
        else:
            self.failed[direction] += 1
        self.transfers[direction] += 1
        self.bytes[direction] += pages * page_bytes
        self.seconds[direction] = self.seconds.get(direction, 0.0) + perf_counter() - ticket.begun
