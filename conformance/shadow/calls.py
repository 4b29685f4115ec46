"""What is told of each method of `UnifiedTreeCoreInterface`, by its arguments and its result. Standard library only.

`TOLD` has the methods that change who owns what; a method that is in neither `TOLD` nor `REMEMBERED` is only forwarded.
Names of arguments that changed between releases are looked for under each of their names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .actions import tell_actions
from .telling import COMPONENTS, Arguments, Record, Teller, add, component


def tell_before(teller: Teller, record: Record, given: Arguments) -> None:
    """Tell the arguments, before the core can change them."""
    tell = _BEFORE.get(record["call"])
    if tell is not None:
        tell(teller, record, given)


def tell_after(teller: Teller, record: Record, given: Arguments, result: Any) -> None:
    """Tell the result, before the caller can drain it."""
    tell = _AFTER.get(record["call"])
    if tell is not None:
        tell(teller, record, given, result)


# ---- before a call ----


def _node(teller: Teller, record: Record, given: Arguments) -> None:
    record["node"] = given["node_id"]


def _lock(teller: Teller, record: Record, given: Arguments) -> None:
    record["node"] = given["node_id"]
    skipped = [component(which) for which in given.get("skip_lock_components") or ()]
    if skipped:
        record["skips"] = skipped
    if given.get("skip_swa"):
        record["skip_swa"] = True


def _host_lock(teller: Teller, record: Record, given: Arguments) -> None:
    record["node"] = given["node_id"]
    spec, teller.storage = teller.storage, None
    if spec is not None and spec[0] == given["node_id"]:
        record["reads"] = spec[1]


def _component(teller: Teller, record: Record, given: Arguments) -> None:
    if "node_id" in given:
        record["node"] = given["node_id"]
    record["component"] = component(given["component_type"])
    for field in ("request_cnt", "num_tokens", "delta"):
        if field in given:
            record["count"] = int(given[field])


def _match(teller: Teller, record: Record, given: Arguments) -> None:
    teller.key_of(record, given["params"].key)


def _insert(teller: Teller, record: Record, given: Arguments) -> None:
    params = given["params"]
    teller.key_of(record, params.key)
    if params.value is None:
        teller.blind = True
        return
    length = len(params.key) - (1 if teller.eagle and not params.key.is_bigram else 0)
    length = max(0, min(length, params.value.numel()))
    start = -(-params.prev_prefix_len // teller.page) * teller.page
    record["start"] = start
    value = params.value[start : length - length % teller.page]
    state = getattr(params, "mamba_value", None)
    add(record, "gives", [teller.row("device", "full", value), teller.row("device", "mamba", state)])


def _insert_host(teller: Teller, record: Record, given: Arguments) -> None:
    record["node"] = given["node_id"]
    teller.key_of(record, given["key"])


def _transfers(teller: Teller, record: Record, given: Arguments) -> None:
    record["node"] = given["node_id"]
    record["phase"] = given["phase"].name.lower()
    record["_before"] = len(given["cache_actions"])
    if record["phase"] == "prefetch":
        add(record, "gives", teller.transfers("host", "host_indices", given["comp_xfers"]))


def _backup(teller: Teller, record: Record, given: Arguments) -> None:
    record["node"] = given["node_id"]
    rows = [teller.row("host", "full", given["host_indices"])]
    rows += teller.transfers("host", "host_indices", given["comp_xfers"])
    add(record, "gives", rows)
    add(record, "writes", rows)
    spec, teller.spec = teller.spec, None
    if spec is not None and spec[0] == given["node_id"]:
        add(record, "reads", spec[1])


def _load_back(teller: Teller, record: Record, given: Arguments) -> None:
    record["node"] = given["node_id"]
    source, transfers = given["kv_xfer"], given["comp_xfers"]
    record["nodes"] = list(source.nodes_to_load or ())
    target = teller.row("device", "full", given["device_indices"])
    add(record, "gives", [target, *teller.transfers("device", "device_indices", transfers, owned=True)])
    add(record, "writes", [target, *teller.transfers("device", "device_indices", transfers)])
    rows = [teller.row("host", "full", source.host_indices)]
    add(record, "reads", [*rows, *teller.transfers("host", "host_indices", transfers)])


def _anchor(teller: Teller, record: Record, given: Arguments) -> None:
    record["node"] = given["anchor_node_id"]


def _nodes(teller: Teller, record: Record, given: Arguments) -> None:
    nodes = given["node_ids"] if "node_ids" in given else [given["node_id"]]
    record["nodes"] = list(nodes)
    record["ack"] = given["ack_id"] if "ack_id" in given else nodes[0]
    if "success" in given:
        record["success"] = bool(given["success"])


def _path(teller: Teller, record: Record, given: Arguments) -> None:
    record["nodes"] = [given["from_node_id"], given["until_node_id"]]


def _value(teller: Teller, record: Record, given: Arguments) -> None:
    _component(teller, record, given)
    if record["component"] in COMPONENTS:
        add(record, "gives", [teller.row("device", record["component"], given["value"])])


def _window(teller: Teller, record: Record, given: Arguments) -> None:
    teller.key_of(record, given["key"])
    add(record, "gives", [teller.row("device", "swa", given["swa_values"])])


def _excess(teller: Teller, record: Record, given: Arguments) -> None:
    record["node"] = given["tail_node_id"]
    sizes = [{k: len(v) for k, v in given[field].items()} for field in ("device_frees", "host_frees")]
    record["_before"] = (*sizes, len(given.get("cache_actions") or ()))


# ---- after a call ----


def _stepped(teller: Teller, record: Record, given: Arguments, result: Any) -> None:
    """What a step of an eviction freed and asks for."""
    teller.frees(record, result.device_frees, "device")
    teller.frees(record, result.host_frees, "host")
    tell_actions(teller, record, getattr(result, "cache_actions", ()))
    fields = ("node_id", "made_progress", "mamba_backup_node_id", "swa_backup_node_id", "is_dropped")
    found = {field: getattr(result, field) for field in fields if getattr(result, field, None) is not None}
    if found:
        record["found"] = found
    backup = getattr(result, "backup_kv", None)
    if backup is not None:
        record["backs"] = list(backup.node_ids)


def _matched(teller: Teller, record: Record, given: Arguments, result: Any) -> None:
    length = getattr(result, "device_prefix_len", None)
    record["found"] = {
        "node_id": result.last_device_node,
        "best": result.best_match_node,
        "device": len(result.device_indices) if length is None else int(length),
        "host": int(result.host_hit_length),
    }
    tell_actions(teller, record, result.cache_actions or ())


def _inserted(teller: Teller, record: Record, given: Arguments, result: Any) -> None:
    tell_actions(teller, record, result.actions)
    if result.result is not None:
        done = {"prefix": result.result.prefix_len, "node_id": result.result.last_device_node}
        done["mamba_exist"] = bool(result.result.mamba_exist)
        if getattr(result.result, "rotation_tail_declined", False):
            done["declined"] = True
            done["kept"] = max(0, result.result.prefix_len - record.get("start", 0)) // teller.page
        record["done"] = done


def _acted(teller: Teller, record: Record, given: Arguments, result: Any) -> None:
    tell_actions(teller, record, result or ())


def _inserted_host(teller: Teller, record: Record, given: Arguments, result: Any) -> None:
    # What lies before `prefix_len` stays with the caller, and everything does when the insert is dropped.
    record["found"] = {"prefix": result.prefix_len, "dropped": bool(result.host_insert_dropped)}
    if not result.host_insert_dropped:
        add(record, "gives", [teller.row("host", "full", given["host_value"][result.prefix_len :])])
    tell_actions(teller, record, result.cache_actions or ())


def _committed(teller: Teller, record: Record, given: Arguments, result: Any) -> None:
    tell_actions(teller, record, given["cache_actions"][record.pop("_before") :])


def _excess_freed(teller: Teller, record: Record, given: Arguments, result: Any) -> None:
    device, host, actions = record.pop("_before")
    for tier, sizes in (("device", device), ("host", host)):
        frees = {k: list(v)[sizes.get(k, 0) :] for k, v in given[f"{tier}_frees"].items()}
        teller.frees(record, frees, tier)
    tell_actions(teller, record, (given.get("cache_actions") or [])[actions:])


def _load_spec(teller: Teller, record: Record, given: Arguments, result: Any) -> None:
    source, transfers = result
    record["tokens"] = int(source.host_indices.numel())
    record["nodes"] = list(source.nodes_to_load or ())
    record["aux"] = sorted(name for name in map(component, transfers) if name in COMPONENTS)


_BEFORE: dict[str, Callable[[Teller, Record, Arguments], None]] = {
    "inc_lock_ref": _lock,
    "dec_lock_ref": _lock,
    "dec_swa_lock_only": _node,
    "dec_window_lock_only": _component,
    "inc_full_pin": _node,
    "dec_full_pin": _node,
    "inc_host_lock_ref": _host_lock,
    "dec_host_lock_ref": _node,
    "evict_device_start": _component,
    "evict_device_next_node": _component,
    "evict_device_leaf": _node,
    "finish_mamba_state_eviction": _node,
    "finish_swa_state_eviction": _node,
    "drop_subtree_no_host": _node,
    "demote": _node,
    "evict_device_end": _component,
    "drive_host_eviction": _component,
    "evict_excess_path_states": _excess,
    "match_prefix": _match,
    "begin_insert": _insert,
    "insert_host": _insert_host,
    "commit_hicache_transfers": _transfers,
    "commit_backup": _backup,
    "build_load_back_spec": _node,
    "commit_load_back": _load_back,
    "finish_load_back": _anchor,
    "mark_write_through_pending": _nodes,
    "finish_write_through": _nodes,
    "mark_external_cache_stored_path": _path,
    "mark_external_linker_offload_pending": _nodes,
    "finish_external_linker_offload": _nodes,
    "set_component_device_value": _value,
    "attach_swa_window": _window,
    "adjust_component_size": _component,
}
_AFTER: dict[str, Callable[[Teller, Record, Arguments, Any], None]] = {
    "dec_swa_lock_only": _stepped,
    "dec_window_lock_only": _stepped,
    "evict_device_next_node": _stepped,
    "evict_device_leaf": _stepped,
    "finish_mamba_state_eviction": _stepped,
    "finish_swa_state_eviction": _stepped,
    "drop_subtree_no_host": _stepped,
    "demote": _stepped,
    "drive_host_eviction": _stepped,
    "evict_excess_path_states": _excess_freed,
    "match_prefix": _matched,
    "begin_insert": _inserted,
    "resume_insert": _inserted,
    "end_insert": _acted,
    "insert_host": _inserted_host,
    "commit_hicache_transfers": _committed,
    "build_load_back_spec": _load_spec,
    "commit_load_back": _acted,
    "attach_swa_window": _acted,
}
TOLD = frozenset([*_BEFORE, *_AFTER, "reset", "set_hicache_enabled", "set_host_memory_buffer_only"])
"""The calls that change who owns what, with `match_prefix`, which splits nodes."""

REMEMBERED = frozenset(["build_backup_spec", "build_storage_backup_spec"])
"""Questions whose answers a later call relies on."""
