"""Namespaces: equal tokens under different ones share nothing, on any tier.

Each namespace has a root of its own, which to the protocol is node 0 like all others: the ways from there never meet.
The hashes of its pages are chained from its seed on, and so are the identities of their bytes and their names in
storage. Storage that named pages by their tokens alone was SGLang #26747.
"""

from __future__ import annotations

from hashlib import blake2b

from .content import DIGEST
from .errors import BadArgument

Namespace = str | bytes
"""What tells a request's tokens from the same tokens of others: a tenant's salt, an adapter. Empty: nothing does."""


def seed(namespace: Namespace) -> bytes:
    """What the hashes of a namespace's pages are chained from; nothing for the empty one. Raises BadArgument."""
    if not isinstance(namespace, str | bytes):
        raise BadArgument("namespace", f"{namespace!r} is neither text nor bytes")
    name = namespace.encode() if isinstance(namespace, str) else namespace
    return blake2b(name, digest_size=DIGEST, key=b"pinproof namespace").digest() if name else b""


def label(seed: bytes) -> str:
    """A namespace as events name it."""
    return seed[:8].hex()
