from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pinproof.proofs.arrays import arrays, signed
from pinproof.proofs.planes import SMALL, Planes, transposed


@pytest.fixture(params=["cpu", "torch-cpu"])
def xp(request):
    return arrays(request.param)


def words(n, seed=0):
    return np.random.default_rng(seed).integers(-(2**63), 2**63, n)


def test_transposed(xp):
    given_words = words(192)
    found = xp.get(transposed(xp, xp.put(given_words)))
    for state in (0, 1, 63, 64, 130, 191):
        for bit in range(64):
            assert int(found[bit, state // 64]) >> state % 64 & 1 == int(given_words[state]) >> bit & 1


@pytest.mark.parametrize("n", [1, 63, 64, 65, 1000, SMALL + 1])
def test_indices_and_counts(xp, n):
    columns = xp.put(np.stack([words(n), words(n, 1)]))
    planes = Planes(xp, columns, [[3], [0, 63]])
    for bit, word, place in ((3, 0, 3), (64, 1, 0), (127, 1, 63)):
        expected = [i for i, w in enumerate(xp.get(columns)[word].tolist()) if w >> place & 1]
        index = planes.indices(planes.planes[bit])
        assert ([] if index is None else xp.get(index).tolist()) == expected
        assert planes.count(planes.planes[bit]) == len(expected)
        assert planes.holds(planes.planes[bit]) == bool(expected)
    assert planes.indices(planes.planes[3] & ~planes.planes[3]) is None
    chosen = xp.put(np.array([0, n // 2, n - 1]))
    (values,) = planes.bits([planes.planes[127]], chosen)
    assert xp.get(values).tolist() == [int(w < 0) for w in xp.get(columns)[1][[0, n // 2, n - 1]]]


def test_popcount_looks_at_the_first_bits_only(xp):
    assert xp.popcount(xp.put(np.array([-1, -1])), 70) == 70
    assert xp.popcount(xp.put(np.array([-1, -1])), 128) == 128


@given(st.integers(0, 2**64 - 1))
def test_signed_keeps_the_bits(word):
    assert signed(word) % 2**64 == word
    assert -(2**63) <= signed(word) < 2**63
