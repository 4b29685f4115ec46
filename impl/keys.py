"""Token sequences as bytes: four bytes a token, in page-sized strides. Pure functions.

A key is `bytes`, so that comparing, slicing and hashing prefixes are single calls into C whatever their
length.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from .errors import BadTokens

TOKEN_BYTES = 4
Tokens = Iterable[int] | bytes
"""Token ids, or a key that was made of some before."""


def encode(tokens: Tokens, page_size: int) -> bytes:
    """The key of `tokens`. A key comes back as it is.

    Raises:
        BadTokens: not integers, outside 0 … 2**32-1, or the last page is not full.
    """
    if type(tokens) is bytes:
        key = tokens
    elif type(tokens) is array and tokens.typecode == "I":
        key = tokens.tobytes()
    else:
        try:
            key = array("I", tokens).tobytes()
        except TypeError:
            raise BadTokens("tokens", f"not integers: {_sample(tokens)}") from None
        except OverflowError:
            raise BadTokens("tokens", f"outside 0 to 2**32-1: {_sample(tokens)}") from None
    stride = TOKEN_BYTES * page_size
    if len(key) % stride:
        raise BadTokens("tokens", f"{len(key) / TOKEN_BYTES:g} tokens do not fill pages of {page_size}")
    return key


def _sample(tokens: object) -> str:
    words = repr(tokens)
    return words if len(words) <= 60 else words[:57] + "…"


def decode(key: bytes) -> list[int]:
    """The tokens of a key."""
    return list(array("I", key))


def pages(key: bytes, stride: int) -> int:
    """Number of pages in a key; `stride` is bytes a page."""
    return len(key) // stride


def common_pages(key: bytes, at: int, other: bytes, stride: int) -> int:
    """How many whole pages of `other` stand in `key` from byte `at` on.

    Gallops: doubles while the prefixes agree, then halves, so that a difference at page k costs O(log k)
    comparisons over O(k) bytes.
    """
    if key.startswith(other, at):
        return len(other) // stride
    limit = min(len(other), len(key) - at) // stride
    low, step = 0, 1
    while low + step <= limit and key.startswith(other[low * stride : (low + step) * stride], at + low * stride):
        low += step
        step *= 2
    while step:
        if low + step <= limit and key.startswith(other[low * stride : (low + step) * stride], at + low * stride):
            low += step
        step //= 2
    return low
