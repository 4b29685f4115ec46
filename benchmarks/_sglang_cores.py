"""SGLang's tree cores under the benchmarks' load. Runs inside their environment, started by `_sides.py`.

Reads one JSON object a line, does the job that it names, answers with one line that starts with `ANSWER`. The jobs do
to the core what SGLang's cache does to it, with slots that come from one counter: no pools, no bytes, nothing but the
tree, so that the numbers are the core's own.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import sys
import tracemalloc
from array import array
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import _chat
import _memory
import _mooncake

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance" / "sglang"))
import loader  # type: ignore[import-not-found]

ANSWER = "ANSWER "


class Server:
    """What a cache does around a core: it executes actions and drives evictions."""

    def __init__(self, core: str, page: int, components: list[str], window: int, policy: str, slots: int) -> None:
        import torch

        self.torch = torch
        self.made = loader.build(core, "0.5.23", tuple(components), page, window, policy, threshold=1 << 30)
        self.tree = self.made.tree
        self.page = page
        self.full = self.made.types["full"]
        self.swa = self.made.types.get("swa")
        self.mamba = "mamba" in components
        self.window = window
        self.slots = torch.arange(1, slots + 1, dtype=torch.int64)
        self.free = slots

    def insert(self, key: Any, value: Any, start: int, inserted: int = 0, state: Any = None) -> Any:
        """A whole insert, its actions executed."""
        params = self.made.InsertParams(key=key, value=value, prev_prefix_len=start, inserted_len=inserted)
        if self.swa is not None:
            floor = max(0, len(value) - self.window)
            params.component_evicted_seqlens[self.swa] = floor - floor % self.page
        if self.mamba:
            params.mamba_value = state
        tree = self.tree
        step = tree.begin_insert(params)
        while True:
            if step.actions:
                self.act(step.actions)
            if step.result is not None:
                break
            step = tree.resume_insert()
        left = tree.end_insert()
        if left:
            self.act(left)
        return step.result

    def act(self, actions: list[Any]) -> None:
        """Execute the actions that matter to the tree, and count what is freed."""
        for action in actions:
            kind = type(action).__name__
            if kind == "SWARebuild":
                self.tree.set_component_device_value(action.node_id, self.swa, action.source_value)
            elif kind == "RecoverSWAWithLockedFull":
                self.tree.set_component_device_value(action.node_id, self.swa, action.incoming_full)
                self.free += len(action.incoming_full)
            elif kind in ("FreeDeviceKV", "FreeDeviceKVFullOnly"):
                self.free += sum(len(each) for each in action.indices)

    def evict(self, count: int) -> int:
        """Evict `count` tokens of FULL from the device, as a cache without host room does."""
        tree, full = self.tree, self.full
        tracker = dict.fromkeys(self.made.types.values(), 0)
        tree.evict_device_start(full, count)
        try:
            while True:
                step = tree.evict_device_next_node(full, tracker)
                self.drain(step, tracker)
                if step.node_id is None:
                    if not step.made_progress:
                        break
                    continue
                leaf = tree.evict_device_leaf(step.node_id, False)
                self.drain(leaf, tracker)
        finally:
            tree.evict_device_end(full)
        self.free += tracker[full]
        return int(tracker[full])

    def drain(self, step: Any, tracker: dict[Any, int]) -> None:
        """Take the frees of an eviction step."""
        for which, count in step.tracker.items():
            tracker[which] += count
        step.device_frees.clear()
        step.host_frees.clear()
        step.cache_actions.clear()


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds that `run` took, and what it returned; as on our side."""
    gc.collect()
    gc.freeze()
    begun = process_time()
    found = run()
    seconds = process_time() - begun
    gc.unfreeze()
    return seconds, found


chats: dict[str, Callable[[int, int], list[int]]] = {}


def begin_chat(job: dict[str, Any]) -> dict[str, Any]:
    """An empty tree for match, lock, insert, unlock; `chat` goes on with it."""
    requests = _chat.chat(job["conversations"], job["page"], job["seed"], "q")
    longest = max(len(whole) for _, whole in requests)
    server = Server(job["core"], job["page"], job["components"], job["window"], "write_back", longest)
    given = [
        (server.made.RadixKey, server.made.MatchPrefixParams, prompt, whole, server.slots[: len(whole)])
        for prompt, whole in requests
    ]
    states = [server.torch.tensor([n + 1]) for n in range(len(requests))]

    def run(low: int, high: int) -> list[int]:
        tree, insert, answers = server.tree, server.insert, []
        for (key, params, prompt, whole, value), state in zip(given[low:high], states[low:high], strict=True):
            found = tree.match_prefix(params(key=key(prompt)))
            node, matched = found.last_device_node, found.device_prefix_len
            receipt = tree.inc_lock_ref(node).to_dec_params()
            insert(key(whole), value, matched, 0, state)
            tree.dec_lock_ref(node, receipt)
            answers.append(matched)
        return answers

    chats[job["core"]] = run
    gc.collect()
    gc.freeze()
    return {}


def chat(job: dict[str, Any]) -> dict[str, Any]:
    """Some requests of a chat that was begun."""
    begun = process_time()
    answers = chats[job["core"]](job["low"], job["high"])
    return {"seconds": process_time() - begun, "answers": answers}


def mooncake(job: dict[str, Any]) -> dict[str, Any]:
    """The same with a bounded device: before an insert, what is short is evicted."""
    requests = _mooncake.requests(job["path"], job["page"], job["limit"], "q")
    capacity = job["capacity"]
    server = Server(job["core"], job["page"], ["full"], 0, "write_through", capacity)
    page = job["page"]

    def run() -> tuple[float, list[int]]:
        tree, answers, spent = server.tree, [], 0.0
        key, params = server.made.RadixKey, server.made.MatchPrefixParams
        for prompt, whole in requests:
            value = server.slots[: len(whole)]
            begun = process_time()
            found = tree.match_prefix(params(key=key(prompt)))
            node, matched = found.last_device_node, found.device_prefix_len
            receipt = tree.inc_lock_ref(node).to_dec_params()
            need = len(whole) - matched
            if need > server.free:
                server.evict(need - server.free)
            if need <= server.free:
                server.free -= need
                server.insert(key(whole), value, matched)
            tree.dec_lock_ref(node, receipt)
            spent += process_time() - begun
            answers.append(matched)
        return spent, answers

    gc.collect()
    gc.freeze()
    spent, answers = run()
    gc.unfreeze()
    assert server.free % page == 0
    return {"seconds": spent, "answers": answers, "operations": 4 * len(answers)}


def evict(job: dict[str, Any]) -> dict[str, Any]:
    """Microseconds an evicted leaf, of `leaves` leaves of one page below the root."""
    page, leaves, some = job["page"], job["leaves"], job["evicted"]
    server = Server(job["core"], page, ["full"], 0, "write_through", page)
    for number in range(leaves):
        server.insert(server.made.RadixKey(array("q", range(number * page, (number + 1) * page))), server.slots, 0)

    def run() -> int:
        return sum(server.evict(page) for _ in range(some))

    seconds, freed = timed(run)
    assert freed == some * page
    return {"seconds": seconds, "operations": some}


def load_back(job: dict[str, Any]) -> dict[str, Any]:
    """Build, commit and ack of load-backs of one leaf under a path of others, without any bytes.

    The leaf is demoted between two of them, outside the time.
    """
    page, depth, pages, rounds = job["page"], job["depth"], job["pages"], job["rounds"]
    length = depth * pages * page
    server = Server(job["core"], page, ["full"], 0, job["policy"], 4 * length)
    tree = server.tree
    chain = []
    for count in range(1, depth + 1):
        end = count * pages * page
        result = server.insert(server.made.RadixKey(array("q", range(end))), server.slots[:end], end - pages * page)
        chain.append(result.last_device_node)
    for at, node in enumerate(chain):
        value, transfers = tree.build_backup_spec(node)
        host = server.slots[at * len(value) : (at + 1) * len(value)]
        tree.commit_backup(node, host, transfers)
        tree.mark_write_through_pending([node], node)
        tree.finish_write_through([node], node)
    anchor = chain[-1]
    fresh = server.slots[2 * length : 2 * length + pages * page]
    spent = 0.0
    for _ in range(rounds):
        tracker = dict.fromkeys(server.made.types.values(), 0)
        tree.evict_device_start(server.full, pages * page)
        step = tree.evict_device_next_node(server.full, tracker)
        assert step.node_id == anchor
        leaf = tree.evict_device_leaf(anchor, job["policy"] == "write_back")
        server.drain(step, tracker)
        server.drain(leaf, tracker)
        tree.evict_device_end(server.full)
        begun = process_time()
        host_receipt = tree.inc_host_lock_ref(anchor).to_dec_params()
        receipt = tree.inc_lock_ref(anchor).to_dec_params()
        full, transfers = tree.build_load_back_spec(anchor)
        assert full.host_indices.numel() == pages * page
        tree.dec_lock_ref(anchor, receipt)
        server.act(list(tree.commit_load_back(anchor, fresh, full, transfers)))
        receipt = tree.inc_lock_ref(anchor).to_dec_params()
        tree.finish_load_back(anchor)
        tree.dec_lock_ref(anchor, receipt)
        tree.dec_host_lock_ref(anchor, host_receipt)
        spent += process_time() - begun
    return {"seconds": spent, "operations": rounds}


def shadow(job: dict[str, Any]) -> dict[str, Any]:
    """Requests and load-backs in a tree of `nodes` leaves; `behind`: nothing, a shadow, or one that records.

    Each round is what a server does: match, lock, insert a new leaf, unlock; then the leaf used least recently is
    backed up, demoted and loaded back. The slots are fresh ones each time, as the shadow would notice otherwise.
    """
    page, nodes, rounds = job["page"], job["nodes"], job["rounds"]
    server = Server(job["core"], page, ["full"], 0, "write_through", (nodes + 4 * rounds) * page)
    state = None
    if job["behind"] != "nothing":
        server.tree, state = behind_a_shadow(server.tree, job["trace"] if job["behind"] == "recording" else "")
    tree, used = server.tree, 0

    def take() -> Any:
        nonlocal used
        used += page
        return server.slots[used - page : used]

    def key(number: int) -> Any:
        return server.made.RadixKey(array("q", range(number * page, (number + 1) * page)))

    numbers = {server.insert(key(number), take(), 0).last_device_node: number for number in range(nodes)}
    calls = state.calls if state is not None else 0
    work = state.ledger.work if state is not None else 0

    spent = 0.0
    gc.collect()
    gc.freeze()
    for number in range(nodes, nodes + rounds):
        begun = process_time()
        found = tree.match_prefix(server.made.MatchPrefixParams(key=key(number * 7919 % nodes)))
        receipt = tree.inc_lock_ref(found.last_device_node).to_dec_params()
        leaf = server.insert(key(number), take(), 0).last_device_node
        tree.dec_lock_ref(found.last_device_node, receipt)
        spent += process_time() - begun
        numbers[leaf] = number
        seconds, loaded = reload(server, take)
        spent += seconds
        tree.match_prefix(server.made.MatchPrefixParams(key=key(numbers[loaded])))
    gc.unfreeze()
    told = {"seconds": spent, "operations": rounds}
    if state is not None:
        assert not state.reporter.counts, state.reporter.counts
        assert not state.broken
        told["calls"] = (state.calls - calls) / rounds
        told["work"] = (state.ledger.work - work) / rounds
        state.reporter.close()
    return told


def behind_a_shadow(tree: Any, trace: str) -> tuple[Any, Any]:
    """The tree behind a shadow, and the shadow."""
    # The package by itself: this process has no pinproof, and must not see the folder's other modules.
    sys.path.insert(0, str(Path(loader.__file__).resolve().parents[1]))
    try:
        found = importlib.import_module("shadow")
    finally:
        del sys.path[0]
    home = loader.module("mem_cache.unified_cache.unified_tree_core_interface")
    core = found.wrap(tree, home.UnifiedTreeCoreInterface, ("full",), found.Settings("observe", trace))
    return core, found.shadow_of(core)


def reload(server: Server, take: Callable[[], Any]) -> tuple[float, int]:
    """Back up, demote and load back the leaf that was used least recently: the seconds it took, and the leaf.

    To find the leaf is not in the time: the cores' walks take longer in larger trees.
    """
    tree, page = server.tree, server.page
    tracker = dict.fromkeys(server.made.types.values(), 0)
    tree.evict_device_start(server.full, page)
    step = tree.evict_device_next_node(server.full, tracker)
    node: int = step.node_id
    begun = process_time()
    value, transfers = tree.build_backup_spec(node)
    assert value.numel() == page
    tree.commit_backup(node, take(), transfers)
    tree.mark_write_through_pending([node], node)
    tree.finish_write_through([node], node)
    leaf = tree.evict_device_leaf(node, False)
    server.drain(step, tracker)
    server.drain(leaf, tracker)
    spent = process_time() - begun
    tree.evict_device_end(server.full)
    begun = process_time()
    host_receipt = tree.inc_host_lock_ref(node).to_dec_params()
    receipt = tree.inc_lock_ref(node).to_dec_params()
    full, transfers = tree.build_load_back_spec(node)
    assert full.host_indices.numel() == page
    tree.dec_lock_ref(node, receipt)
    server.act(list(tree.commit_load_back(node, take(), full, transfers)))
    receipt = tree.inc_lock_ref(node).to_dec_params()
    tree.dec_lock_ref(node, receipt)
    tree.dec_host_lock_ref(node, host_receipt)
    tree.finish_load_back(node)
    return spent + process_time() - begun, node


def memory(job: dict[str, Any]) -> dict[str, Any]:
    """Bytes that the tree of the chat takes: resident memory (both cores), and what Python knows of (Python core)."""
    requests = _chat.chat(job["conversations"], job["page"], job["seed"], "q")
    longest = max(len(whole) for _, whole in requests)
    server = Server(job["core"], job["page"], job["components"], job["window"], "write_back", longest)
    given = [(server.made.RadixKey(whole), server.slots[: len(whole)]) for _, whole in requests]
    states = [server.torch.tensor([n + 1]) for n in range(len(requests))]
    gc.collect()
    before = _memory.resident()
    tracemalloc.start()
    for (key, value), state in zip(given, states, strict=True):
        server.insert(key, value, 0, 0, state)
    known = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    gc.collect()
    tokens = sum(server.tree.total_size()[:1])
    return {"resident": _memory.resident() - before, "traced": known, "tokens": tokens}


JOBS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "begin_chat": begin_chat,
    "chat": chat,
    "mooncake": mooncake,
    "evict": evict,
    "load_back": load_back,
    "memory": memory,
    "shadow": shadow,
}


def main() -> None:
    """Do jobs until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True, help="the unpacked wheel")
    _memory.keep()
    loader.open_release(parser.parse_args().source)
    for line in sys.stdin:
        job = json.loads(line)
        print(ANSWER + json.dumps(JOBS[job["do"]](job)), flush=True)


if __name__ == "__main__":
    main()
