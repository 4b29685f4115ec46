"""Two trees side by side in a terminal, with only the differences lit, and a violation in a few lines.

Trees are the plain data of `tree`: `{node: {"parent": 0, "full": "DH", "lock.full": 1, "pin": 7, …}}`. Nothing in
them is taken for markup. Colours are rich's to give or withhold: none when not a terminal, none with NO_COLOR.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..model.state import ROOT_NODE
from ..model.vocabulary import COMPONENTS
from .judge import Violation
from .story import Step
from .tree import Flat, Tree, difference
from .words import shorten

NEARBY = 24
"""Nodes of a larger tree that are shown: those that differ, their ancestors, and what is next to them."""


def side_by_side(
    before: Tree,
    after: Tree,
    *,
    titles: tuple[str, str] = ("before", "after"),
    widest: int = NEARBY,
    more: Sequence[tuple[Text, Text]] = (),
) -> RenderableType:
    """Two trees next to each other. What differs is bold, on the left as it was, on the right as it is.

    A mark says so without colour too: `-` for what is no more, `+` for what is new, `~` for what is different.

    Args:
        widest: how many nodes a tree may have that is shown whole.
        more: rows below the trees.
    """
    shown = _worth_showing(before, after, widest)
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="dim", show_header=True)
    for title in titles:
        table.add_column(Text(title), no_wrap=True, overflow="ellipsis")
    for left, right in (*_rows(before, after, shown), *more):
        table.add_row(left, right)
    hidden = len({*before, *after}) - len(shown)
    return Group(table, Text(f"… and {hidden:,} nodes that are the same", style="dim")) if hidden > 0 else table


def breach(violation: Violation, step: Step | None = None) -> RenderableType:
    """A violation in a few lines: what happened, the rule, the conjunct that is false, and why."""
    lines: list[Text] = []
    head = Text(violation.title, style="bold red")
    if step is not None:
        head.append(f" at step {step.seq}: ", style="bold red").append(shorten(step.words, 200), style="bold")
    lines.append(head)
    rows: list[tuple[str, str]] = [("rule", f"{violation.words}  ({violation.rule})")]
    if violation.conjunct:
        rows.append(("false", violation.conjunct))
    rows += [("because" if i == 0 else "", fact.words) for i, fact in enumerate(violation.facts)]
    one, other = violation.sides
    for d in violation.differences[:12]:
        rows.append(("differs", f"node {d.node}, {d.field}: {one} says {d.expected}, {other} {d.observed}"))
    if len(violation.differences) > 12:
        rows.append(("", f"… and {len(violation.differences) - 12} more"))
    if violation.source:
        rows.append(("from", violation.source))
    return Group(*lines, *labelled(rows))


def labelled(rows: Sequence[tuple[str, str]]) -> Iterator[Text]:
    """A line a row: what it is, and the words."""
    for name, words in rows:
        yield Text(f"  {name:8}", style="dim").append(shorten(_one_line(words), 400), style="not dim")


def _worth_showing(before: Tree, after: Tree, widest: int) -> set[int]:
    nodes = {*before, *after}
    if len(nodes) <= widest:
        return nodes
    differing = [n for n in sorted(nodes) if difference(before.get(n, {}), after.get(n, {}))]
    found = {ROOT_NODE}
    for node in differing:
        for tree in (before, after):
            walk = node
            while walk in tree and walk not in found:
                found.add(walk)
                walk = int(tree[walk].get("parent", ROOT_NODE))
        found.add(node)
    return found


def _rows(before: Tree, after: Tree, shown: set[int]) -> Iterator[tuple[Text, Text]]:
    """One row a node, in the order of the tree after, with nodes that are gone where they were."""
    parents = {n: int((after.get(n) or before.get(n) or {}).get("parent", ROOT_NODE)) for n in shown if n != ROOT_NODE}
    children: dict[int, list[int]] = {}
    for node in sorted(parents):
        children.setdefault(parents[node] if parents[node] in shown else ROOT_NODE, []).append(node)

    todo: list[tuple[int, str, str]] = [(ROOT_NODE, "", "")]
    while todo:
        node, guide, rest = todo.pop()
        yield _side(node, guide, before, after, "-"), _side(node, guide, after, before, "+")
        kids = children.get(node, [])
        for number, kid in reversed(list(enumerate(kids))):
            last = number == len(kids) - 1
            todo.append((kid, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  ")))


def _side(node: int, guide: str, tree: Tree, other: Tree, sign: str) -> Text:
    flat, there = tree.get(node), other.get(node)
    name = "root" if node == ROOT_NODE else str(node)
    if flat is None:
        return Text("")
    lit = "bold red" if sign == "-" else "bold green"
    text = Text()
    differs = there is None or bool(difference(flat, there))
    mark = sign if there is None else "~" if differs else " "
    text.append(f"{mark} ", style=lit if differs else "").append(guide, style="dim")
    text.append(name, style=lit if there is None else "")
    for label, words, fields in _cells(flat, there or {}):
        changed = there is not None and any(flat.get(f) != there.get(f) for f in fields)
        text.append("  ").append(label + words, style=lit if changed or there is None else "")
    return text


def _cells(flat: Flat, other: Flat) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(label, words, fields) of a node, in a stable order; a field that only the other side has shows as `–`."""
    for c in COMPONENTS:
        if c in flat or c in other:
            yield f"{c} ", str(flat.get(c, "–")), (c,)
        locks = [(f"{kind}.{c}", sign) for kind, sign in (("lock", "D"), ("host_lock", "H"))]
        if any(name in flat or name in other for name, _ in locks):
            told = " ".join(f"{sign}{flat.get(name, 0)}" for name, sign in locks if name in flat or name in other)
            yield "locks ", told, tuple(name for name, _ in locks)
    for field, label in (("pin", "pinned by "), ("mark", "marked by ")):
        if field in flat or field in other:
            yield label, str(flat.get(field, "–")), (field,)
    for field in ("duplicate", "stored"):
        if field in flat:
            yield field, "", (field,)
    if "parent" in other and "parent" in flat and flat["parent"] != other["parent"]:
        yield "below ", str(flat["parent"]), ("parent",)


def _one_line(words: object) -> str:
    return " ".join(str(words).split())


def plain(tree: Mapping[int, Mapping[str, str | int]]) -> Tree:
    """Any mapping of that form as a tree."""
    return {int(node): dict(flat) for node, flat in tree.items()}
