from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pinproof.proofs.bits import FALSE, TRUE, Bits

NAMES = 5
trees = st.recursive(
    st.integers(0, NAMES - 1) | st.booleans(),
    lambda parts: st.tuples(st.sampled_from(["and", "or", "not"]), parts, parts),
    max_leaves=30,
)


def built(bits, tree):
    match tree:
        case bool():
            return TRUE if tree else FALSE
        case int():
            return bits.var(tree)
        case ("not", a, _):
            return built(bits, a) ^ 1
        case ("and", a, b):
            return bits.both(built(bits, a), built(bits, b))
        case ("or", a, b):
            return bits.either(built(bits, a), built(bits, b))


def truth(tree, values):
    match tree:
        case bool():
            return tree
        case int():
            return values[tree]
        case ("not", a, _):
            return not truth(a, values)
        case ("and", a, b):
            return truth(a, values) and truth(b, values)
        case ("or", a, b):
            return truth(a, values) or truth(b, values)


def worlds():
    return [{i: bool(w >> i & 1) for i in range(NAMES)} for w in range(1 << NAMES)]


@given(st.lists(trees, min_size=1, max_size=3))
def test_functions_compute_what_the_expressions_say(expressions):
    bits = Bits()
    literals = [built(bits, t) for t in expressions]
    planes = {i: sum(world[i] << w for w, world in enumerate(worlds())) for i in range(NAMES)}
    one = (1 << (1 << NAMES)) - 1
    found = bits.function("f", literals)(planes, one)
    for tree, literal, plane in zip(expressions, literals, found, strict=True):
        for w, world in enumerate(worlds()):
            assert bool(plane >> w & 1) == truth(tree, world) == bits.value(literal, world)


@given(trees)
def test_implied_bits_hold_wherever_the_expression_does(tree):
    bits = Bits()
    implied = bits.implied(built(bits, tree))
    for world in worlds():
        if truth(tree, world):
            assert all(world[bit] == value for bit, value in implied.items())


def test_constants_fold():
    bits = Bits()
    a, b = bits.var(0), bits.var(1)
    assert bits.both(a, a ^ 1) == FALSE
    assert bits.either(a, a ^ 1) == TRUE
    assert bits.both(a, bits.both(b, a)) == bits.both(a, b)
    assert bits.both(a, bits.either(a, b)) == a
    assert bits.both(a, bits.both(a, b) ^ 1) == bits.both(a, b ^ 1)
    assert bits.all([]) == TRUE
    assert bits.any([]) == FALSE


def test_a_bit_is_found_again():
    bits = Bits()
    assert bits.bit_of(bits.var(7)) == bits.bit_of(bits.var(7) ^ 1) == 7
    assert bits.bit_of(bits.both(bits.var(7), bits.var(8))) is None
    assert bits.bit_of(TRUE) is None
