"""A search that may use less, or is interrupted, finds the same."""

from __future__ import annotations

import errno
import json
import tempfile

import pytest
from pinproof.model.errors import BadArgument, UnknownName
from pinproof.proofs import spill
from pinproof.proofs.checkpoint import CheckpointMismatch
from pinproof.proofs.explore import explore, explore_system
from pinproof.proofs.spill import DiskFull
from pinproof.proofs.twophase import STATES, two_phase_commit

ARGS = ("write_back", ("full",), 2, 2)


@pytest.fixture(scope="module")
def whole():
    return explore(*ARGS)


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Where temporary folders go."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def same(a, b):
    return (a.states, a.transitions, a.depth, a.coverage) == (b.states, b.transitions, b.depth, b.coverage)


def test_what_does_not_fit_goes_to_disk_and_is_cleaned_up(temporary, monkeypatch, whole):
    written = []
    write = spill.Disk.write
    monkeypatch.setattr(spill.Disk, "write", lambda self, *args: written.append(1) or write(self, *args))
    assert same(explore(*ARGS, memory=1 << 17), whole)
    assert written
    assert list(temporary.iterdir()) == []


def test_known_states_on_disk(temporary, monkeypatch):
    monkeypatch.setattr("pinproof.proofs.visited.BATCH", 1 << 9)
    found = explore_system(two_phase_commit(), 0, 5, symmetry=False, memory=1 << 16)
    assert found.states == STATES[5]


def test_disk_full(temporary, monkeypatch):
    def full(self, file):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(spill, "_put", full, raising=True)
    with pytest.raises(DiskFull, match="no room in"):
        explore(*ARGS, memory=1 << 17)
    assert list(temporary.iterdir()) == []


def test_resumed_after_every_level(tmp_path, whole):
    folder = tmp_path / "checkpoint"
    for depth in (1, 2, 5, 9):
        assert explore(*ARGS, checkpoint=folder, depth=depth).stopped == "depth"
    resumed = explore(*ARGS, checkpoint=folder)
    assert same(resumed, whole)
    assert resumed.complete
    again = explore(*ARGS, checkpoint=folder)
    assert same(again, whole)


def test_interrupted_inside_a_level(tmp_path, whole):
    folder = tmp_path / "checkpoint"

    def interrupt(progress):
        if progress.depth == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        explore(*ARGS, checkpoint=folder, progress=interrupt)
    assert json.loads((folder / "manifest.json").read_text())["tally"]["depth"] == 8
    assert same(explore(*ARGS, checkpoint=folder), whole)


def test_a_violation_is_found_from_a_checkpoint_too(tmp_path, forget_guards):
    from pinproof.model.instance import instance

    text = forget_guards(instance("write_back", ("full",)), "reclaim_duplicate", "not pinned", "no full host lock")
    direct = explore("write_back", ("full",), 2, 1, instance=text)
    folder = tmp_path / "checkpoint"
    explore("write_back", ("full",), 2, 1, instance=text, checkpoint=folder, depth=3)
    assert explore("write_back", ("full",), 2, 1, instance=text, checkpoint=folder).violation == direct.violation


def test_a_checkpoint_of_another_search(tmp_path):
    folder = tmp_path / "checkpoint"
    explore(*ARGS, checkpoint=folder, depth=1)
    with pytest.raises(CheckpointMismatch, match="write_back/full with 2 nodes and 2 holders"):
        explore("write_back", ("full",), 2, 1, checkpoint=folder)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").touch()
    with pytest.raises(CheckpointMismatch, match="holds no search"):
        explore(*ARGS, checkpoint=other)


def test_budget():
    found = explore(*ARGS, budget=0)
    assert (found.complete, found.stopped, found.states) == (False, "budget", 1)


def test_depth():
    found = explore(*ARGS, depth=3)
    assert (found.complete, found.stopped, found.depth) == (False, "depth", 3)


@pytest.mark.parametrize(
    ("nodes", "holders", "more", "message"),
    [
        (0, 1, {}, "nodes must be at least 1"),
        (1, -1, {}, "holders must not be negative, got -1"),
        (1, 1, {"depth": -1}, "depth must not be negative"),
        (1, 1, {"budget": -0.5}, "budget must not be negative"),
        (1, 1, {"memory": -1}, "memory must not be negative"),
    ],
)
def test_bad_arguments(nodes, holders, more, message):
    with pytest.raises(BadArgument, match=message):
        explore("write_back", ("full",), nodes, holders, **more)


def test_unknown_names():
    with pytest.raises(UnknownName, match="policy 'write_bak'"):
        explore("write_bak", ("full",), 1, 1)
    with pytest.raises(UnknownName, match="component set"):
        explore("write_back", ("swa",), 1, 1)
    with pytest.raises(UnknownName, match="device"):
        explore("write_back", ("full",), 1, 1, device="abacus")


def test_no_holders_at_all():
    found = explore("write_back", ("full",), 1, 0)
    assert found.complete
    assert found.coverage["lock"].fired == 0
    assert found.coverage["insert_leaf"].fired
