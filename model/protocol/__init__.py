"""The ownership protocol of a tiered KV cache: who may free, move or overwrite a slot, and when.

One function is one atomic transition. Read it from top to bottom: what the caller owes (`expect`), what is refused and
which danger the refusal avoids (`require`), what changes. `t` is a `Transaction`; `p` holds the static choices, the
write policy and the components. Every slot is released through `t.free`, which promises that nobody is using it.

Holders are operations, not counters: a holder *is* the receipt for what it took.

Reading order: requests, backup, device_room, load_back, host_room, storage, everything; `common` holds what they share.
"""

from . import requests, backup, device_room, load_back, host_room, storage, everything  # noqa: F401, I001 (the order of TEXT)
from .common import copying_to_host, settled
from .setting import TEXT, Entry, Setting, action

__all__ = ["TEXT", "Entry", "Setting", "action", "copying_to_host", "settled"]
