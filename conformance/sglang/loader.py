"""Loads a release of SGLang far enough for its tree cores, and builds one (runs inside the environment).

A plain ``import sglang`` needs a GPU stack. The tree cores need almost none of it, so

* a bare module object stands for the package ``sglang``: its ``__path__`` is the unpacked wheel, and its
  ``__init__`` never runs;
* a finder at the head of ``sys.meta_path`` answers for everything the cores import but never call with an empty
  module whose attributes are stand-ins (a name with a capital initial is a class, so that it can be subclassed).

`build` returns a `Core`: the tree core itself and the names of the release that the controller needs.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import types
from typing import Any

STUBS = [
    "torchvision",
    "sgl_kernel",
    "flashinfer",
    "torchao",
    "llguidance",
    "outlines",
    "vllm",
    "deep_gemm",
    "transformers",
    "triton",
    "zmq",
    "pybase64",
    "PIL",
    "compressed_tensors",
    "xgrammar",
    "uvloop",
    "aiohttp",
    "fastapi",
    "setproctitle",
    "huggingface_hub",
    "prometheus_client",
]
"""Top-level packages that no tree core calls."""

SGLANG_STUBS = [
    "kernels",
    "jit_kernel",
    "srt.configs",
    "srt.layers",
    "srt.distributed",
    "srt.server_args",
    "srt.model_executor",
    "srt.hardware_backend",
    "srt.managers.schedule_batch",
    "srt.managers.cache_controller",
    "srt.managers.io_struct",
    "srt.disaggregation.base",
    "srt.mem_cache.memory_pool",
    "srt.mem_cache.swa_memory_pool",
    "srt.mem_cache.memory_pool_host",
    "srt.mem_cache.pool_host",
    "srt.mem_cache.deepseek_v4_memory_pool",
    "srt.utils.hf_transformers_utils",
]
"""Modules of sglang (below ``sglang.``) that no tree core calls, with everything below them."""

COMPONENTS = ("full", "swa", "mamba")


class CannotLoad(Exception):
    """The release, or one of its cores, cannot be loaded; the message says which import failed."""


class _Anything:
    """Stands for a value of a stubbed module: callable, subscriptable, usable as a decorator."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # A bare decorator gives its function back; anything else gives another stand-in.
        if len(args) == 1 and not kwargs and isinstance(args[0], types.FunctionType | type):
            return args[0]
        return _Anything(self._name + "()")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(f"{self._name}.{name}")

    def __getitem__(self, key: Any) -> Any:
        return _Anything(f"{self._name}[]")

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return (object,)

    def __bool__(self) -> bool:
        return False


class _StubModule(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value: Any
        if name[:1].isupper():
            value = type(name, (), {"__module__": self.__name__})
        else:
            value = _Anything(f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


class _StubFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a stub for every name in the two lists, and for what is below it."""

    def __init__(self) -> None:
        self._names = frozenset(STUBS) | frozenset(f"sglang.{name}" for name in SGLANG_STUBS)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        parts = fullname.split(".")
        for cut in range(1, len(parts) + 1):
            if ".".join(parts[:cut]) in self._names:
                return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> Any:
        module = _StubModule(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: Any) -> None:
        return None


def open_release(source: str) -> None:
    """Make ``sglang.srt…`` of the unpacked wheel at `source` importable in this process (once per process)."""
    # The Rust core would otherwise look for a checkout with its sources and a toolchain.
    os.environ["SGLANG_RUST_BUILD_MODE"] = "never"
    package = types.ModuleType("sglang")
    package.__path__ = [os.path.join(source, "sglang")]
    package.__dict__["__version__"] = os.path.basename(source.rstrip("/")).removeprefix("sglang-")
    sys.modules["sglang"] = package
    sys.meta_path.insert(0, _StubFinder())
    import torch

    torch.set_num_threads(1)


def module(name: str) -> Any:
    """The module ``sglang.srt.<name>`` of the open release."""
    try:
        return importlib.import_module(f"sglang.srt.{name}")
    except ImportError as error:
        raise CannotLoad(f"sglang.srt.{name}: {error}") from error


class Core:
    """A tree core with the names of its release.

    `tree` is the core; `kind` is ``python`` or ``rust``; `types` maps our component names to the release's component
    types, in the order of the components. The rest are the release's own classes.
    """

    def __init__(self, kind: str, version: str, components: tuple[str, ...], page_size: int, window: int) -> None:
        self.kind, self.version = kind, version
        self.components, self.page_size, self.window = components, page_size, window
        self.tree: Any = None
        base, storage = module("mem_cache.base_prefix_cache"), module("mem_cache.hicache_storage")
        self.actions = module("mem_cache.unified_cache.cache_action")
        self.RadixKey = module("mem_cache.radix_cache").RadixKey
        self.MatchPrefixParams, self.InsertParams = base.MatchPrefixParams, base.InsertParams
        self.EvictionResult = module("mem_cache.unified_cache.unified_tree_core_interface")
        self.PoolTransfer, self.PoolName = storage.PoolTransfer, storage.PoolName
        self.PoolTransferResult = storage.PoolTransferResult
        component_types = module("mem_cache.unified_cache.component_type").ComponentType
        named = {"full": component_types.FULL, "swa": component_types.SWA, "mamba": component_types.MAMBA}
        self.types: dict[str, Any] = {name: named[name] for name in components}
        self.names: dict[Any, str] = {value: name for name, value in self.types.items()}
        self.phase = module("mem_cache.unified_cache.components").CacheTransferPhase


class _Cache:
    """What a Python component asks of the cache that owns it, when the controller does the rest."""

    def __init__(self, page_size: int, allocator: Any, components: tuple[Any, ...], swa: bool, pool: Any) -> None:
        self.page_size = page_size
        self.enable_session_radix_cache = False
        self.is_swa_enabled = swa
        self.is_mamba_enabled = pool is not None
        self.enable_mamba_extra_buffer = page_size > 1
        self.token_to_kv_pool_allocator = allocator
        self.req_to_token_pool = pool
        self.tree_components = components
        self.linker = None
        self.disable = False

    def __getattr__(self, name: str) -> Any:
        raise CannotLoad(f"a component asked its cache for {name!r}: this file must provide it")


def build(
    kind: str,
    version: str,
    components: tuple[str, ...],
    page_size: int,
    window: int,
    policy: str,
    threshold: int = 1,
    storage: bool = False,
    states_per_path: int = -1,
    eviction: str = "lru",
) -> Core:
    """A fresh core of the open release.

    `kind`: ``python`` or ``rust`` (`CannotLoad` where the release has none; never the silent fallback).
    `window`: tokens of the sliding window. `policy`: ``write_back``, ``write_through``, ``write_through_selective``
    (the core knows only the first from the others). `threshold`: hits before a node is written through.
    `states_per_path`: the cap on Mamba states of a path, -1 for none. `eviction`: the order of victims, by the
    server's name for it.
    """
    core = Core(kind, version, components, page_size, window)
    swa, mamba = "swa" in components, "mamba" in components
    allocator = pool = None
    if swa:
        allocator_class = module("mem_cache.allocator.swa").SWATokenToKVPoolAllocator
        allocator = allocator_class.__new__(allocator_class)
        import torch

        allocator.device = torch.device("cpu")
    if mamba:
        pool_class = module("mem_cache.memory_pool").HybridReqToTokenPool
        pool = pool_class.__new__(pool_class)
        _give_mamba_settings(page_size, states_per_path)
    params = _init_params(
        page_size=page_size,
        token_to_kv_pool_allocator=allocator,
        req_to_token_pool=pool,
        tree_components=tuple(core.types.values()),
        sliding_window_size=window if swa else None,
        enable_mamba_extra_buffer=page_size > 1,
        eviction_policy=eviction,
    )
    if kind == "rust":
        try:
            adapter = module("mem_cache.rust_tree_core.adapter")
        except (ImportError, RuntimeError, CannotLoad) as error:
            raise CannotLoad(f"the Rust core of sglang {version}: {error}") from error
        core.tree = adapter.RustUnifiedTreeCore(params)
    elif kind == "python":
        package = module("mem_cache.unified_cache.components")
        classes = {"full": package.FullComponent, "swa": package.SWAComponent, "mamba": package.MambaComponent}
        cache = _Cache(page_size, allocator, tuple(core.types.values()), swa, pool)
        made = {core.types[name]: classes[name](cache, params) for name in components}
        python_core = module("mem_cache.unified_cache.unified_tree_core")
        python_core.compute_node_hash_values = _page_hashes
        core.tree = python_core.UnifiedTreeCore(params, made)
    else:
        raise CannotLoad(f"no core is called {kind!r} (python, rust)")
    core.tree.set_hicache_enabled()
    core.tree.is_write_back = policy == "write_back"
    core.tree.write_through_threshold = threshold
    core.tree.enable_storage = storage
    if swa:
        core.tree.has_swa_host_pool = True
    return core


def pins_under_every_policy(tree: Any) -> None:
    """The text before SGLang #34519: load-backs pin their sources under write_through too."""
    for name in ("commit_load_back", "finish_load_back"):
        setattr(tree, name, _as_write_back(tree, getattr(tree, name)))


def _as_write_back(tree: Any, method: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        really, tree.is_write_back = tree.is_write_back, True
        try:
            return method(*args, **kwargs)
        finally:
            tree.is_write_back = really

    return call


def forgets_host_locks(tree: Any) -> None:
    """A mistake that no release makes: a second host lock of a node is not counted for FULL (Python core)."""
    really = tree.inc_host_lock_ref

    def inc_host_lock_ref(node_id: Any) -> Any:
        receipt, full = really(node_id), tree.node_by_id(node_id).component_data[0]
        full.host_lock_ref = min(full.host_lock_ref, 1)
        return receipt

    tree.inc_host_lock_ref = inc_host_lock_ref


def counts_too_few(tree: Any) -> None:
    """A mistake that no release makes: the running total of what can be evicted is a slot short."""
    really = tree.component_evictable_size
    tree.component_evictable_size = lambda which: max(0, really(which) - 1)


def matches_nothing_on_the_host(tree: Any) -> None:
    """A mistake that no release makes: a match ends where the device copies end."""
    really = tree.match_prefix

    def match_prefix(params: Any) -> Any:
        found = really(params)
        return found._replace(best_match_node=found.last_device_node)

    tree.match_prefix = match_prefix


PATCHES = {
    "pins-under-every-policy": pins_under_every_policy,
    "forgets-host-locks": forgets_host_locks,
    "counts-too-few": counts_too_few,
    "matches-nothing-on-the-host": matches_nothing_on_the_host,
}
"""Text to put in place of a release's own: what a fix had mended, or a mistake that must be found."""


def _page_hashes(node: Any, page_size: int) -> list[str]:
    """A chained hash for each page of a node, in place of the core's own, which would compile a C++ extension.

    Hashes name pages in storage and nothing else: ownership does not depend on them.
    """
    last = (node.parent.hash_value or [""])[-1] if node.parent is not None else ""
    tokens, found = node.key.token_ids, []
    for first in range(0, len(node.key), page_size):
        last = hashlib.sha256(f"{last} {list(tokens[first : first + page_size])}".encode()).hexdigest()
        found.append(last)
    return found


def _init_params(**wanted: Any) -> Any:
    """The release's `CacheInitParams` with `wanted`, less what it does not know."""
    import dataclasses

    params = module("mem_cache.cache_init_params").CacheInitParams
    fields = {field.name for field in dataclasses.fields(params)}
    return params(disable=False, **{name: value for name, value in wanted.items() if name in fields})


def _give_mamba_settings(page_size: int, states_per_path: int) -> None:
    """Answer for the server configuration that a Mamba component reads when it is built."""
    settings = types.SimpleNamespace(
        mamba=types.SimpleNamespace(mamba_max_states_per_path=states_per_path, enable_mamba_extra_buffer_lazy=False)
    )
    homes = ["mem_cache.unified_cache.components.mamba", "mem_cache.unified_cache.components.mamba_component"]
    homes.append("mem_cache.rust_tree_core.adapter")
    for name in homes:
        try:
            home = module(name)
        except (CannotLoad, RuntimeError):
            continue
        home.get_exec = lambda: settings
        if hasattr(home, "get_server_args"):
            home.get_server_args = lambda: types.SimpleNamespace(mamba_cache_chunk_size=page_size)
        home.mamba_cache_chunk_size = lambda: page_size
        home.mamba_checkpoint_grid = lambda tree_page: page_size
