"""A neutral story: what happened, step by step, with the tree, the operations and what changed; in bounded memory.

A *tree* here is plain data: `{node: {field: value}}`, where a field that has its default value is left out. Fields:

| field | value |
|---|---|
| parent | node id; a node without one is not in the tree (the root, 0, has none and is always there) |
| full, swa, mamba | where its slots are: `D`/`d` device, bytes there or not yet, `H`/`h` the same on the host |
| lock.C, host_lock.C | how many hold it, for component C |
| pin, mark | the operation of `load_back_pending_id`, `write_through_pending_id` |
| duplicate, stored | 1 |
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ..model.state import ROOT_NODE, Projection
from ..model.vocabulary import Component
from .judge import Judge, Violation
from .words import BEGINS, COMMITS, ENDS, FAMILY, HolderKind, sentence, shorten, split_name

Value = str | int
Flat = dict[str, Value]
Tree = dict[int, Flat]
Change = dict[str, tuple[Value | None, Value | None]]
"""Field: value before, value after; None for the default."""

Held = dict[int, dict[str, tuple[list[int], list[int]]]]
"""What operations take and give back: operation, relation, (nodes taken, nodes given back)."""

_ROOT: Flat = {"full": "DH"}

BUCKETS = 400
"""Columns of the overview at most."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a source, arguments apart from their component. `post` is None where the source has no states."""

    seq: int
    action: str
    args: Mapping[str, int]
    component: str | None = None
    refused: bool = False
    reason: str = ""
    tag: str = ""
    post: Mapping[int, Projection | None] | None = None
    reported: Violation | None = None


@dataclass(slots=True)
class Step:
    """One event, told."""

    seq: int
    action: str
    component: Component | None
    args: dict[str, int]
    refused: bool = False
    reason: str = ""
    tag: str = ""
    changes: dict[int, Change] = field(default_factory=dict)
    held: Held = field(default_factory=dict)

    @property
    def words(self) -> str:
        """What happens, as a sentence."""
        return sentence(self.action, {**self.args, "component": self.component})

    @property
    def family(self) -> str:
        """What it is at a glance."""
        return FAMILY.get(split_name(self.action)[0], "other")

    @property
    def nodes(self) -> list[int]:
        """The nodes that it is about."""
        named = [v for k, v in self.args.items() if k in ("node", "leaf", "parent", "prefix", "top")]
        return list(dict.fromkeys([*named, *self.changes]))

    def size(self) -> int:
        """About how many bytes it takes on a page."""
        fields = sum(len(change) for change in self.changes.values())
        held = sum(len(a) + len(b) + 3 for rows in self.held.values() for a, b in rows.values())
        return 200 + len(self.tag) + len(self.reason) + 26 * fields + 8 * held


@dataclass(slots=True)
class Lane:
    """The life of one operation, in positions of steps: begun, bytes moving, ended; None where that did not happen."""

    holder: int
    kind: HolderKind
    begin: int
    commit: int | None = None
    end: int | None = None
    how: str = ""
    node: int | None = None


@dataclass(slots=True)
class Overview:
    """Counts for the whole source in at most `BUCKETS` columns of `width` steps each."""

    width: int = 1
    total: int = 0
    rows: dict[str, list[int]] = field(default_factory=dict)

    def count(self, family: str) -> None:
        """One more step, of that family."""
        column = self.total // self.width
        if column >= BUCKETS:
            self.width *= 2
            for name, row in self.rows.items():
                even = row + [0] * (len(row) % 2)
                self.rows[name] = [a + b for a, b in zip(even[::2], even[1::2], strict=True)]
            column = self.total // self.width
        row = self.rows.setdefault(family, [])
        row.extend([0] * (column + 1 - len(row)))
        row[column] += 1
        self.total += 1


@dataclass(slots=True)
class Story:
    """What a page needs. `first` is the position of the first step that is kept; `base` the tree just before it."""

    title: str
    header: Mapping[str, object]
    components: tuple[Component, ...]
    steps: list[Step]
    base: Tree
    base_held: dict[int, dict[str, list[int]]]
    lanes: list[Lane]
    overview: Overview
    first: int = 0
    violation: Violation | None = None
    at: int | None = None
    """Position of the violating step."""
    reproduce: str = ""
    note: str = ""

    def tree(self, position: int) -> Tree:
        """The tree after the step at `position` (`first - 1` for the base)."""
        tree = {node: dict(flat) for node, flat in self.base.items()}
        for step in self.steps[: position - self.first + 1]:
            apply(tree, step.changes)
        return tree

    def pair(self, position: int) -> tuple[Tree, Tree]:
        """The trees before and after a step."""
        return self.tree(position - 1), self.tree(position)


def flatten(projection: Projection | None, parent: int | None) -> Flat:
    """A node's observed state as flat fields."""
    if projection is None:
        return {}
    flat: Flat = {} if parent is None else {"parent": parent}
    for name, value in projection.items():
        if name in _COUNTS and isinstance(value, Mapping):
            prefix = _COUNTS[name]
            for component, count in value.items():
                if count and isinstance(count, int):
                    flat[f"{prefix}.{component}"] = count
        elif isinstance(value, bool):
            if value:
                flat[name] = 1
        elif isinstance(value, int):
            flat[_IDS.get(name, name)] = value
        elif isinstance(value, str):
            flat[name] = value if len(value) < 40 else shorten(value, 40)
    return flat


_COUNTS = {"lock_ref": "lock", "host_lock_ref": "host_lock"}
_IDS = {"load_back_pending_id": "pin", "write_through_pending_id": "mark"}


def difference(before: Flat, after: Flat) -> Change:
    """The fields that differ."""
    if before == after:
        return {}
    found: Change = {n: (v, after.get(n)) for n, v in before.items() if after.get(n) != v}
    found.update((n, (None, v)) for n, v in after.items() if n not in before)
    return found


def apply(tree: Tree, changes: Mapping[int, Change]) -> None:
    """Do what changed to a tree; a node without a parent leaves it."""
    for node, change in changes.items():
        flat = tree.setdefault(node, {})
        for name, (_, value) in change.items():
            if value is None:
                flat.pop(name, None)
            else:
                flat[name] = value
        if node != ROOT_NODE and "parent" not in flat:
            del tree[node]


class Teller:
    """Turns events into a story.

    Args:
        judge: says what is wrong with an event and who holds what; without one, what the events say is shown.
        budget: bytes of steps to keep; those around the violation stay, or the last ones.
    """

    def __init__(self, components: tuple[Component, ...], judge: Judge | None = None, budget: int = 8_000_000) -> None:
        self.components = components
        self.judge = judge
        self.budget = budget
        self.steps: deque[Step] = deque()
        self.base: Tree = {ROOT_NODE: dict(_ROOT)}
        self.base_held: dict[int, dict[str, set[int]]] = {}
        self.overview = Overview()
        self.first = 0
        self.violation: Violation | None = None
        self.at: int | None = None
        self._tree: Tree = {ROOT_NODE: dict(_ROOT)}
        self._lanes: dict[int, Lane] = {}
        self._ended: deque[Lane] = deque()
        self._kept = 0
        self._full = False

    def start(self, tree: Tree) -> None:
        """The story begins with this tree instead of an empty one."""
        self.base = {n: dict(flat) for n, flat in tree.items()}
        self._tree = {n: dict(flat) for n, flat in tree.items()}

    def tell(self, events: Iterable[Event], **about: object) -> Story:
        """The whole story; `about` are fields of `Story` that the events do not say."""
        for event in events:
            self.step(event)
        last = self.first + len(self.steps)
        lanes = [lane for lane in (*self._ended, *self._lanes.values()) if lane.begin < last]
        held = {h: {r: sorted(nodes) for r, nodes in rows.items() if nodes} for h, rows in self.base_held.items()}
        return Story(
            title=str(about.get("title", "")),
            header=about.get("header", {}),  # type: ignore[arg-type]
            components=self.components,
            steps=list(self.steps),
            base=self.base,
            base_held={h: rows for h, rows in held.items() if rows},
            lanes=sorted(lanes, key=lambda lane: (lane.begin, lane.holder)),
            overview=self.overview,
            first=self.first,
            violation=self.violation,
            at=self.at,
            reproduce=str(about.get("reproduce", "")),
            note=str(about.get("note", "")),
        )

    def step(self, event: Event) -> None:
        """Tell one event."""
        name, component = split_name(event.action, event.component)
        args = dict(event.args)
        holder = args.get("holder")
        before = self._holdings(holder)
        wrong = None
        if self.judge is not None:
            wrong = self.judge.event(name, args, component=component, refused=event.refused, post=event.post)
        step = Step(
            event.seq,
            name,
            component,
            args,
            event.refused,
            shorten(event.reason),
            shorten(event.tag),
            dict(self._changes(name, event)),
            self._taken(name, args, before),
        )
        apply(self._tree, step.changes)
        position = self.overview.total
        self.overview.count("refused" if event.refused else step.family)
        self._live(name, event, position)
        if (wrong or event.reported) and self.violation is None:
            self.violation, self.at = event.reported or wrong, position
        self._keep(step)

    def _keep(self, step: Step) -> None:
        """Before a violation the oldest steps make room; after it, what does not fit any more is only counted."""
        if self._full:
            return
        self._kept += step.size()
        self.steps.append(step)
        if self.at is not None and self._kept > self.budget:
            self._full = True
        while self.at is None and self._kept > self.budget * 3 // 4:
            oldest = self.steps.popleft()
            self._kept -= oldest.size()
            self.first += 1
            apply(self.base, oldest.changes)
            self._hold(oldest.held)
            while self._ended and (self._ended[0].end or 0) < self.first:
                self._ended.popleft()

    def _hold(self, held: Held) -> None:
        for holder, relations in held.items():
            rows = self.base_held.setdefault(holder, {})
            for relation, (taken, given) in relations.items():
                rows.setdefault(relation, set()).update(taken)
                rows[relation].difference_update(given)
            if not any(rows.values()):
                del self.base_held[holder]

    def _changes(self, name: str, event: Event) -> Iterator[tuple[int, Change]]:
        if event.refused:
            return
        observed: Mapping[int, Projection | None] = event.post or {}
        if event.post is None and self.judge is not None:
            observed = {n: self.judge.machine.project(n) for n in self.judge.touched}
        parents = _parents(name, event.args, self._tree)
        gone = [n for n in self._tree if n != ROOT_NODE] if name == "reset" and not observed else ()
        for node in dict.fromkeys((*parents, *observed, *gone)):
            now = self._tree.get(node, {})
            parent = parents.get(node, now.get("parent"))
            if node == ROOT_NODE:
                after = flatten(observed.get(node), None) | _ROOT
            elif node in observed:
                after = flatten(observed[node], int(parent or ROOT_NODE))
            else:
                after = {} if node in gone else {**now, "parent": int(parent or ROOT_NODE)}
            if change := difference(now, after):
                yield node, change

    def _live(self, name: str, event: Event, position: int) -> None:
        holder = event.args.get("holder")
        if holder is None or event.refused:
            return
        if name in BEGINS and holder not in self._lanes:
            self._lanes[holder] = Lane(holder, BEGINS[name], position, node=event.args.get("node"))
        lane = self._lanes.setdefault(holder, Lane(holder, "operation", position))
        if name in COMMITS and lane.commit is None:
            lane.commit = position
        if name in ENDS:
            lane.end, lane.how = position, ENDS[name]
            self._ended.append(self._lanes.pop(holder))

    def _holdings(self, holder: int | None) -> dict[str, set[int]]:
        if holder is None or self.judge is None or self.judge.lost:
            return {}
        pairs = self.judge.machine.state.pairs
        return {name: set(rows.by_holder[holder]) for name, rows in pairs.items() if holder in rows.by_holder}

    def _taken(self, name: str, args: Mapping[str, int], before: dict[str, set[int]]) -> Held:
        """What the step's operation took and gave back; after a split, what every operation has on the prefix."""
        if self.judge is None or self.judge.lost:
            return {}
        found: Held = {}
        if name == "split":
            prefix = args.get("prefix", -1)
            for relation, pairs in self.judge.machine.state.pairs.items():
                for heir in pairs.holders(prefix):
                    found.setdefault(heir, {})[relation] = ([prefix], [])
        elif (holder := args.get("holder")) is not None:
            after = self._holdings(holder)
            for relation in dict.fromkeys((*before, *after)):
                old, new = before.get(relation, set()), after.get(relation, set())
                if old != new:
                    found.setdefault(holder, {})[relation] = (sorted(new - old), sorted(old - new))
        return found


def _parents(name: str, args: Mapping[str, int], tree: Tree) -> dict[int, int]:
    """Who has a new parent after an action."""
    match name:
        case "insert_leaf" | "insert_host" if "leaf" in args:
            return {args["leaf"]: args.get("parent", ROOT_NODE)}
        case "split" if "node" in args and "prefix" in args:
            above = tree.get(args["node"], {}).get("parent", ROOT_NODE)
            return {args["prefix"]: int(above), args["node"]: args["prefix"]}
    return {}
