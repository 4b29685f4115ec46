"""What is told of each call of a tree core: a closed list, in plain values. Standard library only.

A record is a dictionary with ``seq`` and ``call`` and, where the call has them,

==================  ====================================================================================
``node`` ``nodes``  nodes it names, by the core's own ids; ``ack``: the id of an acknowledgement
``gives``           rows of slots that pass to the tree: ``[tier, component, units]``
``frees``           rows of slots that leave it; component ``swa_behind``: the SWA slots behind FULL slots
``reads`` ``writes``  rows of slots that a copy it begins uses
``pairs``           SWA slots put behind FULL slots; ``rebuilds``: a node that is about to get some
``splits``          ``[ack, old, prefix, rest]``: a node of a backup in flight was split
``backs``           nodes that the core wants backed up
``tokens`` ``key``  length of a key, and a hash of it under a key of this run
``done`` ``found``  what came of it
==================  ====================================================================================

Units are pages of FULL and SWA, states of MAMBA; None in their place: they lie in GPU memory and were not read.
Nothing else of an argument or a result is told, so no token id, no text and no request can get into a trace.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Iterable, Mapping
from typing import Any

from .slots import SWA_BEHIND

Arguments = Mapping[str, Any]
Record = dict[str, Any]

COMPONENTS = ("full", "swa", "mamba")


class Teller:
    """Turns calls into records, for one core.

    Args:
        page_size: tokens in a page.
        components: names of the core's components.
        eagle: keys become bigrams inside the core, one shorter.
        read_gpu: also read slot numbers that lie in GPU memory, which waits for the GPU.
    """

    def __init__(self, page_size: int, components: Iterable[str], eagle: bool = False, read_gpu: bool = False) -> None:
        self.page, self.eagle, self.read_gpu = page_size, eagle, read_gpu
        self.components = frozenset(components)
        self.keys = True
        """Whether keys are hashed: only a trace has a use for it."""
        self.blind = False
        """An insert without slots was seen: the core then takes token ids for slots, so no slot is told any more."""
        self._key = os.urandom(32)
        self.spec: tuple[int, list[Any]] | None = None
        self.storage: tuple[int, list[Any]] | None = None

    def forget(self) -> None:
        """Another question was asked: a host lock that comes now is not for a storage backup."""
        self.storage = None

    def asked(self, name: str, given: Arguments, result: Any) -> None:
        """Remember what a question was answered that a later call relies on."""
        self.storage = None
        if name == "build_backup_spec":
            value, transfers = result
            rows = [self.row("device", "full", value), *self.transfers("device", "device_indices", transfers)]
            self.spec = (given["node_id"], present(rows))
        elif name == "build_storage_backup_spec" and result is not None:
            rows = [self.row("host", "full", result.host_value)]
            rows += self.transfers("host", "host_indices", result.comp_xfers)
            self.storage = (given["node_id"], present(rows))

    def hashed(self, key: Any) -> str:
        """A key's tokens, namespace and salt as a hash under a key that is drawn for this run and never written."""
        digest = hashlib.blake2b(key=self._key, digest_size=12)
        tokens = key.token_ids
        digest.update(tokens if isinstance(tokens, array) else repr(list(tokens)).encode())
        names = (key.limit, key.is_bigram, key.extra_key, key.cache_salt)
        digest.update(repr(names).encode())
        return digest.hexdigest()

    def key_of(self, record: Record, key: Any) -> None:
        """Tell a key by its length and its hash."""
        record["tokens"] = len(key)
        if self.keys:
            record["key"] = self.hashed(key)

    def units(self, tensor: Any, component: str) -> list[int] | None:
        """The units that a tensor of slots names; None where they cannot be told."""
        if self.blind or not (self.read_gpu or tensor.device.type == "cpu"):
            return None
        page = 1 if component == "mamba" else self.page
        found: list[int]
        if page == 1:
            found = tensor.tolist()
            return found
        return [slot // page for slot in tensor[::page].tolist()]

    def row(self, tier: str, component: str, tensor: Any) -> list[Any] | None:
        """A row of slots; None where there are none."""
        if tensor is None or not tensor.numel():
            return None
        behind = component == SWA_BEHIND
        return [tier, component, self.units(tensor, "full" if behind else component)]

    def transfers(self, tier: str, field: str, transfers: Mapping[Any, Any], owned: bool = False) -> list[Any]:
        """Rows of a field of auxiliary transfers. `owned`: only of those that fill nodes, not a request's slots."""
        rows = []
        for which, parts in transfers.items():
            name = component(which)
            if name not in COMPONENTS:
                continue
            for part in parts:
                if not owned or part.nodes_to_load:
                    rows.append(self.row(tier, name, getattr(part, field)))
        return rows

    def frees(self, record: Record, frees: Mapping[Any, Iterable[Any]], tier: str) -> None:
        """Tell slots by component that the core gives up."""
        for which, tensors in frees.items():
            name = component(which)
            if name not in COMPONENTS:
                continue
            # A core names SWA slots on device by the FULL slots before them.
            said = SWA_BEHIND if name == "swa" and tier == "device" else name
            add(record, "frees", [self.row(tier, said, tensor) for tensor in tensors])


def component(which: Any) -> str:
    """The name of a component type: ``full``, ``swa``, ``mamba``, or another one of the core's."""
    return str(which.name).lower()


def present(rows: Iterable[Any]) -> list[Any]:
    """Rows without those of no slots."""
    return [row for row in rows if row is not None]


def add(record: Record, field: str, rows: Iterable[Any]) -> None:
    """Add rows to a field of a record."""
    kept = present(rows)
    if kept:
        record.setdefault(field, []).extend(kept)
