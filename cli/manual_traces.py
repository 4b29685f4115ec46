"""The reference of traces and of the worker protocol, as Markdown written from the code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

from ..conformance import events
from ..conformance.targets import base
from ..model.instance import instances
from ..model.protocol import TEXT
from .manual_rules import cell


def event_page() -> str:
    """Header, event and node state with their fields; every action with its arguments."""
    parts = [
        "# Traces and events\n",
        "A trace is NDJSON: a header, then events with `seq` from 0 without gaps. A reader of "
        f"`{events.FORMAT}` reads every trace that says so.\n",
        "## Header\n\n" + _fields(events.Header),
        "## Event\n\n" + _fields(events.Event),
        "## What is seen of a node\n\n" + _fields(events.NodeState, SEEN),
        "Tiers are `D` for the device and `H` for the host, small (`d`, `h`) while the bytes are on their way. A "
        "node that is no longer in the tree is `null`.\n",
        "## Actions\n",
        "An action for one component has it in its `args`. *Idle*: an operation that holds nothing yet.\n",
        "| action | args | what happens | under |\n|---|---|---|---|",
    ]
    rows = []
    for name, entry in TEXT.items():
        found = next(i.actions[n] for i in instances() for n in (name, f"{name}.swa") if n in i.actions)
        given = [f"{q.var.name}: {q.kind} {q.var.sort}" for q in found.parameters]
        given += ["component: swa or mamba"] if entry.per_aux else []
        policies = "both policies" if len(entry.policies) > 1 else entry.policies[0]
        rows.append(f"| `{name}` | {', '.join(given) or 'none'} | {cell(found.words)} | {policies} |")
    return "\n".join(parts[:-1]) + "\n" + parts[-1] + "\n" + "\n".join(rows) + "\n"


SEEN = {
    "full": "where its FULL slots are",
    "swa": "where its SWA slots are",
    "mamba": "where its MAMBA state is",
    "lock_ref": "device locks, by component",
    "host_lock_ref": "host locks, by component",
    "load_back_pending_id": "the load-back that pins it",
    "write_through_pending_id": "the backup that marks it",
    "duplicate": "it is tracked in full_host_duplicates",
    "stored": "it is in the storage tier",
}


def _fields(struct: type[msgspec.Struct], words: Mapping[str, str] | None = None) -> str:
    """A table of a structure's fields, with what its docstring, or `words`, says of them."""
    said = documented(struct) | dict(words or {})
    rows = []
    for field in msgspec.structs.fields(struct):
        told = (
            "required" if field.required else "–" if field.default in (msgspec.NODEFAULT, None) else repr(field.default)
        )
        rows.append(f"| `{field.name}` | {_type(field.type)} | {cell(told)} | {cell(said.get(field.name, ''))} |")
    return "\n".join(["| field | | if left out | |", "|---|---|---|---|", *rows]) + "\n"


def documented(struct: type) -> dict[str, str]:
    """Field: words, from the Attributes section of a docstring."""
    found: dict[str, str] = {}
    section = inspect.cleandoc(struct.__doc__ or "").partition("Attributes:")[2]
    for line in section.split("\n    "):
        names, colon, words = line.strip().partition(":")
        if colon and re.fullmatch(r"[\w, ]+", names):
            for name in names.split(","):
                found[name.strip()] = " ".join(words.split())
    return found


def _type(kind: Any) -> str:
    """A type in words."""
    if kind in (Any, type(None)):
        return "anything" if kind is Any else "null"
    inner = [_type(x) if not isinstance(x, str | int) else f"`{x}`" for x in get_args(kind) if x is not ...]
    match get_origin(kind):
        case None:
            names = {"str": "text", "int": "number", "bool": "true or false", "float": "number"}
            return names.get(getattr(kind, "__name__", ""), "a node's state" if kind is events.NodeState else str(kind))
        case origin if origin is Annotated:
            return inner[0]
        case origin if origin is Literal:
            return " ".join(inner)
        case origin if origin in (list, tuple) and ("..." in str(kind) or origin is list):
            return f"list of {inner[0]}"
        case origin if origin is tuple:
            return f"[{', '.join(inner)}]"
        case origin if origin is dict:
            return f"{inner[0]} → {inner[1]}"
    return " or ".join(x for x in inner if x != "null")


OPERATIONS: Mapping[str, tuple[str, str, str]] = {
    "configure": ("what a run is to be like, see below", "operations, sees, capacity, target", "start anew"),
    "insert": (
        "tokens, aux",
        "node",
        "what a request computed; aux: for which components, all",
    ),
    "match": ("tokens", "node, device_tokens, host_tokens", "the longest known prefix; may split a node"),
    "lock": ("node", "holder", "a request will read the path"),
    "unlock": ("holder", "", "the request has ended"),
    "release_window": ("holder, node", "", "the request needs no window above the node any more"),
    "forward": ("holder, wait", "", "the request reads its path; with wait, after the bytes are there"),
    "backup": ("node", "holder", "copy to the host"),
    "load_back": ("node", "holder", "copy back to the device what is missing on the path"),
    "begin_load_back": ("node", "holder", "the first half of that: lock, and nothing else"),
    "commit_load_back": ("holder", "", "the second half"),
    "evict": ("component, pages", "freed", "make room on the device"),
    "evict_host": ("component, pages", "freed", "make room on the host"),
    "reclaim": ("pages", "freed", "give up host copies that the device has as well"),
    "prefetch": ("tokens", "holder", "read from storage"),
    "finish_prefetch": ("holder", "node", "hand over what was read"),
    "storage_backup": ("node", "holder", "write to storage"),
    "step": ("choice", "waiting", "one micro-step of the copies; waiting: how many are left"),
    "poll": ("", "settled", "deliver what has completed, first come first served"),
    "wait": ("holder", "", "until the operation has completed, and is delivered"),
    "fail": ("kind, fault", "", "the next copy of that kind is `failed` or `partial`"),
    "abort": ("holder", "", "the operation is given up"),
    "reset": ("", "", "everything is freed; refused while anything is under way"),
    "audit": ("", "problems, idle", "whatever is wrong with slots, locks and bytes, in words"),
    "read": ("nodes", "problems", "pages whose bytes are not those of their node"),
    "act": (
        "action, args",
        "steered, outcome, names",
        "a single action of the protocol, if it can be brought about",
    ),
}
"""Operation: arguments, fields of the result, words."""


def worker() -> str:
    """The worker protocol: lines, answers, operations, configuration."""
    rows = [f"| `{name}` | {args} | {result} | {words} |" for name, (args, result, words) in OPERATIONS.items()]
    parts = [
        "# Worker protocol\n",
        "One request a line on standard input, one answer a line on standard output, each a JSON object. What is "
        "written to standard error is quoted if the target crashes. The driver asks for the operations that a target "
        "says it has, and for `poll` and `reset`, which may be refused.\n",
        "```json\n"
        '{"id": 7, "op": "lock", "node": 3}\n'
        '{"id": 7, "ok": true, "result": {"holder": 2}, "events": [{"seq": 12, "action": "lock", …}]}\n'
        '{"id": 7, "ok": false, "error": {"type": "RefusedNoRoom", "message": "no device room for 3"}, "events": []}\n'
        "```\n",
        "An error whose type begins with `Refused` or `Argument` is an expected answer; any other is a crash of the "
        'code under test. Several requests can come in one: `{"id": 8, "op": "batch", "requests": […]}`, '
        'answered by `{"id": 8, "ok": true, "answers": […]}`. `conform --batch N` asks so: the next N operations are '
        "chosen from what was known before those that are under way, and sent while the answers to these are checked; "
        "bytes are read back and audits made between batches. Where one operation brings about what the next is about, "
        "the answers are waited for. What is found is logged, made short and replayed without batches.\n",
        "## Operations\n\n" + "\n".join(["| op | arguments | result | |", "|---|---|---|---|", *rows]) + "\n",
        "## Configuration\n\nWhat a target has no use for it ignores.\n\n" + _fields(base.Configuration),
        "## Capabilities\n\nThe result of `configure`.\n\n" + _fields(base.Capabilities),
    ]
    return "\n".join(parts)
