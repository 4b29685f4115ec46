"""What each core lets us see of its tree (runs inside the environment).

`look` gives every node, parents first. The Python core shows everything. The Rust core prints its tree (structure,
lengths, which component is on device, locks of the full component) to file descriptor 1, and answers for a node whose
handle is known whether it is backed up and whether a component is on the host alone. What a core does not show is None
(a set or a flag) or missing (a count): unknown, never zero.
"""

from __future__ import annotations

import os
import re
from typing import Any


class Seen:
    """One node as observed.

    `key` names it between two looks; `parent` is the key of its parent, None for the root. `tokens` and `handle` are
    None where the core does not tell. `pin` and `pending` are the core's own names of the operation.
    """

    __slots__ = (
        "device",
        "handle",
        "host",
        "host_lock",
        "key",
        "length",
        "lock",
        "parent",
        "pending",
        "pin",
        "tokens",
        "tracked",
    )  # fmt: skip

    def __init__(self, key: Any, parent: Any, length: int) -> None:
        self.key, self.parent, self.length = key, parent, length
        self.tokens: tuple[int, ...] | None = None
        self.handle: Any = None
        self.device: list[str] = []
        self.host: list[str] | None = None
        self.lock: dict[str, int] = {}
        self.host_lock: dict[str, int] = {}
        self.pin: Any = None
        self.pending: Any = None
        self.tracked: bool | None = None


class PythonEyes:
    """Sees the nodes of the Python core themselves."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self.sees: tuple[str, ...] = ("device", "host", "lock", "host_lock", "pending")
        if hasattr(core.tree, "full_host_duplicates"):  # 0.5.17 has neither pins nor a set of duplicates
            self.sees += ("pin", "tracked")
        self._types = list(core.types.items())

    def root(self) -> tuple[Any, Any]:
        """Handle and key of the root."""
        number = self._core.tree.root_node.id
        return number, number

    def look(self, tree: Any) -> list[Seen]:
        """Every node, parents first, the root left out."""
        core = self._core.tree
        tracked = getattr(core, "full_host_duplicates", None)
        found: list[Seen] = []
        stack = [(child, core.root_node.id) for child in core.root_node.children.values()]
        while stack:
            node, parent = stack.pop()
            number = node.id
            known = tree.keys.get(number)
            length = len(node.key)
            seen = Seen(number, parent, length)
            if known is None:
                seen.tokens = tuple(node.key.token_ids[:length])
            seen.handle = number
            seen.host = []
            data = node.component_data
            for name, which in self._types:
                part = data[which]
                if part.value is not None:
                    seen.device.append(name)
                if part.host_value is not None:
                    seen.host.append(name)
                if part.lock_ref:
                    seen.lock[name] = part.lock_ref
                if part.host_lock_ref:
                    seen.host_lock[name] = part.host_lock_ref
            seen.pin = getattr(node, "load_back_pending_id", None)
            seen.pending = node.write_through_pending_id
            if tracked is not None:
                seen.tracked = number in tracked
            found.append(seen)
            stack.extend((child, number) for child in node.children.values())
        return found

    def slots(self, node: Any) -> dict[str, dict[str, list[int]]]:
        """The slots that the core itself holds for `node`, by tier and component."""
        data = self._core.tree.node_by_id(node.handle).component_data
        held: dict[str, dict[str, list[int]]] = {"device": {}, "host": {}}
        for name, which in self._types:
            part = data[which]
            if part.value is not None:
                held["device"][name] = part.value.tolist()
            if part.host_value is not None:
                held["host"][name] = part.host_value.tolist()
        return held


_LINE = re.compile(r"^( *)\[(\d+)\] (\d+) full_lock=(-?\d+)(.*)$")
_SAID = re.compile(r"(\w+)=(yes|no)")


class RustEyes:
    """Reads the tree that the Rust core prints, and asks it about the nodes whose handle is known.

    The printed labels are places in the core's arena: stable for a live node, given again after it is gone. Handles
    count up by one for every node ever made, so those of new nodes are known as a set and told apart by their slots.
    """

    sees = ("device", "host", "lock.full")

    def __init__(self, core: Any) -> None:
        self._core = core
        self._types = list(core.types.items())
        self._file = os.memfd_create("tree")
        self._next = core.tree.root_node_handle() + 1
        self.freed: dict[str, Any] = dict.fromkeys(core.types, ())
        """Host slots by component that the core has freed and the picture still shows."""

    def root(self) -> tuple[Any, Any]:
        """Handle and key of the root."""
        lines = self._printed()
        match = _LINE.match(lines[0])
        assert match is not None, f"unreadable tree: {lines[0]!r}"
        self._next = self._core.tree.root_node_handle() + 1
        return self._core.tree.root_node_handle(), int(match[2])

    def look(self, tree: Any) -> list[Seen]:
        """Every node, parents first, the root left out."""
        found: list[Seen] = []
        above: list[tuple[int, int]] = []
        for line in self._printed():
            match = _LINE.match(line)
            if match is None:
                continue
            depth, key = len(match[1]), int(match[2])
            while above and above[-1][0] >= depth:
                above.pop()
            if above:
                seen = Seen(key, above[-1][1], int(match[3]))
                if int(match[4]):
                    seen.lock["full"] = int(match[4])
                seen.device = [name.lower() for name, said in _SAID.findall(match[5]) if said == "yes"]
                found.append(seen)
            above.append((depth, key))
        for seen in found:
            known = tree.keys.get(seen.key)
            if known is not None and known.handle is not None:
                seen.handle = known.handle
                seen.host = self._host(known, seen.device)
        return found

    def name_new(self, tree: Any, new: list[Any]) -> None:
        """Learn the handles of the nodes that one call of the core made."""
        handles = range(self._next, self._next + len(new))
        self._next += len(new)
        if len(new) == 1:
            tree.name(new[0], handles[0])
            return
        first = {place: handle for handle in handles for place in self._first_slots(handle)}
        for node in new:
            tier, held = ("device", node.device) if "full" in node.device else ("host", node.host)
            tree.name(node, first[tier, held["full"][0]])

    def host_of(self, node: Any) -> list[str]:
        """The components of a node with a known handle that are on the host (see `_host`)."""
        return self._host(node, list(node.device))

    def slots(self, node: Any) -> dict[str, dict[str, list[int]]]:
        """The slots that the core itself holds for `node`, by tier and component, as far as it tells."""
        core = self._core.tree
        held: dict[str, dict[str, list[int]]] = {"device": {}, "host": {}}
        for name, which in self._types:
            value = core.get_component_device_value(node.handle, which)
            if value is not None:
                held["device"][name] = value.tolist()
        spec = core.build_storage_backup_spec(node.handle, False)
        if spec is not None:
            held["host"]["full"] = spec.host_value.tolist()
            for which, transfers in spec.comp_xfers.items():
                held["host"][self._core.names[which]] = transfers[0].host_indices.tolist()
        return held

    def _host(self, node: Any, device: list[str]) -> list[str]:
        core = self._core.tree
        there = ["full"] if core.is_backuped(node.handle) else []
        for name, which in self._types[1:]:
            if name not in device:
                if core.component_has_host_value_only(node.handle, which):
                    there.append(name)
            elif name in node.host and node.host[name][0] not in self.freed[name]:
                # Of what is on both tiers the core tells nothing: it is there until the core frees it.
                there.append(name)
        return there

    def _first_slots(self, handle: int) -> list[tuple[str, int]]:
        core = self._core.tree
        found = []
        value = core.get_component_device_value(handle, self._types[0][1])
        if value is not None:
            found.append(("device", int(value[0])))
        spec = core.build_storage_backup_spec(handle, False)
        if spec is not None:
            found.append(("host", int(spec.host_value[0])))
        return found

    def _printed(self) -> list[str]:
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)
        saved = os.dup(1)
        os.dup2(self._file, 1)
        try:
            self._core.tree.pretty_print()
        finally:
            os.dup2(saved, 1)
            os.close(saved)
        size = os.lseek(self._file, 0, os.SEEK_CUR)
        return os.pread(self._file, size, 0).decode().splitlines()
