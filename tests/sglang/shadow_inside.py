"""What tests of the shadow do inside the environment of a release; prints one JSON object.

`python shadow_inside.py SOURCE WHAT [CORE]`: ``interface``, ``cache``, ``faults``.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import logging
import sys
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from pinproof.conformance import shadow
from pinproof.conformance.sglang import loader
from pinproof.conformance.sglang.controller import Controller
from pinproof.conformance.shadow.calls import REMEMBERED, TOLD

HOME = "sglang.srt.mem_cache.unified_cache"
SECRETS = [1234567891, 1987654321, 1122334455, 1357924680]
"""Token ids that must be in no trace."""
TEXT = "a user's own words"


def interface() -> Any:
    return importlib.import_module(f"{HOME}.unified_tree_core_interface").UnifiedTreeCoreInterface


def forwards() -> list[str]:
    """Each method of the interface, called with arguments that mean nothing: same arguments in, same result out."""
    logging.disable(logging.CRITICAL)
    wrong = []
    kinds = shadow.forwarded(interface())
    inner = mock.create_autospec(interface(), instance=True, page_size=1, is_eagle=False)
    for name, kind in kinds.items():
        core = shadow.wrap(inner, interface(), ("full",), shadow.Settings())
        if kind != "method":
            setattr(inner, name, value := object()) if kind == "attribute" else None
            if kind == "attribute" and getattr(core, name) is not value:
                wrong.append(name)
            continue
        signature = inspect.signature(getattr(interface(), name))
        if signature != inspect.signature(getattr(type(core), name)):
            wrong.append(f"{name}: signature")
        positional, named = [], {}
        for parameter in list(signature.parameters.values())[1:]:
            if parameter.kind is parameter.KEYWORD_ONLY:
                named[parameter.name] = object()
            else:
                positional.append(object())
        answer = getattr(core, name)(*positional, **named)
        method = getattr(inner, name)
        if answer is not method.return_value or method.call_args != mock.call(*positional, **named):
            wrong.append(name)
    return wrong


def members() -> dict[str, Any]:
    """What the text of the interface declares, read without importing it, against what is forwarded."""
    source = Path(inspect.getsourcefile(interface()) or "")
    (declared,) = (
        node
        for node in ast.parse(source.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == "UnifiedTreeCoreInterface"
    )
    methods, attributes = [], []
    for node in declared.body:
        if isinstance(node, ast.FunctionDef):
            plain = not any("property" in ast.unparse(each) for each in node.decorator_list)
            (methods if plain else attributes).append(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            attributes.append(node.target.id)
    made = shadow.shadow_class(interface())
    return {
        "methods": sorted(methods),
        "attributes": sorted(attributes),
        "forwarded": shadow.forwarded(interface()),
        "in the class": sorted(name for name in vars(made) if not name.startswith("__")),
        "abstract": sorted(made.__abstractmethods__),
        "wrong": forwards(),
        "told": sorted(TOLD & set(methods)),
        "remembered": sorted(REMEMBERED & set(methods)),
    }


class Cache:
    """SGLang's own `UnifiedRadixCache` over a CPU pool, built through the registry, and a server's way to use it."""

    def __init__(self, backend: str, size: int = 64) -> None:
        envs = importlib.import_module("sglang.srt.environ").envs
        base = loader.module("mem_cache.base_prefix_cache")
        self.base, self.RadixKey = base, loader.module("mem_cache.radix_cache").RadixKey
        full = loader.module("mem_cache.unified_cache.component_type").ComponentType.FULL
        pools = loader.module("mem_cache.allocator")
        self.torch = importlib.import_module("torch")
        self.pool = pools.TokenToKVPoolAllocator(
            size, dtype=self.torch.float16, device="cpu", kvcache=None, need_sort=False
        )
        params = loader._init_params(
            page_size=1, token_to_kv_pool_allocator=self.pool, req_to_token_pool=None, tree_components=(full,)
        )
        with envs.SGLANG_UNIFIED_RADIX_TREE_CORE_BACKEND.override(backend):
            self.cache = loader.module("mem_cache.unified_radix_cache").UnifiedRadixCache(params)

    def key(self, tokens: list[int]) -> Any:
        return self.RadixKey(array("q", tokens), TEXT)

    def match(self, tokens: list[int]) -> Any:
        return self.cache.match_prefix(self.base.MatchPrefixParams(key=self.key(tokens)))

    def serve(self, tokens: list[int]) -> None:
        """Match, lock, compute, insert, unlock."""
        found = self.match(tokens)
        length = getattr(found, "device_prefix_len", None)
        length = len(found.device_indices) if length is None else length
        lock = self.cache.inc_lock_ref(found.last_device_node).to_dec_params()
        value = self.torch.empty(0, dtype=self.torch.int64)
        if length:
            root = self.cache.tree_core.root_node_handle()
            value = self.cache.tree_core.collect_full_device_indices(found.last_device_node, root)
        if self.pool.available_size() < len(tokens) - length:
            self.cache.evict(self.base.EvictParams(num_tokens=len(tokens) - length))
        new = self.pool.alloc(len(tokens) - length)
        params = self.base.InsertParams(
            key=self.key(tokens), value=self.torch.cat([value, new]), prev_prefix_len=length
        )
        self.cache.insert(params)
        self.cache.dec_lock_ref(found.last_device_node, lock)


def run_cache(kind: str) -> dict[str, Any]:
    """Serve under pressure, then unlock once too often and unlock over a reset."""
    names = shadow.register()
    assert shadow.register() == names
    server = Cache(f"shadow-{kind}")
    core = server.cache.tree_core
    state = shadow.shadow_of(core)
    for turn in range(40):
        server.serve([*SECRETS, turn % 7, turn % 3, turn])
    counts = {"calls": state.calls, "told": state.seq, "locks": state.ledger.locks}
    found = []
    node = server.match([*SECRETS, 9]).last_device_node
    receipt = server.cache.inc_lock_ref(node).to_dec_params()
    server.cache.dec_lock_ref(node, receipt)
    held = server.cache.inc_lock_ref(node).to_dec_params()
    server.cache.reset()
    server.pool.clear()
    for one in (receipt, held):
        try:
            server.cache.dec_lock_ref(node, one)
        except shadow.ShadowViolation as violation:
            found.append([violation.record["call"], violation.breaches[0].property])
    server.serve([*SECRETS, 1])
    state.reporter.close()
    return {"names": names, "core": state.core, "counts": counts, "found": found, "free": server.pool.available_size()}


# ---- faults ----


def twice(method: Callable[..., Any]) -> Callable[..., Any]:
    """A core that gives the same slots back two times in one eviction."""

    def faulty(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        for frees in (result.device_frees, result.host_frees):
            for which in list(frees):
                frees[which] = [*frees[which], *frees[which]]
        return result

    return faulty


def from_under_a_load(method: Callable[..., Any]) -> Callable[..., Any]:
    """A core that evicts host slots that a load-back reads, as if it had no pins and no host locks."""

    def faulty(self: Any, which: Any, count: int) -> Any:
        result = method(self, which, count)
        result.host_frees[which].extend(STOLEN)
        return result

    return faulty


STOLEN: list[Any] = []


class Faults:
    """One core behind a shadow, a controller around it, and faults in either."""

    def __init__(self, kind: str, version: str, settings: Any) -> None:
        core = loader.build(kind, version, ("full",), 1, 4, "write_back")
        self.type = type(core.tree)
        core.tree = shadow.wrap(core.tree, interface(), ("full",), settings)
        self.state = shadow.shadow_of(core.tree)
        self.core = core
        self.controller = Controller(core, "write_back", 16, 16, {})
        self.run("insert", tokens=[1, 2, 3, 4])

    def run(self, name: str, **arguments: Any) -> Any:
        answer = self.controller.run(name, arguments)
        if not answer["ok"]:
            raise RuntimeError(answer["error"]["message"])
        return answer["result"]

    def double_free(self) -> None:
        with mock.patch.object(self.type, "demote", twice(self.type.demote)):
            self.run("evict", component="full", pages=4)

    def freed_under_a_load_back(self) -> None:
        self.run("evict", component="full", pages=4)
        node = self.run("match", tokens=[1, 2, 3, 4])["host_node"]
        self.run("load_back", node=node)
        host = self.controller.tree.nodes[node].host["full"]
        STOLEN[:] = [self.controller.tensor(host[:1])]
        with mock.patch.object(self.type, "drive_host_eviction", from_under_a_load(self.type.drive_host_eviction)):
            self.run("evict_host", component="full", pages=1)

    def unlocked_twice(self) -> None:
        node = self.run("match", tokens=[1, 2, 3, 4])["node"]
        handle = self.controller.tree.nodes[node].handle
        receipt = self.core.tree.inc_lock_ref(handle).to_dec_params()
        self.core.tree.dec_lock_ref(handle, receipt)
        self.core.tree.dec_lock_ref(handle, receipt)

    def acknowledged_twice(self) -> None:
        self.run("evict", component="full", pages=4)
        node = self.run("match", tokens=[1, 2, 3, 4])["host_node"]
        self.run("load_back", node=node)
        self.run("poll")
        self.core.tree.finish_load_back(self.controller.tree.nodes[node].handle)

    def host_slots_given_twice(self) -> None:
        self.run("insert", tokens=[9, 8])
        self.run("evict", component="full", pages=6)
        taken = self.controller.pools["host", "full"]
        slot = next(slot for slot, owner in enumerate(taken.owner) if owner is not None)
        page = taken._free.pop()
        taken._free.append(slot)
        try:
            self.run("prefetch", tokens=[7])
            self.run("finish_prefetch", holder=self.controller.holders)
        finally:
            taken._free.append(page)


FAULTS = ["double_free", "freed_under_a_load_back", "unlocked_twice", "acknowledged_twice", "host_slots_given_twice"]


def faults(kind: str, version: str, folder: Path) -> dict[str, Any]:
    """Every fault under every mode."""
    told: dict[str, Any] = {}
    for fault in FAULTS:
        for mode in ("raise", "count", "observe"):
            lines: list[str] = []
            handler = logging.Handler()
            handler.emit = lambda record, lines=lines: lines.append(record.getMessage())  # type: ignore[method-assign]
            log = logging.getLogger("pinproof.shadow")
            log.addHandler(handler)
            log.propagate = False
            metrics = folder / f"{kind}-{fault}-{mode}.prom"
            rig = Faults(kind, version, shadow.Settings(mode, metrics=str(metrics) if mode == "count" else ""))
            stopped = None
            try:
                getattr(rig, fault)()
            except (shadow.ShadowViolation, RuntimeError, AssertionError) as error:
                stopped = f"{type(error).__name__}: {error}"
            log.removeHandler(handler)
            told[f"{fault} {mode}"] = {
                "stopped": stopped,
                "counts": [[*key, count] for key, count in sorted(rig.state.reporter.counts.items())],
                "log": lines,
                "metrics": metrics.read_text() if mode == "count" else "",
                "broken": rig.state.broken,
            }
    return told


def main() -> None:
    """Do what is asked for."""
    source, what, *rest = sys.argv[1:]
    loader.open_release(source)
    version = Path(source).name.removeprefix("sglang-")
    works = {
        "interface": members,
        "cache": lambda: run_cache(rest[0]),
        "faults": lambda: faults(rest[0], version, Path(rest[1])),
    }
    print(json.dumps(works[what]()), flush=True)


if __name__ == "__main__":
    main()
