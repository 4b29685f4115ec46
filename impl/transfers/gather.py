"""Many small copies in one kernel: a Triton gather that reads and writes pages where they lie, pinned host memory
included, which a GPU addresses as its own.

A copy of a few kilobytes takes a copy engine longer to begin than to do. A kernel begins once for all of them, at the
price of some of the processors that requests compute on; `thresholds` says from where on that is no gain.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from ..config import WORD
from .batches import Batch, Piece

WORDS = 512
"""Words that one instance of the kernel moves at a time."""


def find_gather(device: torch.device) -> Batch | None:
    """The gather, or None where there is no Triton (CUDA builds of torch bring it)."""
    try:
        kernel = _kernel()
    except ImportError:
        return None

    def gather(pieces: list[Piece], stream: int) -> None:
        """Start all pieces on the current stream, whose handle `stream` is."""
        words = [(to, at, size // WORD) for to, at, size in pieces]
        table = torch.tensor(words, dtype=torch.int64, pin_memory=device.type == "cuda")
        kernel[(len(pieces),)](table.to(device, non_blocking=True), WORDS)

    return gather


@cache
def _kernel() -> Any:
    """Raises ImportError without Triton."""
    import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
    import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]

    # The kernel is compiled from its source, in which these names are looked up as globals.
    globals()["tl"] = tl

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def move(table, words: tl.constexpr):  # type: ignore[no-untyped-def]
        piece = tl.program_id(0)
        to = tl.load(table + 3 * piece).to(tl.pointer_type(tl.int64))
        at = tl.load(table + 3 * piece + 1).to(tl.pointer_type(tl.int64))
        count = tl.load(table + 3 * piece + 2)
        for start in range(0, count, words):
            word = start + tl.arange(0, words)
            tl.store(to + word, tl.load(at + word, mask=word < count), mask=word < count)

    return move
