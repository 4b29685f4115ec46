"""The language of the protocol says no early, and freezes regions when they are formed."""

from __future__ import annotations

import pytest
from pinproof.model.algebra import HOLDER, NODE, Guard, Var, ancestor, same
from pinproof.model.transaction import Transaction
from pinproof.model.vocabulary import FULL, device, device_lock, host, tracked_duplicate

n, h = Var("n", NODE), Var("h", HOLDER)


def test_a_formula_is_not_a_truth_value() -> None:
    with pytest.raises(TypeError, match=r"use & \| ~"):
        bool(device[FULL](n))


def test_relations_check_the_sorts_of_their_arguments() -> None:
    with pytest.raises(TypeError, match=r"device_lock.full takes \(node, holder\), got \(node, node\)"):
        device_lock[FULL](n, n)
    with pytest.raises(TypeError, match="cannot be the same"):
        same(n, h)


def test_double_negation_cancels() -> None:
    assert ~~device[FULL](n) == device[FULL](n)


def test_a_region_keeps_the_members_it_had_when_it_was_formed() -> None:
    t = Transaction((FULL,))
    both = t.path(n).where(lambda m: device[FULL](m) & host[FULL](m))
    t.set(tracked_duplicate, t.path(n), False)
    t.set(tracked_duplicate, both, True)
    kinds = [type(step).__name__ for step in t.steps()]
    assert kinds == ["Freeze", "Freeze", "Freeze", "Assign", "Assign"], "no region is formed after the first change"


def test_regions_that_nothing_uses_leave_no_step() -> None:
    t = Transaction((FULL,))
    t.path(n).where(device[FULL])
    assert t.steps() == ()


def test_an_action_decides_before_it_acts() -> None:
    t = Transaction((FULL,))
    t.set(tracked_duplicate, t.one(n), True)
    with pytest.raises(TypeError, match="decides before it acts"):
        t.expect(ancestor(n, n), "too late")


def test_guard_names_are_unique_within_an_action() -> None:
    t = Transaction((FULL,))
    t.free(host[FULL], t.one(n))
    t.free(host[FULL], t.one(n))
    names = [s.name for s in t.steps() if isinstance(s, Guard)]
    assert names == ["unused host.full", "unused host.full (2)"]
