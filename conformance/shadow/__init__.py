"""A shadow for SGLang's tree cores: it forwards every call, records it, and checks who owns what, in a running server.

Everything here needs the standard library only, so that it can be imported in a server's environment
(``pip install --no-deps pinproof``). `docs/traces.md` shows it at work. SGLang's plugin loader calls `register`::

    SGLANG_UNIFIED_RADIX_TREE_CORE_BACKEND=shadow-rust PINPROOF_SHADOW=observe python -m sglang.launch_server …
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from typing import Any

from .core import Shadow, forwarded, shadow_class, shadow_of, wrap
from .ledger import Ledger
from .reporting import BadSettings, Settings, ShadowViolation
from .slots import Breach

__all__ = [
    "BadSettings",
    "Breach",
    "Ledger",
    "Settings",
    "Shadow",
    "ShadowViolation",
    "forwarded",
    "register",
    "shadow_class",
    "shadow_of",
    "wrap",
]

PREFIX = "shadow-"
_HOME = "sglang.srt.mem_cache.unified_cache"
log = logging.getLogger("pinproof.shadow")


def register() -> list[str]:
    """Register ``shadow-NAME`` for every tree core backend of the SGLang release; return the names it has now.

    `NAME` is one of the release's own backends, ``python`` or ``rust``. Call it in every process that builds a cache;
    SGLang's plugin loader does.
    """
    registry = importlib.import_module(f"{_HOME}.tree_core_registry")
    known = list(registry.registered_tree_core_backends())
    for name in known:
        if not name.startswith(PREFIX) and PREFIX + name not in known:
            registry.register_tree_core_backend(PREFIX + name, _factory(registry, name))
    return [name for name in registry.registered_tree_core_backends() if name.startswith(PREFIX)]


def _factory(registry: Any, name: str) -> Callable[[Any, Any], Any]:
    def build(params: Any, components: Any) -> Any:
        interface = importlib.import_module(f"{_HOME}.unified_tree_core_interface").UnifiedTreeCoreInterface
        inner = registry.create_tree_core(name, params, components)
        core = wrap(inner, interface, [which.name.lower() for which in params.tree_components])
        settings = shadow_of(core).settings
        log.info("tree core %s runs behind a shadow that %ss", type(inner).__name__, settings.mode)
        return core

    return build
