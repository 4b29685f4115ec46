"""What the bytes of a page are: a function of the tokens up to its end, the layer and the component, and
nothing else.

So any page, wherever it was copied to, can be read back and asked whose bytes it has. A page's identity is
the hash of its tokens chained to that of the page before it; the words of a layer are its mixes, and mixing
can be undone.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import torch

from .slots import Numbers

DIGEST = 16
"""Bytes of a page's hash."""
SEED = b"pinproof"
_MASK = (1 << 64) - 1
_STEP_LAYER, _STEP_WORD, _STEP_COMPONENT = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03, 0x8CB92BA72F3D8DD7
_MUL1, _MUL2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_INV1, _INV2 = pow(_MUL1, -1, 1 << 64), pow(_MUL2, -1, 1 << 64)


def chain(previous: bytes, key: bytes, stride: int) -> bytes:
    """The hashes of all pages of `key`, `DIGEST` bytes each, given the hash of the page before (b"" at the
    start).
    """
    digests = []
    for at in range(0, len(key), stride):
        previous = blake2b(key[at : at + stride], digest_size=DIGEST, key=previous or SEED).digest()
        digests.append(previous)
    return b"".join(digests)


def identities(hashes: bytes) -> Numbers:
    """The first eight bytes of each hash as uint64: what content is made from."""
    return np.frombuffer(hashes, dtype=np.uint64)[::2]


def page_bytes(ids: Numbers, component: int, layers: int, words: int) -> torch.Tensor:
    """The content of pages, `[pages, layers, words]` int64, of uint64 identities `[pages]`."""
    with np.errstate(over="ignore"):
        steps = _steps(component, layers, words)
        x = ids[:, None, None] + steps[None]
        x ^= x >> np.uint64(30)
        x *= np.uint64(_MUL1)
        x ^= x >> np.uint64(27)
        x *= np.uint64(_MUL2)
        x ^= x >> np.uint64(31)
    return torch.from_numpy(x.view(np.int64))


_known_steps: dict[tuple[int, int, int], Numbers] = {}


def _steps(component: int, layers: int, words: int) -> Numbers:
    steps = _known_steps.get((component, layers, words))
    if steps is None:
        # Components differ in their strides as well as in where they start: else each is another's shift.
        layer_step, word_step = _STEP_LAYER * (2 * component + 1), _STEP_WORD * (2 * component + 1)
        start = (component + 1) * _STEP_COMPONENT
        rows = [
            [(start + layer * layer_step + word * word_step) & _MASK for word in range(words)]
            for layer in range(layers)
        ]
        steps = _known_steps[component, layers, words] = np.array(rows, dtype=np.uint64)
    return steps


def whose(page: torch.Tensor) -> tuple[int, int] | None:
    """The identity and the component whose bytes a page `[layers, words]` holds; None if nobody's.

    Pages of a single word are somebody's whatever they hold; they are said to be FULL's.
    """
    layers, words = page.shape
    first = _unmix(int(page[0, 0]) & _MASK)
    for component in range(3):
        identity = (first - (component + 1) * _STEP_COMPONENT) & _MASK
        ids = np.array([identity], dtype=np.uint64)
        if torch.equal(page.cpu(), page_bytes(ids, component, layers, words)[0]):
            return identity, component
    return None


def _unmix(x: int) -> int:
    x ^= (x >> 31) ^ (x >> 62)
    x = x * _INV2 & _MASK
    x ^= (x >> 27) ^ (x >> 54)
    x = x * _INV1 & _MASK
    return x ^ (x >> 30) ^ (x >> 60)
