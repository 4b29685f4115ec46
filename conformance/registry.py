"""Targets by name: `impl[:threads|cuda]`, `reference`, `sglang:VERSION[:python|rust]`, and any worker process."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable

from .errors import TargetUnavailable, UnknownTarget
from .targets.base import Target
from .targets.reference import ReferenceTarget
from .targets.worker import WorkerTarget

KNOWN = (
    "impl",
    "impl:threads",
    "impl:cuda",
    "reference",
    "worker:impl",
    "worker:reference",
    "worker:COMMAND",
    "sglang:VERSION[:python|rust]",
)
"""Names as `open_target` takes them. `impl:cpu` is `impl`; `worker:` runs the same target out of process, or yours:
any command that speaks the worker protocol on its standard input and output."""


def open_target(target: str | Target | Callable[[], Target]) -> Target:
    """A target by name, from a factory, or as it is. It is not configured yet.

    Raises:
        UnknownTarget: there is none of that name.
        TargetUnavailable: it cannot run here.
    """
    if callable(target):
        return target()
    if not isinstance(target, str):
        return target
    kind, _, rest = target.partition(":")
    if kind == "reference" and not rest:
        return ReferenceTarget()
    if kind == "impl":
        return _impl(target, rest or "cpu")
    if kind == "worker" and rest in ("impl", "reference"):
        return WorkerTarget([sys.executable, "-m", "pinproof.conformance.targets.worker_main", rest], target)
    if kind == "worker" and rest:
        return WorkerTarget(shlex.split(rest), target)
    if kind == "sglang" and rest:
        return _sglang(target, rest)
    raise UnknownTarget(target, KNOWN)


def _impl(name: str, engine: str) -> Target:
    from .targets.impl import ImplTarget

    if engine == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise TargetUnavailable(f"{name}: there is no CUDA device here")
    kinds = {"cpu": "stepped", "stepped": "stepped", "threads": "threads", "cuda": "cuda"}
    if engine not in kinds:
        raise UnknownTarget(name, KNOWN)
    return ImplTarget(kinds[engine])


def _sglang(name: str, rest: str) -> Target:
    try:
        from .sglang import environment
    except ImportError as error:
        raise TargetUnavailable(f"{name}: {error}") from None
    version, _, core = rest.partition(":")
    try:
        command = environment.find(version).command(core or "python")
    except environment.UnknownRelease as error:
        raise UnknownTarget(name, [f"sglang:{v}" for v in environment.RELEASES], str(error)) from None
    except environment.EnvironmentProblem as error:
        raise TargetUnavailable(f"{name}: {error}") from None
    return WorkerTarget(command, name)
