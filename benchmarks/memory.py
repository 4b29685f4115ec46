"""Bytes that a cached token and a node take, beside SGLang's tree cores; the bytes of the pages themselves apart.

    python benchmarks/memory.py [--quick] [--json FILE]

The chat of `tree.py` is inserted, nothing else. Bytes are what the process has grown by (`statm`), each side in a
fresh process; for the Python sides also what `tracemalloc` knows of. Keys and slots are included, the pool's own
books are not: they do not grow. The other side's slot tensors are views of one tensor; what it copies of them counts.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tracemalloc
from typing import Any

import _chat
import _memory
import tree
from _sides import Cores, Row, options, show, write


def main() -> None:
    """Measure, print, write."""
    if len(sys.argv) == 4 and sys.argv[1] == "--ours":
        print(json.dumps(ours(json.loads(sys.argv[2]), int(sys.argv[3]))))
        return
    asked = options(__doc__)
    conversations = 8 if asked.quick else 300
    rows: list[Row] = []
    for components in tree.SETS:
        for page in (1, 64):
            job = {"page": page, "components": list(components), "window": tree.WINDOW, "seed": 0}
            command = [sys.executable, __file__, "--ours", json.dumps([list(components), page]), str(conversations)]
            sides = {"ours": json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)}
            why_not = None
            for core in ("python", "rust"):
                with Cores() as cores:
                    why_not = cores.why_not
                    if why_not is None:
                        sides[core] = cores.run(do="memory", core=core, conversations=conversations, **job)
            rows.append({"components": list(components), "page": page, "sides": sides})
    head = ("components, page", "nodes", "ours, bytes a token", "Python core", "Rust core", "ours, bytes a node")
    show(head, [line(row) for row in rows])
    if why_not:
        print(f"SGLang's cores were not measured: {why_not}")
    write(asked.json, rows)


def ours(what: tuple[list[str], int], conversations: int) -> dict[str, Any]:
    """One run in this process."""
    names, page = what
    requests = _chat.chat(conversations, page, 0)
    cache = tree.make(tuple(names), page, requests)
    cache.insert(requests[0][1])
    keys = [whole.tobytes() for _, whole in requests]
    gc.collect()
    before = _memory.resident()
    tracemalloc.start()
    for key in keys:
        cache.insert(key)
    known = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    gc.collect()
    nodes = list(cache.nodes.values())
    key_bytes = sum(len(node.key) for node in nodes)
    return {
        "resident": _memory.resident() - before,
        "traced": known,
        "tokens": key_bytes // 4,
        "nodes": len(nodes),
        "node": (known - key_bytes) / len(nodes),
    }


def line(row: Row) -> list[str]:
    """A row as text."""
    sides = row["sides"]
    tokens = sides["ours"]["tokens"]
    cells = [f"{'+'.join(row['components'])}, {row['page']}", str(sides["ours"]["nodes"])]
    cells.append(f"{sides['ours']['traced'] / tokens:.2f}")
    for core in ("python", "rust"):
        found = sides.get(core)
        bytes_ = None if found is None else found["traced"] if core == "python" else found["resident"]
        cells.append("not measured" if bytes_ is None else f"{bytes_ / tokens:.2f}")
    return [*cells, f"{sides['ours']['node']:,.0f}"]


if __name__ == "__main__":
    main()
