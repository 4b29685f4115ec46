"""Tokens become bytes, or an error that names them."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pinproof.impl import BadTokens
from pinproof.impl.keys import common_pages, decode, encode


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ([1, 2.0], "not integers"),
        (["a", "b"], "not integers"),
        ([1, None], "not integers"),
        (7, "not integers"),
        ([1, 2**32], "outside 0 to"),
        ([-1, 1], "outside 0 to"),
        ([1, 2, 3], "do not fill pages of 2"),
        (b"12345", "do not fill pages of 2"),
    ],
)
def test_bad_tokens_are_named(tokens: object, words: str) -> None:
    with pytest.raises(BadTokens, match=words) as caught:
        encode(tokens, 2)  # type: ignore[arg-type]
    assert caught.value.argument == "tokens"


def test_a_key_is_its_own_key() -> None:
    key = encode([1, 2**32 - 1], 2)
    assert encode(key, 2) == encode(array("I", [1, 2**32 - 1]), 2) == key
    assert decode(key) == [1, 2**32 - 1]


@settings(max_examples=25, deadline=None)
@given(st.binary(max_size=90), st.binary(max_size=90), st.integers(1, 4), st.data())
def test_galloping_finds_what_counting_finds(one: bytes, other: bytes, stride: int, data: st.DataObject) -> None:
    shared = data.draw(st.binary(max_size=90))
    at = len(one) // stride * stride
    key, own = one[:at] + shared + one, shared + other
    own = own[: len(own) // stride * stride]
    wanted = 0
    while (wanted + 1) * stride <= min(len(own), len(key) - at) and key.startswith(own[: (wanted + 1) * stride], at):
        wanted += 1
    assert common_pages(key, at, own, stride) == wanted
