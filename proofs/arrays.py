"""The few array operations that the explorer needs, once on numpy (for the CPU) and once on torch (for any of its
devices).

Everything else is operators, which both have: `& | ^ ~ << >> * + ==` on 64-bit signed integers, with wrap-around.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

import numpy as np

Array = Any
"""A one- or two-dimensional array of int64 (or of booleans, where said so)."""

ONES = -1
"""The word with all bits set."""


def signed(word: int) -> int:
    """The int64 that has the bits of an unsigned 64-bit word."""
    word &= (1 << 64) - 1
    return word - (1 << 64) if word >> 63 else word


class Arrays(Protocol):
    """What the explorer asks of an array library."""

    name: str
    small_integers: bool
    """Small batches are better off as Python integers."""

    def empty(self, *shape: int) -> Array:
        """Uninitialised int64."""

    def zeros(self, *shape: int) -> Array:
        """Int64 zeros."""

    def arange(self, n: int) -> Array:
        """0..n-1."""

    def put(self, host: np.ndarray[Any, Any]) -> Array:
        """A numpy array, here."""

    def get(self, array: Array) -> np.ndarray[Any, Any]:
        """An array of this library, as numpy."""

    def take(self, array: Array, index: Array, out: Array | None = None) -> Array:
        """`array[index]`; into `out`, where given."""

    def nonzero(self, flags: Array) -> Array:
        """The indices of the true ones, ascending."""

    def indices(self, plane: Array, n: int) -> Array:
        """The numbers below `n` of the bits that are set in these words."""

    def popcount(self, plane: Array, n: int) -> int:
        """How many of the first `n` bits are set."""

    def where(self, flags: Array, a: Array, b: Array) -> Array:
        """`a` where true, else `b`."""

    def minimum(self, a: Array, b: Array) -> Array:
        """The smaller, element by element."""

    def maximum(self, a: Array, b: Array) -> Array:
        """The larger, element by element."""

    def concatenate(self, parts: list[Array]) -> Array:
        """Along the last axis."""

    def copy(self, array: Array) -> Array:
        """A contiguous copy."""


class _Numpy:
    name = "cpu"
    small_integers = True

    def empty(self, *shape: int) -> Array:
        return np.empty(shape, np.int64)

    def zeros(self, *shape: int) -> Array:
        return np.zeros(shape, np.int64)

    def arange(self, n: int) -> Array:
        return np.arange(n, dtype=np.int64)

    def put(self, host: np.ndarray[Any, Any]) -> Array:
        return host

    def get(self, array: Array) -> np.ndarray[Any, Any]:
        return cast("np.ndarray[Any, Any]", array)

    def take(self, array: Array, index: Array, out: Array | None = None) -> Array:
        return array.take(index) if out is None else array.take(index, out=out, mode="clip")

    def nonzero(self, flags: Array) -> Array:
        return np.flatnonzero(flags)

    def indices(self, plane: Array, n: int) -> Array:
        return np.flatnonzero(np.unpackbits(plane.view(np.uint8), count=n, bitorder="little").view(np.bool_))

    def popcount(self, plane: Array, n: int) -> int:
        whole, rest = divmod(n, 64)
        count = int(np.bitwise_count(plane[:whole].view(np.uint64)).sum(dtype=np.int64))
        return count + (int(plane[whole]) & ((1 << rest) - 1)).bit_count() if rest else count

    def where(self, flags: Array, a: Array, b: Array) -> Array:
        return np.where(flags, a, b)

    def minimum(self, a: Array, b: Array) -> Array:
        return np.minimum(a, b)

    def maximum(self, a: Array, b: Array) -> Array:
        return np.maximum(a, b)

    def concatenate(self, parts: list[Array]) -> Array:
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)

    def copy(self, array: Array) -> Array:
        return np.array(array, order="C")


class _Torch:
    small_integers = False

    def __init__(self, device: str) -> None:
        import torch

        self.torch = torch
        self.name = device
        self.device = torch.device(device)
        self._bit = torch.arange(64, dtype=torch.int64, device=self.device)

    def empty(self, *shape: int) -> Array:
        return self.torch.empty(shape, dtype=self.torch.int64, device=self.device)

    def zeros(self, *shape: int) -> Array:
        return self.torch.zeros(shape, dtype=self.torch.int64, device=self.device)

    def arange(self, n: int) -> Array:
        return self.torch.arange(n, dtype=self.torch.int64, device=self.device)

    def put(self, host: np.ndarray[Any, Any]) -> Array:
        return self.torch.from_numpy(np.ascontiguousarray(host)).to(self.device)

    def get(self, array: Array) -> np.ndarray[Any, Any]:
        return cast("np.ndarray[Any, Any]", array.cpu().numpy())

    def take(self, array: Array, index: Array, out: Array | None = None) -> Array:
        return array.index_select(0, index) if out is None else self.torch.index_select(array, 0, index, out=out)

    def nonzero(self, flags: Array) -> Array:
        return flags.nonzero().flatten()

    def indices(self, plane: Array, n: int) -> Array:
        return ((plane[:, None] >> self._bit) & 1).flatten()[:n].nonzero().flatten()

    def popcount(self, plane: Array, n: int) -> int:
        return int(((plane[:, None] >> self._bit) & 1).flatten()[:n].sum())

    def where(self, flags: Array, a: Array, b: Array) -> Array:
        return self.torch.where(flags, a, b)

    def minimum(self, a: Array, b: Array) -> Array:
        return self.torch.minimum(a, b)

    def maximum(self, a: Array, b: Array) -> Array:
        return self.torch.maximum(a, b)

    def concatenate(self, parts: list[Array]) -> Array:
        return parts[0] if len(parts) == 1 else self.torch.cat(parts, dim=-1)

    def copy(self, array: Array) -> Array:
        return array.clone(memory_format=self.torch.contiguous_format)


def arrays(device: str) -> Arrays:
    """The library for a device: numpy for `cpu`, else torch; `torch-cpu` is torch in main memory.

    Raises:
        UnknownName: torch has no such device here.
    """
    if device == "cpu":
        return _Numpy()
    from ..model.errors import UnknownName

    try:
        return _Torch("cpu" if device == "torch-cpu" else device)
    except (RuntimeError, AssertionError) as error:
        raise UnknownName("device", device, ["cpu", "cuda"]) from error
