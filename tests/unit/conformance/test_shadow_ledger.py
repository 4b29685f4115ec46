"""Each rule of the shadow's ledger, broken and kept; and what a call costs it."""

from __future__ import annotations

import tomllib
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pinproof.conformance.shadow import ledger as rules
from pinproof.conformance.shadow import slots
from pinproof.conformance.shadow.ledger import PROPERTIES, Ledger

HOST, DEVICE = ["host", "full"], ["device", "full"]
CATALOGUE = Path(__file__).parents[3] / "specs" / "invariants.toml"


class Calls:
    """Feeds records to a ledger and keeps what it finds."""

    def __init__(self) -> None:
        self.ledger, self._seq = Ledger(), count()

    def __call__(self, call: str, **fields: Any) -> list[str]:
        record = {"seq": next(self._seq), "call": call, **fields}
        found = [*self.ledger.before(record), *self.ledger.after(record)]
        return [breach.property for breach in found]

    def backup(self, node: int, device: list[int], host: list[int]) -> list[str]:
        rows = [[*HOST, host]]
        return self("commit_backup", node=node, gives=rows, writes=rows, reads=[[*DEVICE, device]])

    def load_back(self, node: int, host: list[int], device: list[int]) -> list[str]:
        rows = [[*DEVICE, device]]
        return self("commit_load_back", node=node, gives=rows, writes=rows, reads=[[*HOST, host]])


@pytest.fixture
def calls() -> Calls:
    made = Calls()
    assert made("begin_insert", gives=[[*DEVICE, [1, 2, 3]]]) == []
    assert made("end_insert", done={"prefix": 0, "mamba_exist": True}) == []
    return made


def test_every_property_it_names_is_in_the_catalogue() -> None:
    known = {row["id"] for row in tomllib.loads(CATALOGUE.read_text())["invariant"]}
    assert known >= PROPERTIES
    assert len(PROPERTIES) == 17


def test_a_slot_is_freed_once(calls: Calls) -> None:
    assert calls("demote", node=1, frees=[[*DEVICE, [1, 2]]]) == []
    assert calls("demote", node=1, frees=[[*DEVICE, [2, 3]]]) == [slots.OWNED]


def test_what_was_never_seen_may_be_freed(calls: Calls) -> None:
    assert calls("demote", node=1, frees=[[*DEVICE, [77]]]) == []
    assert calls("demote", node=1, frees=[[*DEVICE, [77]]]) == [slots.OWNED]


def test_a_slot_is_given_once(calls: Calls) -> None:
    assert calls("begin_insert", gives=[[*DEVICE, [3, 4]]]) == [slots.OWNED]
    assert calls("demote", node=1, frees=[[*DEVICE, [1]]]) == []
    assert calls("begin_insert", gives=[[*DEVICE, [1]]]) == []


def test_a_state_that_an_insert_leaves_with_the_request_is_the_requests(calls: Calls) -> None:
    state = ["device", "mamba", [9]]
    for there, found in ((True, []), (False, []), (True, [slots.OWNED])):
        assert calls("begin_insert", gives=[state]) == found
        assert calls("end_insert", done={"prefix": 0, "mamba_exist": there}) == []


def test_a_tail_that_an_insert_declines_is_the_requests(calls: Calls) -> None:
    calls("begin_insert", gives=[[*DEVICE, [4, 5, 6]]])
    calls("resume_insert", done={"prefix": 1, "mamba_exist": True, "declined": True, "kept": 1})
    assert calls("begin_insert", gives=[[*DEVICE, [5, 6]]]) == []
    assert calls("begin_insert", gives=[[*DEVICE, [4]]]) == [slots.OWNED]


def test_a_load_backs_source_and_destination_stay(calls: Calls) -> None:
    calls("insert_host", node=0, gives=[[*HOST, [7, 8]]])
    assert calls.load_back(5, host=[7, 8], device=[4, 5]) == []
    assert calls("drive_host_eviction", frees=[[*HOST, [7]]]) == ["safety.load-back-source-stays"]
    assert calls("demote", node=5, frees=[[*DEVICE, [5]]]) == ["safety.load-back-destination-stays"]
    assert calls("finish_load_back", node=5) == []
    assert calls("drive_host_eviction", frees=[[*HOST, [8]]]) == []
    assert calls("demote", node=5, frees=[[*DEVICE, [4]]]) == []


def test_a_backups_source_and_destination_stay(calls: Calls) -> None:
    assert calls.backup(5, device=[1, 2], host=[7, 8]) == []
    assert calls("demote", node=5, frees=[[*DEVICE, [1]]]) == ["safety.backup-source-stays"]
    assert calls("drive_host_eviction", frees=[[*HOST, [7]]]) == ["safety.backup-destination-stays"]
    assert calls("finish_write_through", nodes=[5], ack=5) == []
    assert calls("demote", node=5, frees=[[*DEVICE, [2]]]) == []


def test_one_writer_a_copy(calls: Calls) -> None:
    calls.backup(5, device=[1], host=[7])
    assert calls.backup(6, device=[2], host=[7]) == ["safety.one-writer-per-host-copy", slots.OWNED]
    calls.load_back(5, host=[7], device=[4])
    assert "safety.one-writer-per-device-copy" in calls.load_back(6, host=[9], device=[4])


def test_a_copy_reads_what_is_there_and_has_arrived(calls: Calls) -> None:
    calls("demote", node=1, frees=[[*DEVICE, [1]]])
    assert calls.backup(5, device=[1], host=[7]) == ["safety.backup-source-stays"]
    assert calls.load_back(5, host=[7], device=[4]) == ["visibility.load-back-reads-arrived-bytes"]
    assert calls.backup(6, device=[4], host=[8]) == ["visibility.backup-reads-arrived-bytes"]
    assert calls("inc_host_lock_ref", node=6, reads=[[*HOST, [8]]]) == ["visibility.storage-reads-arrived-bytes"]
    calls("finish_write_through", nodes=[6], ack=6)
    assert calls("inc_host_lock_ref", node=6, reads=[[*HOST, [8]]]) == []


def test_what_storage_reads_stays_until_its_lock_goes(calls: Calls) -> None:
    calls("insert_host", node=0, gives=[[*HOST, [7, 8]]])
    assert calls("inc_host_lock_ref", node=5, reads=[[*HOST, [7, 8]]]) == []
    assert calls("drive_host_eviction", frees=[[*HOST, [7]]]) == ["safety.stored-source-stays"]
    assert calls("dec_host_lock_ref", node=5) == []
    assert calls("drive_host_eviction", frees=[[*HOST, [8]]]) == []


@pytest.mark.parametrize(("then", "found"), [("finish_load_back", ["safety.stored-source-stays"]), ("demote", [])])
def test_whose_host_lock_went_shows_in_the_next_call(calls: Calls, then: str, found: list[str]) -> None:
    calls("insert_host", node=0, gives=[[*HOST, [7, 8]]])
    calls("inc_host_lock_ref", node=5, reads=[[*HOST, [8]]])
    calls("inc_host_lock_ref", node=5)
    calls.load_back(5, host=[7], device=[4])
    calls("dec_host_lock_ref", node=5)
    assert calls(then, node=5) == []
    assert calls("drive_host_eviction", frees=[[*HOST, [8]]]) == found


def test_an_unlock_needs_a_lock(calls: Calls) -> None:
    calls("inc_lock_ref", node=3)
    assert calls.ledger.locks == 1
    assert calls("dec_lock_ref", node=3) == []
    assert calls("dec_lock_ref", node=3) == [rules.DEVICE_LOCKS]
    calls("inc_host_lock_ref", node=3)
    assert calls("dec_host_lock_ref", node=3) == []
    assert calls("dec_host_lock_ref", node=3) == [rules.HOST_LOCKS]
    calls("inc_full_pin", node=3)
    assert calls("dec_full_pin", node=3) == []
    assert calls("dec_full_pin", node=3) == [rules.DEVICE_LOCKS]


def test_a_window_is_given_back_once(calls: Calls) -> None:
    for _ in range(2):
        calls("inc_lock_ref", node=3)
    assert calls("dec_swa_lock_only", node=3) == []
    assert calls("dec_lock_ref", node=3, skip_swa=True) == []
    assert calls("dec_swa_lock_only", node=3) == []
    assert calls("dec_swa_lock_only", node=3) == [rules.DEVICE_LOCKS]
    assert calls("dec_lock_ref", node=3) == [rules.DEVICE_LOCKS]


def test_a_locked_node_keeps_its_device_slots(calls: Calls) -> None:
    calls("inc_lock_ref", node=3)
    assert calls("demote", node=3) == [rules.LOCKED]
    assert calls("evict_device_leaf", node=4) == []


def test_an_ack_needs_a_transfer(calls: Calls) -> None:
    assert calls("finish_load_back", node=5) == [rules.TRANSFERS]
    assert calls("finish_write_through", nodes=[5], ack=5) == [rules.TRANSFERS]


def test_a_mark_needs_a_backup_and_ends_with_it(calls: Calls) -> None:
    assert calls("mark_write_through_pending", nodes=[5], ack=5) == [rules.MARKS]
    calls.backup(6, device=[1], host=[7])
    assert calls("mark_write_through_pending", nodes=[6], ack=6) == []
    calls("match_prefix", splits=[[6, 6, 8, 6]])
    assert calls("finish_write_through", nodes=[6], ack=6) == [rules.MARKS]  # the prefix, 8, keeps it
    calls.backup(6, device=[2], host=[8])
    calls("mark_write_through_pending", nodes=[6], ack=6)
    calls("match_prefix", splits=[[6, 6, 9, 6]])
    assert calls("finish_write_through", nodes=[9, 6], ack=6) == []


def test_nothing_outlives_a_reset(calls: Calls) -> None:
    calls("inc_lock_ref", node=3)
    calls.backup(5, device=[1], host=[7])
    assert calls("reset") == ["safety.backup-destination-stays"]
    assert calls.ledger.copies == 0
    assert calls("dec_lock_ref", node=3) == [rules.DEAD]
    assert calls("dec_lock_ref", node=3) == [rules.DEVICE_LOCKS]
    assert calls("begin_insert", gives=[[*DEVICE, [1, 2, 3]]]) == []
    assert calls("reset") == []


def test_swa_slots_are_followed_where_the_core_says_which(calls: Calls) -> None:
    calls("begin_insert", rebuilds=[[2, [1, 2]]])
    calls("set_component_device_value", node=2, component="swa", gives=[["device", "swa", [11, 12]]])
    rows = [["device", "swa", [11, 12]]]
    calls("commit_backup", node=2, reads=rows)
    freed = {"frees": [["device", "swa_behind", [2]]]}
    assert calls("drive_host_eviction", **freed) == ["safety.backup-source-stays"]
    assert calls("drive_host_eviction", **freed) == []  # nothing is behind it any more: the server's map says 0
    calls("commit_load_back", node=9, pairs=[[[3], [13]]], writes=[["device", "swa", [13]]])
    freed = {"frees": [["device", "swa_behind", [3]]]}
    assert calls("demote", node=9, **freed) == ["safety.load-back-destination-stays"]


def test_slots_that_were_not_read_are_left_alone(calls: Calls) -> None:
    assert calls("demote", node=1, frees=[[*DEVICE, None]]) == []
    assert calls("commit_backup", node=1, gives=[[*HOST, [7]]], reads=[[*DEVICE, None]], writes=[[*HOST, [7]]]) == []


def test_the_words_say_which_slots_and_which_calls(calls: Calls) -> None:
    calls.backup(5, device=[1, 2], host=[7, 8])
    record = {"seq": 9, "call": "demote", "node": 5, "frees": [[*DEVICE, [1, 2]]]}
    (breach,) = [*calls.ledger.before(record), *calls.ledger.after(record)]
    assert breach.words == "device full slot 1 and 1 more freed, and the backup of node 5 (call 2) reads it"


@pytest.mark.parametrize("nodes", [1_000, 100_000])
def test_a_call_costs_the_same_in_any_tree(nodes: int) -> None:
    calls = Calls()
    for node in range(nodes):
        calls("begin_insert", gives=[[*DEVICE, [node]]], done={"prefix": 0, "mamba_exist": True})
    before, costs = calls.ledger.work, []
    for step in (
        lambda: calls("inc_lock_ref", node=5),
        lambda: calls("dec_lock_ref", node=5),
        lambda: calls("begin_insert", gives=[[*DEVICE, [nodes, nodes + 1]]]),
        lambda: calls.backup(5, device=[5], host=[7]),
        lambda: calls("mark_write_through_pending", nodes=[5], ack=5),
        lambda: calls("finish_write_through", nodes=[5], ack=5),
        lambda: calls("demote", node=5, frees=[[*DEVICE, [5]]]),
        lambda: calls.load_back(5, host=[7], device=[5]),
        lambda: calls("finish_load_back", node=5),
    ):
        assert step() == []
        costs.append(calls.ledger.work - before)
        before = calls.ledger.work
    assert costs == [2, 2, 4, 5, 3, 5, 3, 5, 4]
