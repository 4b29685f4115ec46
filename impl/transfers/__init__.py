"""Engines that copy pages between tiers.

One interface, three kinds of time: stepped, threads, CUDA streams.
"""

from __future__ import annotations

from ..config import CacheConfig
from .base import Engine
from .stepped import SteppedEngine


def make_engine(config: CacheConfig) -> Engine:
    """The engine that a configuration names."""
    if config.engine == "threads":
        from .threads import ThreadEngine

        return ThreadEngine()
    if config.engine == "cuda":
        from .cuda import CudaEngine

        return CudaEngine(config.device)
    return SteppedEngine(config.seed, queued=config.queued_compute)
