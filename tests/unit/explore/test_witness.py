from __future__ import annotations

import pytest
from pinproof.model.algebra import HOLDER, NODE, ROOT, SomeHolder, SomeNode, Var, ancestor, everywhere, same
from pinproof.model.errors import UnknownName
from pinproof.model.instance import instance
from pinproof.model.vocabulary import busy, device, host_lock, live, load_back_pending
from pinproof.proofs.witness import WitnessSyntax, parse_witness

RELATIONS = instance("write_back", ("full", "swa")).relations
N, M, H = Var("n", NODE), Var("m", NODE), Var("h", HOLDER)


def parsed(text):
    return parse_witness(text, RELATIONS)


def node(var, body):
    return SomeNode(everywhere(), var, body)


def test_free_variables_are_existential():
    inner = load_back_pending(N, H) & host_lock["full"](N, H)
    assert parsed("load_back_pending(n, h) and host_lock.full(n, h)") == SomeHolder(H, node(N, inner))


def test_quantifiers():
    assert parsed("every n: live(n) implies device.full(n)") == ~node(N, ~(~live(N) | device["full"](N)))
    assert parsed("some n, m: above(n, m) and n != m") == node(N, node(M, ancestor(N, M) & ~same(N, M)))


def test_root_and_busy():
    assert parsed("n == root and live(n)") == node(N, same(N, ROOT) & live(N))
    assert parsed("not busy(h)") == SomeHolder(H, ~busy(H))


def test_sorts_go_through_equalities():
    assert parsed("n == m and live(m)") == node(M, node(N, same(N, M) & live(M)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("live(n) & ~device.full(n)", "live(n) and not device.full(n)"),
        ("live(n) | device.full(n) & device.swa(n)", "live(n) or (device.full(n) and device.swa(n))"),
        ("live(n) => device.full(n)", "not live(n) or device.full(n)"),
        ("live(n) implies live(m) implies live(n)", "live(n) implies (live(m) implies live(n))"),
        ("!live(n)", "not live(n)"),
    ],
)
def test_spellings_and_tightness(one, other):
    assert parsed(one) == parsed(other)


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("live(n", "'\\)' is missing", 6),
        ("live(n) and", "a name is missing", 11),
        ("live(n) live(m)", "unexpected 'live'", 8),
        ("live(n) # device", "unexpected '#'", 8),
        ("live", "must be followed by", 4),
        ("live(n, h)", "live takes \\(node\\)", 0),
        ("live(h) and request(h)", "h is a node and a holder", 12),
        ("a == b", "nothing says whether a", 0),
        ("", "a name is missing", 0),
        ("some : live(n)", "a name is missing", 5),
    ],
)
def test_what_cannot_be_read(text, message, position):
    with pytest.raises(WitnessSyntax, match=message) as caught:
        parsed(text)
    assert caught.value.position == position


def test_unknown_relation():
    with pytest.raises(UnknownName, match=r"load_back_pendin.*load_back_pending"):
        parsed("load_back_pendin(n, h)")
    with pytest.raises(UnknownName):
        parsed("device.mamba(n)")
