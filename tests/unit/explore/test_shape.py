from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pinproof.model.instance import instance
from pinproof.proofs.arrays import arrays
from pinproof.proofs.layout import Layout
from pinproof.proofs.program import AT_ROOT
from pinproof.proofs.shape import Shape, canonical, namings, root_only
from pinproof.proofs.symmetry import Canon, orbit_sizes, rename_holders, rename_nodes


def trees(nodes):
    """Every tree over some of the nodes."""
    found, level = {root_only(nodes)}, [root_only(nodes)]
    while level:
        level = [
            grown
            for shape in level
            for leaf, parent in product(range(1, nodes + 1), shape.nodes)
            if shape.is_live(parent) and not shape.is_live(leaf)
            for grown in [shape.grown(leaf, parent).with_live(leaf, True)]
            if grown not in found
        ]
        found.update(level)
    return found


@pytest.mark.parametrize(("nodes", "labelled", "unlabelled"), [(1, 2, 2), (2, 6, 4), (3, 29, 8), (4, 212, 17)])
def test_as_many_trees_as_cayley_says(nodes, labelled, unlabelled):
    found = trees(nodes)
    assert len(found) == labelled
    assert len({canonical(shape)[0] for shape in found}) == unlabelled
    assert all(shape.is_tree() for shape in found)


def test_canonical_names_lead_there():
    for shape in trees(3):
        representative, names = canonical(shape)
        assert shape.renamed(names) == representative
        assert canonical(representative)[0] == representative
        assert {canonical(shape.renamed(n))[0] for n in namings(3)} == {representative}


def test_a_cut_goes_between_a_node_and_its_parent():
    shape = root_only(3).grown(1, 0).with_live(1, True).grown(2, 1).with_live(2, True)
    cut = shape.cut(2, 3).with_live(3, True)
    assert [cut.parent(n) for n in (1, 2, 3)] == [0, 3, 1]
    assert cut.is_tree()


def test_pruned_nodes_leave_no_relatives():
    shape = root_only(2).grown(1, 0).with_live(1, True).grown(2, 1).with_live(2, True)
    orphaned = shape.with_live(1, False).pruned(1 << 1)
    assert orphaned.parent(2) == 0
    assert not orphaned.above(1, 2)


def test_what_is_no_tree_has_a_representative_too():
    shape = Shape(0b111, (1, 2, 4))
    assert not shape.is_tree()
    assert {canonical(shape.renamed(n))[0] for n in namings(2)} == {shape}


CPU = arrays("cpu")
TEXT = instance("write_back", ("full", "swa"))
LAYOUT = Layout(TEXT.relations, list(TEXT.actions.values()), 3, 3, AT_ROOT)
SHAPES = sorted({canonical(shape)[0] for shape in trees(3)})


def random_state(shape, seed):
    """Words in which dead nodes are blank."""
    rng = np.random.default_rng(seed)
    columns = [np.zeros(1, np.int64) for _ in LAYOUT.words]
    blank = {w for n in (1, 2, 3) if not shape.is_live(n) for w in LAYOUT.block(n)}
    for bit in LAYOUT.atoms:
        if bit // 64 not in blank and rng.random() < 0.3:
            columns[bit // 64] |= np.int64(1) << np.int64(bit % 64)
    return columns


@given(st.sampled_from(SHAPES), st.integers(0, 999), st.permutations([1, 2, 3]), st.permutations([0, 1, 2]))
def test_every_naming_has_the_same_representative(shape, seed, nodes, holders):
    columns, names = random_state(shape, seed), (0, *nodes)
    renamed = [rename_holders(LAYOUT, w, c, tuple(holders)) for w, c in enumerate(rename_nodes(LAYOUT, columns, names))]
    back, undo = canonical(shape.renamed(names))
    assert back == shape
    canon = Canon(LAYOUT, shape)
    assert canon(CPU, rename_nodes(LAYOUT, renamed, undo)) == canon(CPU, columns)


@given(st.sampled_from(SHAPES), st.integers(0, 999))
def test_orbits_divide_the_group(shape, seed):
    size = int(orbit_sizes(CPU, LAYOUT, shape, random_state(shape, seed))[0])
    assert 36 % size == 0


def test_layout_gives_every_atom_its_place():
    assert len(set(LAYOUT.place.values())) == len(LAYOUT.place) == LAYOUT.bits
    assert all(LAYOUT.atoms[bit] == atom for atom, bit in LAYOUT.place.items())
    assert "write_through_pending" not in {name for name, _ in LAYOUT.place}
    assert not any(name == "live" for name, _ in LAYOUT.place)
