"""The cache of this project as a target in this process: its public operations, its events, its bytes."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ...impl import (
    BadArgument,
    BadConfig,
    BadTokens,
    CacheConfig,
    CacheError,
    OutOfDeviceSlots,
    OutOfHostMemory,
    Refused,
    StaleReceipt,
    TieredCache,
    UnknownNode,
)
from ...impl.config import MAMBA, NAMES
from ...impl.content import chain, identities, page_bytes
from ...impl.node import Node
from ...impl.slots import Slots
from ..events import Event, convert_event
from .base import CRASHED, Answer, Capabilities, Configuration, Problem, refused
from .steering import NotSteerable, Steering

DECLINED = (Refused, OutOfDeviceSlots, OutOfHostMemory)
MISTAKEN = (BadArgument, BadConfig, BadTokens, StaleReceipt, UnknownNode)
OPERATIONS = (
    "match", "lock", "unlock", "release_window", "forward", "insert", "backup", "load_back", "begin_load_back",
    "commit_load_back", "evict", "evict_host", "reclaim", "prefetch", "finish_prefetch", "storage_backup", "poll",
    "fail", "abort", "wait", "reset", "audit", "read",
)  # fmt: skip


class ImplTarget:
    """`TieredCache` behind the operations of the worker protocol.

    Args:
        kind: "stepped" (copies advance one micro-step at a time, as `step` chooses), "threads" or "cuda".
        layers, words: a page is `layers` times `words` 8-byte words.
    """

    def __init__(self, kind: str = "stepped", *, layers: int = 2, words: int = 1) -> None:
        self.kind = kind
        self.name = "impl" if kind == "stepped" else f"impl:{kind}"
        self.capabilities = Capabilities(target=self.name)
        self.cache: TieredCache | None = None
        self._shape = (layers, words)
        self._events: list[dict[str, Any]] = []
        self._dead: str | None = None

    def configure(self, configuration: Configuration) -> Answer:
        """An empty cache."""
        self.close()
        self._events, self._dead = [], None
        layers, words = self._shape
        try:
            config = CacheConfig(
                policy=configuration.policy,
                components=tuple(configuration.components),
                page_size=configuration.page_size,
                device_pages=configuration.device_pages,
                host_pages=configuration.host_pages,
                swa_device_pages=configuration.swa_device_pages,
                swa_host_pages=configuration.swa_host_pages,
                mamba_device_pages=configuration.mamba_device_pages,
                mamba_host_pages=configuration.mamba_host_pages,
                window=configuration.window,
                threshold=configuration.threshold,
                layers=layers,
                layer_bytes=8 * words,
                group=configuration.seed % (layers + 1) if self.kind == "stepped" else 0,
                storage=configuration.storage,
                storage_writes="ack" if configuration.seed % 2 else "asked",
                verify=True,
                engine=self.kind,
                device="cuda" if self.kind == "cuda" else "cpu",
                seed=configuration.seed,
                queued_compute=self.kind == "stepped" and configuration.seed % 2 == 1,
                happens_before=True,
                poison=True,
            )
        except CacheError as error:
            return refused("ArgumentError", str(error))
        self.cache = cache = TieredCache(config, recorder=self._events.append)
        if cache.storage_error is not None:
            return refused("ArgumentError", str(cache.storage_error))
        if isinstance(configuration.storage, str) and cache.core.store is not None:
            cache.core.store.clear()
        self._steering = Steering(cache)
        stepped = self.kind == "stepped"
        self.capabilities = Capabilities(
            [*OPERATIONS, *(["step", "act"] if stepped else [])],
            capacity={
                "device": {name: config.pool_pages("device", NAMES.index(name)) for name in configuration.components},
                "host": {name: config.pool_pages("host", NAMES.index(name)) for name in configuration.components},
            },
            target=self.name,
            actions=stepped,
            namespaces=True,
        )
        return Answer(True, {"target": self.name})

    def op(self, name: str, **args: Any) -> Answer:
        """One operation."""
        if self.cache is None:
            return refused("RefusedUnconfigured", "configure it first")
        if self._dead is not None:
            return Answer(False, None, Problem(CRASHED, self._dead))
        method: Callable[..., Any] | None = getattr(self, f"_{name}", None)
        if method is None or name not in self.capabilities.operations:
            return refused("RefusedOperation", f"no operation {name!r}")
        result, problem = None, None
        if name not in ("act", "read", "audit"):
            self._steering.flush()
        try:
            result = method(self.cache, **args)
        except NotSteerable as reason:
            result = {"steered": False, "reason": str(reason)}
        except DECLINED as error:
            problem = Problem(f"Refused{type(error).__name__.removeprefix('Refused')}", str(error))
        except MISTAKEN as error:
            problem = Problem("ArgumentError", f"{type(error).__name__}: {error}")
        except TypeError as error:
            ours = f"_{name}()" in str(error)
            problem = Problem("ArgumentError", str(error)) if ours else self._crash(error)
        except Exception as error:
            problem = self._crash(error)
        return Answer(problem is None, result, problem, self._told())

    def close(self) -> None:
        """Stop the engine."""
        if self.cache is not None:
            self.cache.close()
            self.cache = None

    def _crash(self, error: Exception) -> Problem:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename.rpartition('/')[2]}:{where.lineno}"
        self._dead = f"{type(error).__name__}: {error} ({place})"
        return Problem(CRASHED, self._dead)

    def _told(self) -> list[Event]:
        told = [convert_event(raw) for raw in self._events]
        self._events.clear()
        return told

    # Operations
    def _match(self, cache: TieredCache, tokens: list[int], namespace: str = "") -> dict[str, int]:
        return cache.match(tokens, namespace=namespace)._asdict()

    def _lock(self, cache: TieredCache, node: int) -> dict[str, int]:
        return {"holder": cache.lock(node).id}

    def _unlock(self, cache: TieredCache, holder: int) -> None:
        cache.unlock(holder)

    def _release_window(self, cache: TieredCache, holder: int, node: int | None = None) -> None:
        cache.release_window(holder, node)

    def _forward(self, cache: TieredCache, holder: int, wait: bool = False) -> None:
        if cache.config.queued_compute:
            for layer in range(cache.config.layers):
                cache.read_layer(holder, layer)
        cache.forward(holder, wait=wait)

    def _insert(
        self,
        cache: TieredCache,
        tokens: list[int],
        aux: dict[str, bool] | None = None,
        after: int | None = None,
        namespace: str = "",
    ) -> dict[str, int]:
        aux = aux or {}
        receipt = cache.core.receipt(after, "request") if after is not None else None
        kept = {name: bool(aux[name]) for name in ("swa", "mamba") if name in aux and name in cache.config.components}
        return {
            "node": cache.insert(
                tokens, swa=kept.get("swa"), mamba=kept.get("mamba"), after=receipt, namespace=namespace
            )
        }

    def _backup(self, cache: TieredCache, node: int) -> dict[str, int]:
        return {"holder": cache.backup(node).id}

    def _load_back(self, cache: TieredCache, node: int) -> dict[str, int]:
        return {"holder": cache.load_back(node).id}

    def _begin_load_back(self, cache: TieredCache, node: int) -> dict[str, int]:
        return {"holder": cache.begin_load_back(node).id}

    def _commit_load_back(self, cache: TieredCache, holder: int) -> None:
        cache.commit_load_back(holder)

    def _evict(self, cache: TieredCache, component: str, pages: int) -> dict[str, int]:
        return {"freed": cache.evict(component, pages)}

    def _evict_host(self, cache: TieredCache, component: str, pages: int) -> dict[str, int]:
        return {"freed": cache.evict_host(component, pages)}

    def _reclaim(self, cache: TieredCache, pages: int) -> dict[str, int]:
        return {"freed": cache.reclaim(pages)}

    def _prefetch(self, cache: TieredCache, tokens: list[int], namespace: str = "") -> dict[str, int]:
        return {"holder": cache.prefetch(tokens, namespace=namespace).id}

    def _finish_prefetch(self, cache: TieredCache, holder: int) -> dict[str, int | None]:
        if self._steering.steers(holder):
            self._steering.act("end_prefetch", {"holder": holder})
            return {"node": None}
        return {"node": cache.finish_prefetch(holder)}

    def _storage_backup(self, cache: TieredCache, node: int) -> dict[str, int]:
        return {"holder": cache.storage_backup(node).id}

    def _step(self, cache: TieredCache, choice: int = 0) -> dict[str, int]:
        cache.step(choice)
        return {"waiting": cache.steps}

    def _poll(self, cache: TieredCache) -> dict[str, Any]:
        return {"settled": [[holder, how] for holder, how in cache.poll()]}

    def _wait(self, cache: TieredCache, holder: int) -> None:
        cache.wait(holder)

    def _fail(self, cache: TieredCache, kind: str, fault: str = "failed") -> None:
        cache.fail(kind, fault)  # type: ignore[arg-type]

    def _abort(self, cache: TieredCache, holder: int) -> None:
        cache.abort(holder)

    def _reset(self, cache: TieredCache) -> None:
        cache.reset()

    def _audit(self, cache: TieredCache) -> dict[str, Any]:
        return {"problems": cache.audit(), "idle": not cache.holders}

    def _act(self, cache: TieredCache, action: str, args: dict[str, int]) -> dict[str, Any]:
        cache.core.storage_at_ack = False
        cache.core.asked = cache.core.root
        return self._steering.act(action, args)

    def _read(self, cache: TieredCache, nodes: list[int]) -> dict[str, Any]:
        """Read every copy of these nodes that counts as arrived; `problems` names those with other bytes."""
        return {"problems": list(wrong_bytes(cache, [cache.nodes[n] for n in nodes if n in cache.nodes]))}


def wrong_bytes(cache: TieredCache, nodes: Iterable[Node]) -> Iterable[str]:
    """Copies of nodes that should have arrived and do not hold the bytes of their key and layer.

    Hashes are made anew from the tokens: what the tree remembers of them may be wrong too.
    """
    core = cache.core
    for node in nodes:
        if node.parent is None:
            continue
        pages = core.pages(node)
        *_, root = node.path()
        name = next(seed for seed, other in core.roots.items() if other is root)
        hashes = chain(name, b"".join(m.key for m in reversed(node.path())), core.stride)
        ids = identities(hashes)[-pages:]
        for tier, seats in (("device", node.device), ("host", node.host)):
            for c in core.components:
                seat = seats[c]
                if seat.slots is None or seat.pending is not None:
                    continue
                pool = core.pools.of(tier)[c]
                if not core.computing.written(pool, seat.slots):
                    continue
                _, layers, words = pool.data.shape
                wanted = page_bytes(ids[-1:] if c == MAMBA else ids, c, layers, words)
                slots: Slots = seat.slots
                if len(slots) != len(wanted) or not torch.equal(pool.pages(slots), wanted):
                    yield f"node {node.id}: its {tier} {NAMES[c]} slots {list(slots)} do not hold its bytes"
