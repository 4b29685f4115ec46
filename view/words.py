"""Actions, operations and node states in words."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal

from ..model.vocabulary import COMPONENTS, Component

HolderKind = Literal["request", "backup", "load-back", "prefetch", "storage backup", "operation"]
"""What an operation is; `operation` where no event has said it yet."""

BEGINS: Mapping[str, HolderKind] = {
    "lock": "request",
    "begin_backup": "backup",
    "backup_aux": "backup",
    "begin_load_back": "load-back",
    "begin_prefetch": "prefetch",
    "begin_storage_backup": "storage backup",
}
"""Actions with which an operation starts to own something."""

COMMITS = frozenset({"begin_backup", "backup_aux", "commit_load_back", "begin_prefetch", "begin_storage_backup"})
"""Actions with which bytes start to move."""

ENDS: Mapping[str, str] = {
    "unlock": "given back",
    "ack_backup": "acknowledged",
    "fail_backup": "failed",
    "ack_load_back": "acknowledged",
    "fail_load_back": "failed",
    "refuse_load_back": "nothing to load",
    "abort_load_back": "aborted",
    "end_prefetch": "ended",
    "ack_storage_backup": "acknowledged",
    "fail_storage_backup": "failed",
}
"""Actions with which an operation gives back what it holds, and how that reads."""

Family = Literal["grow", "split", "evict", "request", "copy", "reset", "other"]
"""What an action is at a glance: the tree grows, splits or loses something; a request or a copy goes on."""

_FAMILIES: Mapping[Family, str] = {
    "grow": "insert_leaf unevict attach_aux insert_host attach_host_aux",
    "split": "split",
    "evict": "demote delete_leaf drop_subtree evict_device_aux evict_host_aux evict_host_leaf reclaim_duplicate",
    "request": "lock unlock release_window forward",
    "copy": "begin_backup backup_aux ack_backup fail_backup begin_load_back commit_load_back ack_load_back "
    "fail_load_back refuse_load_back abort_load_back begin_prefetch complete_prefetch end_prefetch "
    "begin_storage_backup ack_storage_backup fail_storage_backup",
    "reset": "reset",
}
FAMILY: Mapping[str, Family] = {name: family for family, names in _FAMILIES.items() for name in names.split()}

_WORDS: Mapping[str, str] = {
    "insert_leaf": "Node {leaf} is inserted below {parent}, computed on the device",
    "unevict": "A request recomputed node {node}: its slots become the device copy",
    "attach_aux": "A request recomputed {component} of node {node}",
    "split": "Node {node} is split: new node {prefix} takes its upper part",
    "lock": "Request {holder} locks the path of node {node}",
    "unlock": "Request {holder} gives its locks back",
    "release_window": "Request {holder} gives back its window above node {node}",
    "forward": "Request {holder} reads the path of node {node}",
    "begin_backup": "Backup {holder} starts to copy {segment} to the host",
    "backup_aux": "Backup {holder} starts to copy {component} of node {node} to the host",
    "ack_backup": "Backup {holder} is complete",
    "fail_backup": "Backup {holder} has failed",
    "demote": "Node {node} gives up its device copies",
    "delete_leaf": "Leaf {node}, never backed up, is deleted",
    "drop_subtree": "Node {node} and all below it are dropped: no room on the host",
    "evict_device_aux": "{component} of node {node} is evicted from the device",
    "begin_load_back": "Load-back {holder} is asked for at node {node}",
    "commit_load_back": "Load-back {holder} starts to copy to the device, anchored at node {node}",
    "ack_load_back": "Load-back {holder} is complete, anchored at node {node}",
    "fail_load_back": "Load-back {holder} has failed, anchored at node {node}",
    "refuse_load_back": "Load-back {holder} ends: nothing to load at node {node}",
    "abort_load_back": "Load-back {holder} is given up before its commit",
    "reclaim_duplicate": "The host copy of node {node} is reclaimed: the device has one too",
    "evict_host_leaf": "Leaf {node}, on the host only, is evicted",
    "evict_host_aux": "{component} of node {node} is evicted from the host",
    "begin_prefetch": "Prefetch {holder} starts to read from storage, to hang below node {node}",
    "complete_prefetch": "Prefetch {holder} has read from storage",
    "insert_host": "Prefetch {holder} hands over node {leaf}, below {parent}",
    "attach_host_aux": "Prefetch {holder} hands over {component} of node {node}",
    "end_prefetch": "Prefetch {holder} ends: what is left of its reservation is freed",
    "begin_storage_backup": "Storage backup {holder} starts to read node {node}",
    "ack_storage_backup": "Storage backup {holder} is complete",
    "fail_storage_backup": "Storage backup {holder} has failed",
    "reset": "The cache is reset",
}

LONG = 2_000
"""Longer strings are cut where people look: a field of a megabyte tells nobody anything."""


@cache
def split_name(action: str, component: object = None) -> tuple[str, Component | None]:
    """Name and component of an action: `evict_host_aux.swa` is `evict_host_aux` and `swa`."""
    name, _, suffix = action.partition(".")
    given = suffix or component
    return name, next((c for c in COMPONENTS if c == given), None)


def sentence(action: str, args: Mapping[str, object]) -> str:
    """What an action does, in words; the call itself where it is unknown or its arguments are not all there."""
    name, component = split_name(action, args.get("component"))
    node, top = args.get("node"), args.get("top")
    args = {k: "the root" if v == 0 and k in ("node", "parent") else v for k, v in args.items()}
    segment = f"node {node}" if top in (None, node) else f"nodes {node} up to {top}"
    words = _WORDS.get(name, "")
    try:
        told = words.format_map({**args, "component": (component or "?").upper(), "segment": segment})
    except (KeyError, ValueError, IndexError):
        return call(action, args)
    told = told.replace("node the root", "the root").replace("Node the root", "The root")
    return told[:1].upper() + told[1:] or call(action, args)


def call(action: str, args: Mapping[str, object]) -> str:
    """An action and its arguments as one would call it."""
    return f"{action}({', '.join(f'{k}={v}' for k, v in args.items() if v is not None)})"


def shorten(text: str, limit: int = LONG) -> str:
    """`text`, cut to `limit` characters with a note of how long it was."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"
