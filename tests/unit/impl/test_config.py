"""A configuration that cannot work is refused with the name of what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from pinproof.impl import BadConfig, CacheConfig, TieredCache


@pytest.mark.parametrize(
    ("choices", "argument"),
    [
        ({"policy": "write_around"}, "policy"),
        ({"components": ("swa",)}, "components"),
        ({"components": ("full", "mamba", "swa")}, "components"),
        ({"page_size": 0}, "page_size"),
        ({"device_pages": True}, "device_pages"),
        ({"swa_host_pages": -1}, "swa_host_pages"),
        ({"layer_bytes": 12}, "layer_bytes"),
        ({"layer_bytes": 0}, "layer_bytes"),
        ({"group": 3}, "group"),
        ({"engine": "fibres"}, "engine"),
        ({"engine": "cuda"}, "engine"),
        ({"eviction": "mru"}, "eviction"),
        ({"colour": "red"}, "config"),
    ],
)
def test_what_cannot_work_is_named(choices: dict[str, Any], argument: str) -> None:
    with pytest.raises(BadConfig) as caught:
        TieredCache(**choices)
    assert caught.value.argument == argument


def test_auxiliary_pools_are_as_large_as_full_unless_told() -> None:
    config = CacheConfig(components=("full", "swa"), device_pages=7, swa_host_pages=3)
    assert [config.pool_pages("device", 1), config.pool_pages("host", 1)] == [7, 3]
