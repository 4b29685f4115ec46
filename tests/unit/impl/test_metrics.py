"""What a scrape says is what has happened, and what is under way."""

from __future__ import annotations

from pinproof.impl import TieredCache
from pinproof.impl.metrics import CacheMetrics
from prometheus_client import CollectorRegistry, generate_latest


def measured(**choices: object) -> tuple[TieredCache, CollectorRegistry]:
    cache = TieredCache(page_size=2, layers=2, layer_bytes=16, **choices)
    registry = CollectorRegistry()
    registry.register(CacheMetrics(cache))
    return cache, registry


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"pinproof_{name}", labels)


def test_hits_by_tier() -> None:
    cache, registry = measured(storage=True, storage_writes="asked")
    cache.match([1, 2, 3, 4])
    node = cache.insert([1, 2, 3, 4])
    cache.match([1, 2, 3, 4])
    cache.evict("full", 2)
    cache.match([1, 2, 3, 4, 5, 6])
    cache.wait(cache.storage_backup(node))
    cache.reset()
    prefetch = cache.prefetch([1, 2, 3, 4])
    cache.wait(prefetch)
    cache.finish_prefetch(prefetch)
    found = {tier: value(registry, "match_tokens_total", tier=tier) for tier in ("device", "host", "none", "storage")}
    assert found == {"device": 4, "host": 4, "none": 6, "storage": 4}


def test_copies_in_bytes_and_seconds() -> None:
    cache, registry = measured()
    node = cache.insert([1, 2, 3, 4])
    cache.evict("full", 2)
    cache.wait(cache.load_back(node))
    cache.fail("backup")
    cache.wait(cache.backup(cache.insert([7, 8])))
    for direction, ended, failed in (("backup", 2, 1), ("load_back", 1, 0), ("prefetch", 0, 0)):
        assert value(registry, "transfers_total", direction=direction) == ended
        assert value(registry, "transfers_failed_total", direction=direction) == failed
        copied = value(registry, "transfer_bytes_total", direction=direction)
        seconds = value(registry, "transfer_seconds_total", direction=direction)
        speed = value(registry, "transfer_gigabytes_per_second", direction=direction)
        assert copied == 2 * 2 * 16 * (ended - failed)
        assert seconds is not None
        assert speed == (copied / seconds / 1e9 if ended else None)


def test_what_is_held_and_under_way() -> None:
    cache, registry = measured(components=("full", "mamba"))
    node = cache.insert([1, 2, 3, 4])
    cache.evict("full", 2)
    request = cache.begin_load_back(node)
    cache.commit_load_back(request)
    names = ("pins_held", "transfers_in_flight", "locks_held")
    assert value(registry, names[0]) == 1
    assert value(registry, names[1], direction="load_back") == 1
    assert value(registry, names[1], direction="backup") == 0
    assert (value(registry, names[2], tier="device"), value(registry, names[2], tier="host")) == (2, 2)
    assert value(registry, "pages", tier="device", component="full", state="used") == 2
    cache.wait(request)
    assert value(registry, names[0]) == 0
    assert (value(registry, names[2], tier="device"), value(registry, names[2], tier="host")) == (0, 0)


def test_tokens_dropped_without_a_copy() -> None:
    cache, registry = measured()
    cache.insert([1, 2, 3, 4])
    cache.fail("host_memory")
    cache.evict("full", 2)
    assert value(registry, "dropped_tokens_total") == 4
    cache.insert([1, 2, 3, 4])
    cache.evict("full", 2)
    assert value(registry, "dropped_tokens_total") == 4


def test_every_metric_is_published_before_anything_happens() -> None:
    _, registry = measured()
    text = generate_latest(registry).decode()
    families = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert families == {
        "pinproof_match_tokens_total", "pinproof_transfers_total", "pinproof_transfers_failed_total",
        "pinproof_transfer_bytes_total", "pinproof_transfer_seconds_total", "pinproof_dropped_tokens_total",
        "pinproof_backups_declined_total", "pinproof_storage_errors_total", "pinproof_transfer_gigabytes_per_second",
        "pinproof_transfers_in_flight", "pinproof_locks_held", "pinproof_pins_held", "pinproof_pages",
    }  # fmt: skip


def test_ordinary_caches_count_nothing() -> None:
    cache = TieredCache()
    cache.match([1])
    assert cache.core.meter is None
