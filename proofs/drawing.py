"""A counterexample as text: the tree before, the action, the tree after with what changed marked by `*`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..model.vocabulary import PHASES
from .counterexample import Counterexample
from .picture import Picture

_HELD = {
    "device_lock": "device lock",
    "host_lock": "host lock",
    "reads": "read by load-back",
    "writes": "written by backup",
    "load_back_pending": "pinned by",
    "write_through_pending": "marked by",
    "storage_reads": "stored by",
    "anchor": "anchor of",
}


def draw(example: Counterexample) -> str:
    """The whole story in a few lines of plain text, without a final newline."""
    args = ", ".join(f"{name}={value}" for name, value in example.args.items())
    lines = [f"{example.obligation}", "before", *_tree(example.before, None, example.components)]
    if example.action:
        lines.append(f"action  {example.action}({args})")
    if example.after is not None:
        lines += ["after", *_tree(example.after, example.before, example.components)]
    lines.append(f"broken  {example.subject}: {example.words}")
    lines += [f"        not so: {part}" for part in example.false]
    return "\n".join(lines)


def _tree(picture: Picture, other: Picture | None, components: Sequence[str]) -> Iterator[str]:
    old = dict(_rows(other, components)) if other is not None else None
    for key, words in _rows(picture, components):
        mark = "*" if old is not None and old.get(key) != words else " "
        yield f"{mark} {words}".rstrip()
    for key in old or {}:
        if key not in dict(_rows(picture, components)):
            yield f"* {key} is gone"


def _rows(picture: Picture, components: Sequence[str]) -> Iterator[tuple[str, str]]:
    """One line a node, then one a holder, each with a key that says whose line it is."""
    yield from _below(0, "", "", picture, components)
    phases: dict[int, list[str]] = {}
    for relation in (*(p.name for p in PHASES), "reserved", "filling"):
        for (holder,) in picture.facts.get(relation, []):
            phases.setdefault(holder, []).append(relation)
    for holder in sorted(phases):
        yield f"holder {holder}", f"holder {holder}: {', '.join(phases[holder])}"


def _below(node: int, first: str, rest: str, picture: Picture, components: Sequence[str]) -> Iterator[tuple[str, str]]:
    name = "root" if node == 0 else f"node {node}"
    yield f"node {node}", f"{first}{name}  {_cells(node, picture, components)}"
    children = sorted(n for n, parent in picture.parents.items() if parent == node)
    for child in children:
        last = child == children[-1]
        yield from _below(
            child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "), picture, components
        )


def _cells(node: int, picture: Picture, components: Sequence[str]) -> str:
    cells = [f"{c} {tiers}" for c in components if (tiers := _tiers(node, c, picture))]
    for relation, words in _HELD.items():
        for component in ("", *components):
            name = f"{relation}.{component}" if component else relation
            holders = [str(row[1]) for row in picture.facts.get(name, []) if row[0] == node]
            if holders:
                cells.append(f"{component} {words} {', '.join(holders)}".strip())
    cells += [flag for flag in ("tracked_duplicate", "stored") if [node] in picture.facts.get(flag, [])]
    return " · ".join(cells)


def _tiers(node: int, component: str, picture: Picture) -> str:
    """As in events: D or d on the device with or without its bytes, H or h on the host."""
    found = ""
    for family, letter in (("device", "D"), ("host", "H")):
        there = [node] in picture.facts.get(f"{family}.{component}", [])
        arrived = [node] in picture.facts.get(f"{family}_arrived.{component}", [])
        found += letter if there and arrived else letter.lower() if there else "!" if arrived else ""
    return found
