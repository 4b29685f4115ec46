"""What is done about a broken rule, and where records go. Standard library only; `prometheus_client` where it is there.

Three modes: ``observe`` logs it, ``count`` counts it, ``raise`` raises `ShadowViolation` at the faulty call.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import IO, Any

from .slots import Breach

MODES = ("observe", "count", "raise")
FORMAT = "pinproof-shadow/1"
"""What the header of a trace of calls says."""

METRIC = "pinproof_shadow_violations"
log = logging.getLogger("pinproof.shadow")
_files = count()


class BadSettings(ValueError):
    """A setting of the shadow is not one; names the variable."""


class ShadowViolation(AssertionError):
    """A call broke an ownership rule.

    Attributes:
        record: what was told of the call.
        breaches: the rules, each with the id of its property.
        result: what the core gave back, None if the call was stopped before it; drain it if you go on.
    """

    def __init__(self, record: Mapping[str, Any], breaches: Sequence[Breach], result: Any = None) -> None:
        more = f" (and {len(breaches) - 1} more)" if len(breaches) > 1 else ""
        super().__init__(f"call {record['seq']} {record['call']}: {breaches[0].words} [{breaches[0].property}]{more}")
        self.record, self.breaches, self.result = record, tuple(breaches), result


@dataclass(frozen=True)
class Settings:
    """How a shadow behaves; each can be given as an environment variable.

    Attributes:
        mode: `PINPROOF_SHADOW`: ``observe`` (default), ``count`` or ``raise``.
        trace: `PINPROOF_SHADOW_TRACE`: file to record calls to; ``{pid}`` and ``{n}`` stand for the process and a
            number for each core in it. Nothing is recorded without.
        metrics: `PINPROOF_SHADOW_METRICS`: file for the counts in Prometheus' text format, same placeholders. Without
            it, counts go to `prometheus_client`'s registry where that is installed.
        read_gpu: `PINPROOF_SHADOW_READ_GPU=1`: also follow slots whose numbers lie in GPU memory. Each call that
            has some then waits for the GPU.
        flush: `PINPROOF_SHADOW_FLUSH`: calls between two flushes of the trace.
    """

    mode: str = "observe"
    trace: str = ""
    metrics: str = ""
    read_gpu: bool = False
    flush: int = 64

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise BadSettings(f"PINPROOF_SHADOW is {self.mode!r}, not {', '.join(MODES[:-1])} or {MODES[-1]}")
        if self.flush < 1:
            raise BadSettings(f"PINPROOF_SHADOW_FLUSH is {self.flush}, and must be at least 1")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Read the variables; raises `BadSettings`."""
        given = os.environ if environment is None else environment
        flush = given.get("PINPROOF_SHADOW_FLUSH", "64")
        if not flush.isdigit():
            raise BadSettings(f"PINPROOF_SHADOW_FLUSH is {flush!r}, not a number")
        gpu = given.get("PINPROOF_SHADOW_READ_GPU", "0")
        if gpu not in ("0", "1"):
            raise BadSettings(f"PINPROOF_SHADOW_READ_GPU is {gpu!r}, not 0 or 1")
        return cls(
            given.get("PINPROOF_SHADOW", "observe"), given.get("PINPROOF_SHADOW_TRACE", ""),
            given.get("PINPROOF_SHADOW_METRICS", ""), gpu == "1", int(flush),
        )  # fmt: skip


class Reporter:
    """Takes what a core's shadow finds and tells; one for each core."""

    def __init__(self, settings: Settings, header: Mapping[str, Any]) -> None:
        self.settings = settings
        self.counts: Counter[tuple[str, str]] = Counter()
        """How often which property was broken by which call."""
        number = next(_files)
        self._file: IO[str] | None = None
        if settings.trace:
            self._file = _opened("PINPROOF_SHADOW_TRACE", _placed(settings.trace, number))
            self._write({"trace": FORMAT, **header})
        self._unflushed = 0
        self._metrics = Path(_placed(settings.metrics, number)) if settings.metrics else None
        if self._metrics is not None:
            self._export()
        self._client = _client_counter() if settings.mode == "count" and self._metrics is None else None
        atexit.register(self.close)

    @property
    def records(self) -> bool:
        """Whether calls are recorded."""
        return self._file is not None

    def record(self, row: Mapping[str, Any]) -> None:
        """Write one call."""
        if self._file is None:
            return
        self._write(_compact(row))
        self._unflushed += 1
        if self._unflushed >= self.settings.flush or "breaches" in row:
            self._file.flush()
            self._unflushed = 0

    def found(self, row: Mapping[str, Any], breaches: Sequence[Breach]) -> None:
        """Log or count what a call broke; the caller raises."""
        for breach in breaches:
            key = (breach.property, row["call"])
            self.counts[key] += 1
            seen = self.counts[key]
            if self._client is not None:
                self._client.labels(property=breach.property, call=row["call"]).inc()
            # The first, second, fourth, eighth … of a kind: a server in trouble must not drown in its log.
            if self.settings.mode == "observe" and not seen & (seen - 1):
                log.error(
                    "call %d %s: %s [%s, %d so far]", row["seq"], row["call"], breach.words, breach.property, seen
                )
        if self._metrics is not None:
            self._export()

    def exposition(self) -> str:
        """The counts in Prometheus' text format."""
        lines = [
            f"# HELP {METRIC}_total Calls of the tree core that broke an ownership rule.",
            f"# TYPE {METRIC}_total counter",
        ]
        for (broken, call), seen in sorted(self.counts.items()):
            lines.append(f'{METRIC}_total{{property="{broken}",call="{call}"}} {seen}')
        return "\n".join(lines) + "\n"

    def close(self) -> None:
        """Write out what is left."""
        if self._file is not None:
            self._file.close()
            self._file = None
        atexit.unregister(self.close)

    def _write(self, row: Mapping[str, Any]) -> None:
        assert self._file is not None
        self._file.write(json.dumps(row, separators=(",", ":")) + "\n")

    def _export(self) -> None:
        # Renamed into place: a collector never reads half a file.
        assert self._metrics is not None
        half = self._metrics.with_name(self._metrics.name + ".part")
        try:
            half.write_text(self.exposition())
            half.replace(self._metrics)
        except OSError as error:
            raise BadSettings(f"PINPROOF_SHADOW_METRICS: {error}") from None


def _placed(template: str, number: int) -> str:
    return template.replace("{pid}", str(os.getpid())).replace("{n}", str(number))


def _opened(variable: str, name: str) -> IO[str]:
    try:
        return open(name, "w", encoding="utf-8", buffering=1 << 16)  # closed by `close`
    except OSError as error:
        raise BadSettings(f"{variable}: {error}") from None


def _client_counter() -> Any:
    """The counter in `prometheus_client`'s registry, the same for all cores of a process; None without the package."""
    try:
        import prometheus_client  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    if not isinstance(prometheus_client.Counter, type) or not hasattr(prometheus_client, "REGISTRY"):
        return None
    global _counter
    if _counter is None:
        words = "Calls of the tree core that broke an ownership rule."
        _counter = prometheus_client.Counter(METRIC, words, ["property", "call"])
    return _counter


_counter: Any = None


def _compact(row: Mapping[str, Any]) -> dict[str, Any]:
    """The record as it is written: units as runs ``[first, count]``."""
    out = dict(row)
    for field in ("gives", "frees", "reads", "writes"):
        if field in out:
            out[field] = [[tier, name, runs(units)] for tier, name, units in out[field]]
    if "rebuilds" in out:
        out["rebuilds"] = [[node, runs(full)] for node, full in out["rebuilds"]]
    if "pairs" in out:
        out["pairs"] = [[runs(full), runs(swa)] for full, swa in out["pairs"]]
    return out


def runs(units: Sequence[int] | None) -> list[list[int]] | None:
    """Units as runs of neighbours, ``[first, count]``, in their order."""
    if units is None:
        return None
    found: list[list[int]] = []
    for unit in units:
        if found and unit == found[-1][0] + found[-1][1]:
            found[-1][1] += 1
        else:
            found.append([unit, 1])
    return found


def expanded(told: Sequence[Sequence[int]] | None) -> list[int] | None:
    """The units of runs."""
    return None if told is None else [first + i for first, length in told for i in range(length)]
