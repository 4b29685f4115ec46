"""A tree core of SGLang without its server, for the scripts beside this file. Needs an unpacked sglang wheel, torch,
numpy, msgspec, pydantic, orjson, psutil, requests, packaging and starlette; no GPU, and nothing of pinproof.

    python SCRIPT.py FOLDER_OF_THE_WHEEL python|rust

Slots are numbers: the full slot of the n-th token is n, its window slot 1000 + n; states are 2000 and up.
"""

import dataclasses
import importlib
import importlib.abc
import importlib.machinery
import inspect
import os
import sys
import types

UNUSED = [
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
UNUSED += [
    "sglang." + name
    for name in [
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
]


class Nothing:
    """A value of a module that no tree core calls."""

    def __call__(self, *args, **kwargs):
        """A decorator that changes nothing, or nothing."""
        return args[0] if len(args) == 1 and isinstance(args[0], types.FunctionType | type) else Nothing()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()

    def __getitem__(self, key):
        return Nothing()

    def __or__(self, other):
        return self

    __ror__ = __or__

    def __mro_entries__(self, bases):
        return (object,)

    def __bool__(self):
        return False


class Empty(types.ModuleType):
    """A module that no tree core calls."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = type(name, (), {}) if name[0].isupper() else Nothing()
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers for the modules that no tree core calls."""

    def find_spec(self, name, path=None, target=None):
        """A stand-in, for those modules."""
        parts = name.split(".")
        if any(".".join(parts[:n]) in UNUSED for n in range(1, len(parts) + 1)):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        """An empty module."""
        module = Empty(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module):
        """Nothing to run."""


def srt(name):
    """A module of sglang.srt."""
    return importlib.import_module("sglang.srt." + name)


class Bare:
    """A core under write_back with pages of one token and a window of four."""

    def __init__(self, *components):
        folder, kind = sys.argv[1], sys.argv[2]
        os.environ["SGLANG_RUST_BUILD_MODE"] = "never"
        package = types.ModuleType("sglang")
        package.__path__ = [os.path.join(folder, "sglang")]
        sys.modules["sglang"] = package
        sys.meta_path.insert(0, Finder())
        import torch

        self.torch, self.kind, self.host = torch, kind, 1
        names = srt("mem_cache.unified_cache.component_type").ComponentType
        self.types = {name: getattr(names, name) for name in components}
        allocator = pool = None
        if "SWA" in components:
            allocator_class = srt("mem_cache.allocator.swa").SWATokenToKVPoolAllocator
            allocator = allocator_class.__new__(allocator_class)
            allocator.device = torch.device("cpu")
        if "MAMBA" in components:
            pool_class = srt("mem_cache.memory_pool").HybridReqToTokenPool
            pool = pool_class.__new__(pool_class)
            self._mamba_settings()
        wanted = {
            "disable": False, "req_to_token_pool": pool, "token_to_kv_pool_allocator": allocator, "page_size": 1,
            "tree_components": tuple(self.types.values()), "sliding_window_size": 4 if allocator else None,
        }  # fmt: skip
        params = srt("mem_cache.cache_init_params").CacheInitParams(**wanted)
        if kind == "rust":
            self.core = srt("mem_cache.rust_tree_core.adapter").RustUnifiedTreeCore(params)
        else:
            parts = srt("mem_cache.unified_cache.components")
            classes = {"FULL": parts.FullComponent, "SWA": parts.SWAComponent, "MAMBA": parts.MambaComponent}
            cache = types.SimpleNamespace(
                page_size=1, enable_session_radix_cache=False, is_swa_enabled=bool(allocator),
                is_mamba_enabled=bool(pool), enable_mamba_extra_buffer=False, token_to_kv_pool_allocator=allocator,
                req_to_token_pool=pool, tree_components=tuple(self.types.values()), linker=None, disable=False,
            )  # fmt: skip
            made = {self.types[name]: classes[name](cache, params) for name in components}
            self.core = srt("mem_cache.unified_cache.unified_tree_core").UnifiedTreeCore(params, made)
        self.core.set_hicache_enabled()
        self.core.is_write_back = True
        self.core.write_through_threshold = 1000
        if allocator:
            self.core.has_swa_host_pool = True

    @staticmethod
    def _mamba_settings():
        settings = types.SimpleNamespace(
            mamba=types.SimpleNamespace(mamba_max_states_per_path=-1, enable_mamba_extra_buffer_lazy=False)
        )
        below = "mem_cache.unified_cache.components."
        for name in (below + "mamba", below + "mamba_component", "mem_cache.rust_tree_core.adapter"):
            try:
                home = srt(name)
            except (ImportError, RuntimeError):
                continue
            home.get_exec = lambda: settings
            home.get_server_args = lambda: types.SimpleNamespace(mamba_cache_chunk_size=1)
            home.mamba_cache_chunk_size = lambda: 1
            home.mamba_checkpoint_grid = lambda page: page

    def slots(self, numbers):
        """Slots as the core wants them."""
        return self.torch.tensor(list(numbers), dtype=self.torch.int64)

    def key(self, tokens):
        """Tokens as the core wants them."""
        from array import array

        return srt("mem_cache.radix_cache").RadixKey(array("q", tokens))

    def insert(self, tokens, cached=0):
        """A request has computed `tokens`, of which the first `cached` were in the cache; returns the node."""
        base = srt("mem_cache.base_prefix_cache")
        known = {field.name for field in dataclasses.fields(base.InsertParams)}
        wanted = {"key": self.key(tokens), "value": self.slots(range(1, len(tokens) + 1)), "prev_prefix_len": cached}
        if "MAMBA" in self.types:
            wanted["mamba_value"] = self.slots([2000 + len(tokens)])
        step = self.core.begin_insert(base.InsertParams(**{k: v for k, v in wanted.items() if k in known}))
        while True:
            for action in step.actions:
                if type(action).__name__ in ("SWARebuild", "RecoverSWAWithLockedFull"):
                    full = action.source_value if hasattr(action, "source_value") else action.kept_full
                    self.core.set_component_device_value(action.node_id, self.types["SWA"], full + 1000)
            if step.result is not None:
                break
            step = self.core.resume_insert()
        self.core.end_insert()
        return step.result.last_device_node

    def match(self, tokens):
        """Where the longest cached prefix ends, on either tier. Splits a node if it ends inside one."""
        params = srt("mem_cache.base_prefix_cache").MatchPrefixParams(key=self.key(tokens))
        return self.core.match_prefix(params).best_match_node

    def backup(self, node):
        """Copy a node to the host and wait for it, as write_back does before it evicts; returns FULL's host slots."""
        value, transfers = self.core.build_backup_spec(node)
        host = self._host(value.numel())
        for parts in transfers.values():
            for part in parts:
                part.host_indices = self._host(part.device_indices.numel())
        self.core.commit_backup(node, host, transfers)
        if hasattr(self.core, "mark_external_linker_offload_pending"):
            marked = list(self.core.mark_write_through_pending([node], node))
        else:
            self.core.mark_write_through_pending(node)
            marked = [node]
        self.core.finish_write_through(marked, node)
        return host.tolist()

    def prefetch(self, tokens, window):
        """Storage has brought `tokens`, below the root: FULL of them, and SWA of the last `window`."""
        storage, phase = srt("mem_cache.hicache_storage"), srt("mem_cache.unified_cache.components").CacheTransferPhase
        root, which = self.core.root_node_handle() if self.kind == "rust" else self.core.root_node.id, self.types["SWA"]
        hashes = [str(tokens[: end + 1]) for end in range(len(tokens))]
        result = self.core.insert_host(root, self.key(tokens), self._host(len(tokens)), hashes)
        staged = self._host(window)
        later = "staging_tokens" in inspect.signature(self.core.build_hicache_transfers).parameters
        wanted = {"staging_tokens": window} if later else {"host_indices": staged}
        parts = self.core.build_hicache_transfers(
            which, root, phase.PREFETCH, token_ids=tokens, prefetch_tokens=len(tokens), **wanted
        )
        for part in parts:
            part.host_indices = staged
        hits = storage.PoolTransferResult(len(tokens), {storage.PoolName.SWA: window})
        self.core.commit_hicache_transfers(
            root, phase.PREFETCH, {which: parts}, cache_actions=[], insert_result=result, pool_storage_result=hits
        )

    def _host(self, count):
        first, self.host = self.host, self.host + count
        return self.slots(range(first, self.host))

    def evict(self, name, count):
        """Evict slots of a component that have a host copy from the device; returns those that were freed."""
        kind, freed = self.types[name], []
        tracker = dict.fromkeys(self.types.values(), 0)
        self.core.evict_device_start(kind, count)
        while True:
            step = self.core.evict_device_next_node(kind, tracker)
            freed += self._drain(step, tracker, name)
            if step.node_id is None:
                if not getattr(step, "made_progress", False):
                    break
                continue
            leaf = self.core.evict_device_leaf(step.node_id, True)
            assert leaf.backup_kv is None, "back it up first"
            freed += self._drain(leaf, tracker, name)
        self.core.evict_device_end(kind)
        return freed

    def evict_host(self, name, count):
        """Ask for host slots of a component; returns those that were freed."""
        result = self.core.drive_host_eviction(self.types[name], count)
        return self._drain(result, {}, name, host=True)

    def _drain(self, step, tracker, name, host=False):
        for which, count in getattr(step, "tracker", {}).items():
            if which in tracker:
                tracker[which] += count
        found = []
        for frees in (step.device_frees, step.host_frees):
            for which in list(frees):
                for value in frees.pop(which):
                    if which == self.types[name] and host == (frees is step.host_frees):
                        found += value.tolist()
        actions = getattr(step, "cache_actions", None)
        if actions:
            actions.clear()
        return found

    def load_back(self, node):
        """Begin a load-back, as the server does, and leave it in flight; returns what is loaded: tokens, components."""
        self.core.inc_host_lock_ref(node)
        receipt = self.core.inc_lock_ref(node).to_dec_params()
        full, transfers = self.core.build_load_back_spec(node)
        count = full.host_indices.numel()
        if not count and not transfers:
            return 0, []
        for parts in transfers.values():
            for part in parts:
                part.device_indices = self.slots(range(5000, 5000 + part.host_indices.numel()))
        self.core.dec_lock_ref(node, receipt)
        self.core.commit_load_back(node, self.slots(range(1, count + 1)), full, transfers)
        self.core.inc_lock_ref(node)
        return count, [which.name for which in transfers]


def verdict(shown, words):
    """Say what was seen; exit status 0 if the defect is there, 3 if it is not."""
    print(("SHOWN: " if shown else "not here: ") + words)
    sys.stdout.flush()
    os._exit(0 if shown else 3)
