"""The actions that a core hands to its cache, as far as they say who owns what. Standard library only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .slots import SWA_BEHIND
from .telling import Record, Teller, add, component


def tell_actions(teller: Teller, record: Record, actions: Iterable[Any]) -> None:
    """Tell what the actions free, pair, split and want backed up."""
    for action in actions:
        tell = _ACTIONS.get(type(action).__name__)
        if tell is not None:
            tell(teller, record, action)


def _free_device(teller: Teller, record: Record, action: Any) -> None:
    names = ["full", SWA_BEHIND] if "swa" in teller.components else ["full"]
    add(record, "frees", [teller.row("device", name, each) for each in action.indices for name in names])


def _free_full(teller: Teller, record: Record, action: Any) -> None:
    add(record, "frees", [teller.row("device", "full", each) for each in action.indices])


def _free_component(teller: Teller, record: Record, action: Any) -> None:
    teller.frees(record, {action.component_type: action.indices}, "device")


def _free_host(teller: Teller, record: Record, action: Any) -> None:
    teller.frees(record, {action.component_type: action.host_indices}, "host")


def _rebuild(teller: Teller, record: Record, action: Any) -> None:
    full = teller.units(action.source_value, "full")
    if component(action.component_type) == "swa" and full is not None:
        record.setdefault("rebuilds", []).append([action.node_id, full])


def _recover(teller: Teller, record: Record, action: Any) -> None:
    full = teller.units(action.kept_full, "full")
    if component(action.component_type) == "swa" and full is not None:
        record.setdefault("rebuilds", []).append([action.node_id, full])
    add(record, "frees", [teller.row("device", "full", action.incoming_full)])


def _paired(teller: Teller, record: Record, action: Any) -> None:
    if component(action.component_type) == "swa":
        for full, swa in zip(action.full_indices, action.swa_indices, strict=True):
            record.setdefault("pairs", []).append([teller.units(full, "full"), teller.units(swa, "swa")])


def _split(teller: Teller, record: Record, action: Any) -> None:
    if action.ack_id is not None:
        row = [action.ack_id, action.old_node_id, action.new_node_id, action.new_child_node_id]
        record.setdefault("splits", []).append(row)


def _backs(teller: Teller, record: Record, action: Any) -> None:
    record.setdefault("backs", []).extend(action.node_ids)


_ACTIONS: dict[str, Callable[[Teller, Record, Any], None]] = {
    "FreeDeviceKV": _free_device,
    "FreeDeviceKVFullOnly": _free_full,
    "FreeComponentDeviceSlot": _free_component,
    "FreeComponentHostSlot": _free_host,
    "SWARebuild": _rebuild,
    "RecoverSWAWithLockedFull": _recover,
    "RebuildFullToSWAMapping": _paired,
    "UpdatePendingBackupOnNodeSplit": _split,
    "ReplaceWriteThroughOnNodeSplit": _split,
    "BackupKV": _backs,
}
