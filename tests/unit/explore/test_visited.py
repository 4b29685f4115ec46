from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pinproof.proofs.arrays import arrays, signed
from pinproof.proofs.spill import Disk
from pinproof.proofs.visited import Visited, hashed

CPU = arrays("cpu")


@pytest.fixture
def disk(tmp_path):
    return Disk(tmp_path)


def visited(disk, *, exact=False, limit=1 << 30, xp=CPU):
    return Visited(xp, disk, exact=exact, limit=limit)


def added(known, keys, checks=None):
    """The indices that were new, flags of those that are on disk already left out."""
    keys = np.array(keys, np.int64)
    checks = None if known.exact else np.array(keys * 3 if checks is None else checks, np.int64)
    found = []
    for new in known.add(known.xp.put(keys), None if checks is None else known.xp.put(checks)):
        index = known.xp.get(new)
        old = known.older(
            known.xp.put(keys[index]), None if checks is None else known.xp.put(checks[index]), len(known.runs)
        )
        found += index[~known.xp.get(old)].tolist()
    return sorted(found)


@given(st.lists(st.lists(st.integers(1, 60), max_size=80), max_size=6))
def test_like_a_set(batches):
    known, expected = visited(Disk()), set()
    for batch in batches:
        new = added(known, batch)
        assert len({batch[i] for i in new}) == len(new)
        assert {batch[i] for i in new} == set(batch) - expected
        expected |= set(batch)
    assert len(known) == len(expected)


@pytest.mark.parametrize("device", ["cpu", "torch-cpu"])
def test_it_grows(disk, device):
    known = visited(disk, xp=arrays(device))
    keys = np.arange(1, 50_001) * signed(0x9E3779B97F4A7C15)
    assert len(added(known, keys)) == 50_000
    assert added(known, keys[::-1]) == []
    assert not known.runs


def test_it_moves_to_disk(disk, monkeypatch):
    monkeypatch.setattr("pinproof.proofs.visited.BATCH", 1 << 8)
    known = visited(disk, limit=1 << 14)
    keys = np.arange(1, 5001) * signed(0x9E3779B97F4A7C15)
    assert len(added(known, keys)) == 5000
    assert len(known.runs) > 2
    assert added(known, keys) == []
    assert added(known, [*keys[:10], 12345]) == [10]


def test_the_second_hash_tells_states_apart(disk, monkeypatch):
    known = visited(disk)
    assert added(known, [7, 7, 7], [1, 2, 1]) in ([0, 1], [1, 2])
    assert added(known, [7, 7, 7], [1, 2, 3]) == [2]
    monkeypatch.setattr(known, "limit", 0)
    known._write_run()
    assert added(known, [7, 7, 7, 7], [1, 2, 3, 4]) == [3]


def test_one_word_is_hashed_without_collisions():
    words = np.arange(1 << 16)
    keys = hashed([words], 0, 0)
    assert len(np.unique(keys)) == len(words)
    assert (keys != 0).all()
    assert hashed([np.array([-1])], 0, 0) == 0


def test_hashes_depend_on_every_word_and_the_seed():
    a, b = np.array([1, 2]), np.array([2, 1])
    assert len({*hashed([a, b], 5, 0).tolist(), *hashed([a, b], 6, 0).tolist(), *hashed([a, b], 5, 1).tolist()}) == 6
