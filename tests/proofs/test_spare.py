"""Which steps no obligation needs: found one by one, and pinned for a few actions."""

from __future__ import annotations

import pytest
from pinproof.proofs.spare import spare_parts


@pytest.mark.parametrize(
    ("action", "spare"),
    [
        ("reclaim_duplicate", ["FULL is on both tiers", "not pinned", "the node is tracked as a duplicate"]),
        ("end_prefetch", []),
        ("ack_storage_backup", ["takes stored"]),
    ],
)
def test_spare_parts(action: str, spare: list[str]) -> None:
    assert [p.step for p in spare_parts("write_back", ("full",), [action], jobs=1)] == spare
