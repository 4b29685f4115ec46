"""Metrics for Prometheus: a collector that reads a cache when it is scraped. Needs the extra `metrics`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .cache import TieredCache
from .config import FULL, NAMES
from .meter import Meter
from .node import Operation
from .transfers.base import DIRECTIONS, Direction


class CacheMetrics(Collector):
    """Counts what a cache does from now on; `registry.register(CacheMetrics(cache))` publishes it.

    Scrape from the cache's own thread, or between its operations: gauges are read from its state, at a cost that grows
    with the operations under way and not with the tree.
    """

    def __init__(self, cache: TieredCache) -> None:
        self._core = cache.core
        self._meter = self._core.meter = self._core.meter or Meter()

    def describe(self) -> Iterable[Metric]:
        """Registering asks nothing of the cache."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Every metric."""
        yield from self._counters()
        yield from self._gauges()

    def _counters(self) -> Iterator[Metric]:
        meter, stats = self._meter, self._core.stats
        tokens = dict(meter.tokens) | {"storage": meter.from_storage}
        yield _counted(
            "pinproof_match_tokens", "Tokens of requests by the tier that had them; storage: read", "tier", tokens
        )
        yield _counted("pinproof_transfers", "Transfers that have ended", "direction", _all(meter.transfers))
        yield _counted("pinproof_transfers_failed", "Transfers that failed", "direction", _all(meter.failed))
        yield _counted("pinproof_transfer_bytes", "Bytes copied", "direction", _all(meter.bytes))
        yield _counted("pinproof_transfer_seconds", "Submission to notice", "direction", _all(meter.seconds))
        dropped = CounterMetricFamily("pinproof_dropped_tokens", "Tokens that left the device without a copy anywhere")
        dropped.add_metric([], meter.dropped)
        yield dropped
        declined = CounterMetricFamily("pinproof_backups_declined", "Backups that host memory had no room for")
        declined.add_metric([], stats.backups_declined)
        yield declined
        yield _counted("pinproof_storage_errors", "What storage could not do", "error", dict(stats.storage_errors))

    def _gauges(self) -> Iterator[Metric]:
        core, meter = self._core, self._meter
        speed = GaugeMetricFamily(
            "pinproof_transfer_gigabytes_per_second", "Bytes by seconds of transfers up to now", labels=["direction"]
        )
        for direction, seconds in meter.seconds.items():
            if seconds:
                speed.add_metric([direction], meter.bytes[direction] / seconds / 1e9)
        yield speed
        flying = GaugeMetricFamily("pinproof_transfers_in_flight", "Transfers under way", labels=["direction"])
        for direction in DIRECTIONS:
            flying.add_metric([direction], len(core.in_flight[direction]))
        yield flying
        locks: Counter[str] = Counter(device=0, host=0)
        pins = 0
        for holder in list(core.holders.values()):
            locks["device"] += holder.path is not None
            for seat, node in holder.locks.items():
                locks["device" if seat in node.device else "host"] += 1
            if isinstance(holder, Operation) and holder.kind == "load_back" and core.write_back:
                pins += sum(seat is node.device[FULL] for seat, node in holder.moving.items())
        held = GaugeMetricFamily("pinproof_locks_held", "Locked copies; a locked path counts as one", labels=["tier"])
        for tier, count in locks.items():
            held.add_metric([tier], count)
        yield held
        pinned = GaugeMetricFamily("pinproof_pins_held", "Nodes that a load-back has pinned")
        pinned.add_metric([], pins)
        yield pinned
        slots = GaugeMetricFamily("pinproof_pages", "Pages of each pool", labels=["tier", "component", "state"])
        for pool in core.pools.all():
            name = NAMES[pool.component]
            slots.add_metric([pool.tier, name, "free"], pool.slots.available)
            slots.add_metric([pool.tier, name, "used"], pool.slots.size - pool.slots.available)
        yield slots


def _all(counts: Mapping[Direction, float]) -> dict[str, float]:
    """Every direction, also one in which nothing has been copied."""
    return {direction: counts.get(direction, 0) for direction in DIRECTIONS}


def _counted(name: str, words: str, label: str, counts: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(name, words, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family
