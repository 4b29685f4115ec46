"""A worker: one core of one release, spoken to in JSON lines (runs inside the environment).

``python worker.py --source FOLDER --core python|rust``. Requests come on stdin, one a line, answers go to stdout in
the same order; ``configure`` comes first and may come again (a fresh core each time). Whatever else writes to stdout,
the core among it, lands on stderr.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import traceback
import types
from collections import Counter
from random import Random
from typing import Any

if not __package__:
    # Run as a script there is no package around this file, and pinproof is not installed here: make one of the folder.
    __package__ = "pinproof_sglang"
    sys.modules[__package__] = types.ModuleType(__package__)
    sys.modules[__package__].__path__ = [os.path.dirname(os.path.abspath(__file__))]

from . import loader

POLICIES = ("write_back", "write_through", "write_through_selective")


class Worker:
    """Answers requests; holds the controller of the configured core."""

    def __init__(self, source: str, kind: str, patch: str | None = None) -> None:
        self.source, self.kind, self.patch = source, kind, patch
        self.version = os.path.basename(source.rstrip("/")).removeprefix("sglang-")
        self.controller: Any = None
        self.calls: Counter[str] = Counter()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request (its id added by the caller)."""
        arguments = {name: value for name, value in request.items() if name not in ("id", "op")}
        name = request.get("op")
        if name == "batch":
            return {"ok": True, "answers": [self.numbered(each) for each in arguments.get("requests", [])]}
        if name == "configure":
            return self.configure(**arguments)
        if name == "interface":
            return {"ok": True, "result": self.interface(), "events": []}
        if self.controller is None:
            return _error("RefusedUnconfigured", "the first request must be `configure`")
        return dict(self.controller.run(name, arguments))

    def numbered(self, request: Any) -> dict[str, Any]:
        """The answer with the request's id; an error inside the controller is told, not raised."""
        if not isinstance(request, dict):
            return {"id": None, **_error("ArgumentError", "a request is a JSON object")}
        try:
            answer = self.answer(request)
        except loader.CannotLoad as error:
            answer = _error("CannotLoad", str(error))
        except Exception as error:
            traceback.print_exc()
            where = traceback.extract_tb(error.__traceback__)[-1]
            message = f"{type(error).__name__}: {error} ({os.path.basename(where.filename)}:{where.lineno})"
            answer = _error("ControllerError", message)
        return {"id": request.get("id"), **answer}

    def interface(self) -> dict[str, int]:
        """Every method of the core's interface, and every action that it can ask for, with how often each was met."""
        core = loader.module("mem_cache.unified_cache.unified_tree_core_interface").UnifiedTreeCoreInterface
        found = dict.fromkeys((name for name in vars(core) if not name.startswith("_")), 0)
        actions = loader.module("mem_cache.unified_cache.cache_action")
        found |= {
            f"action {name}": 0
            for name, each in vars(actions).items()
            if isinstance(each, type) and each.__module__ == actions.__name__ and not each.__subclasses__()
        }
        return {**found, **self.calls}

    def configure(
        self,
        policy: str = "write_back",
        components: tuple[str, ...] = ("full",),
        page_size: int = 1,
        device_pages: int = 32,
        host_pages: int = 32,
        window: int = 4,
        threshold: int | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """A fresh core and empty pools; answers what this target can do."""
        from .controller import OPERATIONS, Controller

        if policy not in POLICIES:
            return _error("ArgumentError", f"no policy {policy!r} ({', '.join(POLICIES)})")
        if tuple(components) not in (("full",), ("full", "swa"), ("full", "mamba"), ("full", "swa", "mamba")):
            return _error("ArgumentError", f"components {components!r}: full, then swa, then mamba")
        if threshold is None:
            threshold = 2 if policy == "write_through_selective" else 1
        options = {**_settings(int(options.get("seed") or 0)), **options}
        core = loader.build(
            self.kind, self.version, tuple(components), page_size, window, policy, threshold,
            storage=True, states_per_path=int(options["states_per_path"]), eviction=options["eviction"],
        )  # fmt: skip
        if self.patch is not None:
            loader.PATCHES[self.patch](core.tree)
        self.controller = Controller(core, policy, device_pages, host_pages, {**options, "calls": self.calls})
        capabilities = {
            "target": f"sglang:{self.version}:{self.kind}",
            "operations": OPERATIONS,
            "sees": list(self.controller.eyes.sees),
            "policy": policy,
            "components": list(components),
            "page_size": page_size,
            "window": window,
            "locks_tombstones": self.controller.counts_tombstones,
        }
        return {"ok": True, "result": capabilities, "events": []}


def _settings(seed: int) -> dict[str, Any]:
    """Settings of the server that a run's seed chooses: the plain ones for seed 0."""
    chosen = Random(f"{seed}/server")
    return {
        "states_per_path": chosen.choice((-1, -1, 1, 2)) if seed else -1,
        "eviction": chosen.choice(("lru", "lru", "lfu", "fifo", "mru", "filo", "priority")) if seed else "lru",
        "store_acked": bool(seed) and chosen.random() < 0.25,
    }


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"ok": False, "error": {"type": kind, "message": message}, "events": []}


def main() -> None:
    """Serve until stdin ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", required=True)
    parser.add_argument("--core", choices=("python", "rust"), default="python")
    parser.add_argument("--patch", choices=tuple(loader.PATCHES))
    options = parser.parse_args()
    protocol = os.fdopen(os.dup(1), "wb", buffering=1 << 16)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    # What the core logs about a full host pool or a dropped prefetch is told by events.
    logging.disable(logging.CRITICAL)
    loader.open_release(options.source)
    import orjson  # type: ignore[import-not-found, unused-ignore]

    worker = Worker(options.source, options.core, options.patch)
    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        try:
            request = orjson.loads(line)
        except ValueError as error:
            answer = {"id": None, **_error("ArgumentError", f"not JSON: {error}")}
        else:
            answer = worker.numbered(request)
        protocol.write(orjson.dumps(answer) + b"\n")
        protocol.flush()
    os._exit(0)  # tearing torch down takes seconds and is of no use


if __name__ == "__main__":
    main()
